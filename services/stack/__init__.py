"""The native stack: a real Kafka and a real Postgres without Docker; here is what both share.

Rule: a guarded program dies with the process that started it, also when that one is SIGKILLed.
Rule: every error is a StackError whose first line says what to install or which log to read; below it, that log's tail.
Rule: a process is known by pid and start time, so a pid that the system gave to a stranger is never signalled.

How a program dies with us: a shell becomes the program by `exec`, and leaves behind a twice-forked `read` on a pipe whose
other end only we hold.  When we end, however that happens, the pipe ends, and the `read` kills the program.
PR_SET_PDEATHSIG was not taken: it fires when the *thread* that forked ends, so a fault test that restarts a broker from a
thread would lose it; it also needs Python code between fork and exec, which may deadlock beside other threads.
NB: a child that we fork without exec (multiprocessing's fork) inherits the pipe and keeps the programs alive.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
# Below the ephemeral ports (32768..60999): a client that keeps dialling a killed broker's port there can be given that very
# port as its own source, connects to itself, and the broker can never listen again.
PORTS = range(20_000, 32_000)
TAIL_LINES = 15
_given: set[int] = set()
_GUARDED = 'exec 3<&0 </dev/null; ( (read -r _ <&3 || kill -KILL $$) >/dev/null 2>&1 & ); exec "$@" 3<&-'
_DETACHED = '"$@" </dev/null >&2 & echo $!'


class StackError(RuntimeError):
    """The stack can't do what was asked; str() says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Process:
    """One running program.  `born` is its start time in clock ticks since boot, 0 where it was dead already."""

    name: str
    pid: int
    born: int
    log: Path

    def alive(self) -> bool:
        """Whether this very process runs; a zombie does not."""
        return self.born != 0 and _born(self.pid) == self.born

    def send(self, number: signal.Signals) -> None:
        """Signal it, where it still runs."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ended(self, within_s: float) -> bool:
        """Wait for its end; False when it still runs."""
        deadline = time.monotonic() + within_s
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.alive()

    def failure(self, said: str) -> StackError:
        """An error that quotes the tail of its log."""
        return failure(f"{self.name} {said}", self.log)


@dataclass(slots=True)
class Running:
    """A started program, and the pipe that guards it (None when it may outlive us)."""

    process: Process
    guard: subprocess.Popen[bytes] | None = None

    def stop(self, gently: signal.Signals, patience_s: float) -> None:
        """Ask it to end, and SIGKILL it when it did not after `patience_s`."""
        self.process.send(gently)
        if not self.process.ended(patience_s):
            self.kill()
        self._release()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.send(signal.SIGKILL)
        if not self.process.ended(10):
            raise StackError(f"{self.process.name} (pid {self.process.pid}) survives SIGKILL; see `ps`")
        self._release()

    def _release(self) -> None:
        """Reap it and send its watcher home; only then can its pid belong to somebody else."""
        if self.guard is None:
            return
        self.guard.wait()
        if self.guard.stdin and not self.guard.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # It ended before it had a watcher.
                self.guard.stdin.write(b"\n")
            self.guard.stdin.close()


def failure(said: str, log: Path) -> StackError:
    """An error that names the log file and quotes its tail."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    tail = "\n".join(f"  | {line[:300]}" for line in lines[-TAIL_LINES:]) or "  | (the log is empty)"
    return StackError(f"{said}; its log, {log}, ends with:\n{tail}")


def launch(
    name: str,
    command: Sequence[str | Path],
    log: Path,
    *,
    detached: bool,
    environ: Mapping[str, str] | None = None,
    user: int | None = None,
) -> Running:
    """Start `command` in a session of its own (Ctrl-C stays ours), its output appended to `log`, as `user` (a uid)."""
    script = _DETACHED if detached else _GUARDED
    with log.open("ab") as out:
        shell = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *map(str, command)],
            stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
            stdout=subprocess.PIPE if detached else out,
            stderr=out,
            env=None if environ is None else dict(environ),
            bufsize=0,  # What is written to the guard is there at once, or failed.
            start_new_session=True,
            cwd=log.parent,
            user=user,
            extra_groups=None if user is None else [],
        )
    if not detached:
        return Running(Process(name, shell.pid, _born(shell.pid), log), shell)
    pid = int(shell.communicate()[0])
    return Running(Process(name, pid, _born(pid), log))


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that this process was not given before."""
    for port in random.sample(PORTS, 200):
        if port not in _given and not port_taken(port):
            _given.add(port)
            return port
    raise StackError(f"no free port among {PORTS.start}..{PORTS.stop - 1}; see `ss -ltnp`")


def port_taken(port: int) -> bool:
    """Whether a server could not listen on 127.0.0.1:port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False


def listens(port: int) -> bool:
    """Whether somebody accepts connections on 127.0.0.1:port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((HOST, port)) == 0


def claim(name: str, port: int | None) -> int:
    """The port asked for, or a free one.  Raises StackError when the one asked for is taken."""
    if port is None:
        return free_port()
    if port_taken(port):
        said = f"{name}: port {port} of {HOST} is taken; stop what listens there (`ss -ltnp`), or choose another"
        raise StackError(said)
    return port


@contextlib.contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a file lock, waiting for it; with `busy` set, raise StackError(busy) instead of waiting."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise StackError(busy or "") from None
        yield


def _born(pid: int) -> int:
    """Start time of a living process, 0 when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
