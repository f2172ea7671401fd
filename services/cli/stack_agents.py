"""The agents that `exitsign stack up --agents` leaves running: one process group, one pid file, one log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

STOP_S = 15.0


def start_agents(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Start `exitsign run all` in the background unless it runs already; yields what to tell."""
    pid = _running(folder)
    if pid is None:
        with (folder / "agents.log").open("ab") as log:
            command = [sys.executable, "-m", "services.cli", "run", "all"]
            process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pid = process.pid
        _pid_file(folder).write_text(str(pid))
    yield f"agents: pid {pid}, log {folder / 'agents.log'}"
    for name, port in (("scanner", 9101), ("attributor", 9102), ("recorder", 9104)):
        yield f"  {name}: http://127.0.0.1:{port}/healthz and /metrics"


def stop_agents(folder: Path) -> Iterator[str]:
    """Stop them with SIGTERM, and with SIGKILL after STOP_S; yields what to tell."""
    pid = _running(folder)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while _running(folder) is not None and time.monotonic() < deadline:
            time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        yield f"stopped the agents (pid {pid})"
    _pid_file(folder).unlink(missing_ok=True)


def _pid_file(folder: Path) -> Path:
    return folder / "agents.pid"


def _running(folder: Path) -> int | None:
    """The pid of the agents' parent, where that very process still runs."""
    try:
        pid = int(_pid_file(folder).read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return pid if b"services.cli" in command and state != "Z" else None
