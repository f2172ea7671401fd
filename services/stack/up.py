"""The native stack as a whole: in the foreground (`with Stack(...)`), or left running (`up`, `down`, `status`).

Rule: one folder holds one stack: its data, its logs, and stack.json while it is left running.
Rule: stack.json is never believed: a pid counts only with the start time it was written with.
Rule: a stack in the foreground leaves nothing running: not after an exception, Ctrl-C, SIGTERM or SIGKILL.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from services.stack import Process, Running, StackError, locked
from services.stack.kafka import STOP_S, Kafka, version
from services.stack.postgres import Postgres

_CHECKOUT = Path(__file__).parents[2]
# An installed package has no checkout to keep a stack in.
FOLDER = (_CHECKOUT if (_CHECKOUT / "pyproject.toml").exists() else Path.cwd()) / ".stack"
DATABASE = "exitsign"


class Stack:
    """Kafka and Postgres under `folder`; a context manager that starts and stops both.

    `kafka_brokers` is 1, or 3 for fault tests.  A port of None is any free one.  `postgres_dsn` uses a given server instead
    of starting one.  `cache` keeps Kafka's jars, and is best shared by all stacks.  Raises StackError.
    """

    def __init__(
        self,
        folder: Path = FOLDER,
        *,
        kafka_brokers: int = 1,
        kafka_port: int | None = None,
        postgres_port: int | None = None,
        postgres_dsn: str = "",
        cache: Path = FOLDER / "cache",
        detached: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self._kafka_options: dict[str, Any] = {"brokers": kafka_brokers, "port": kafka_port, "cache": cache}
        self._postgres_options: dict[str, Any] = {"port": postgres_port, "dsn": postgres_dsn}
        self._detached = detached
        self._held = contextlib.ExitStack()
        self._started = contextlib.ExitStack()
        self.kafka: Kafka
        self.postgres: Postgres
        self.dsn = ""

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, separated by commas."""
        return self.kafka.bootstrap

    @property
    def processes(self) -> list[Process]:
        """Every program of the stack, Kafka's first."""
        return [*self.kafka.processes, *self.postgres.processes]

    def environ(self) -> dict[str, str]:
        """The settings that point the agents here."""
        return {"EXITSIGN_KAFKA": self.bootstrap, "EXITSIGN_POSTGRES": self.dsn}

    def start(self) -> None:
        """Start both and wait until they answer; where one fails, nothing is left running."""
        busy = f"another stack runs in {self.folder}: `exitsign stack down` stops it, or choose another folder"
        try:
            self._held.enter_context(locked(self.folder / "lock", busy))
            if status(self.folder)["state"] not in ("stopped", "stale"):
                raise StackError(busy)
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        self.postgres = Postgres(self.folder / "postgres", detached=self._detached, **self._postgres_options)
        self.kafka = Kafka(self.folder / "kafka", detached=self._detached, **self._kafka_options)
        self._started.callback(_state_file(self.folder).unlink, missing_ok=True)
        self._started.callback(self.postgres.stop)
        self._started.callback(self.kafka.stop)
        self.kafka.launch()  # The slower one goes first, and both are waited for together.
        self.postgres.launch()
        self._record(ready=False)  # From here on `down` finds them, whatever becomes of us.
        self.postgres.wait()
        self.dsn = self.postgres.create_database(DATABASE)
        self.kafka.wait()
        self._record(ready=True)

    def stop(self) -> None:
        """Stop both, and let go of the folder."""
        with self._held:
            self._started.close()

    def leave(self) -> None:
        """Let go of the folder, and of the (detached) programs, which run on."""
        self._started.pop_all()
        self._held.close()

    def __enter__(self) -> Stack:
        self._held.enter_context(_sigterm_as_exit())
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _record(self, *, ready: bool) -> None:
        state = {
            "ready": ready,
            "detached": self._detached,
            "kafka": self.bootstrap,
            "kafka_version": version(),
            "postgres": self.dsn,
            "processes": [{**asdict(process), "log": str(process.log)} for process in self.processes],
        }
        part = _state_file(self.folder).with_suffix(".part")
        part.touch(mode=0o600)  # The DSN holds a password.
        part.write_text(json.dumps(state, indent=2) + "\n")
        part.replace(_state_file(self.folder))


def up(folder: Path = FOLDER, **options: Any) -> dict[str, Any]:
    """Start a stack and leave it running; one that runs already is left as it is, whatever `options` (Stack's) say.

    Returns `status(folder)`.  Raises StackError.
    """
    with locked(folder / "up.lock"):
        found = status(folder)
        if found["state"] == "running" and found["detached"]:
            return found
        if found["state"] in ("starting", "partly") and found["detached"]:
            down(folder)  # What an interrupted `up`, or a crash of one of the two, left behind.
        stack = Stack(folder, detached=True, **options)
        stack.start()
        stack.leave()
        return status(folder)


def down(folder: Path = FOLDER) -> str:
    """Stop the stack of that folder, keep its data, and say in one sentence what was stopped."""
    alive = [process for process in _processes(_read(folder)) if process.alive()]
    for process in alive:
        process.send(_gently(process))
    for process in alive:
        Running(process).stop(_gently(process), STOP_S)
    stale = _state_file(folder).exists() and not alive
    _state_file(folder).unlink(missing_ok=True)
    if alive:
        return "stopped " + ", ".join(f"{process.name} (pid {process.pid})" for process in alive)
    return f"nothing runs in {folder}" + ("; its stale stack.json is removed" if stale else "")


def status(folder: Path = FOLDER) -> dict[str, Any]:
    """What stack.json says, checked against the living.

    `state` is stopped | starting | running | partly (some program is dead) | stale (all are).  `kafka` and `postgres` are
    addresses; `processes` lists {name, pid, alive, log}; `detached` says whether it was left running.
    """
    read = _read(folder)
    processes = _processes(read)
    living = sum(process.alive() for process in processes)
    state = "running" if read.get("ready") else "starting"
    if not living:
        state = "stale" if processes else "stopped"
    elif living < len(processes):
        state = "partly"
    return {
        "state": state,
        "folder": str(folder),
        "detached": read.get("detached", False),
        "kafka": read.get("kafka", ""),
        "kafka_version": read.get("kafka_version", version()),
        "postgres": read.get("postgres", ""),
        "processes": [
            {"name": each.name, "pid": each.pid, "alive": each.alive(), "log": str(each.log)} for each in processes
        ],
    }


def _state_file(folder: Path) -> Path:
    return folder / "stack.json"


def _read(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(_state_file(folder).read_text()))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise StackError(f"{_state_file(folder)}: {error}; stop what it started by hand, then remove it") from None


def _processes(read: dict[str, Any]) -> list[Process]:
    return [Process(**{**each, "log": Path(each["log"])}) for each in read.get("processes", [])]


def _gently(process: Process) -> signal.Signals:
    """Postgres waits for its clients on SIGTERM; on SIGINT it sends them away."""
    return signal.SIGINT if process.name == "Postgres" else signal.SIGTERM


@contextlib.contextmanager
def _sigterm_as_exit() -> Iterator[None]:
    """Let SIGTERM end us as an exception, so that `with` blocks close; one that is already handled is left alone."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if not ours:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
