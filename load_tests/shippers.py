"""Log shippers for jobs on this machine: the real rsyslog where it is installed, else a small publisher of our own.

Rule: both send the same JSON (format `rsyslog`) to the same topic, so that nothing downstream can tell them apart.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from kafka import KafkaProducer

OMKAFKA = ("/usr/lib/x86_64-linux-gnu/rsyslog/omkafka.so", "/usr/lib64/rsyslog/omkafka.so")
START_S = 10.0

CONFIG = """
global(workDirectory="{work}")
module(load="imfile" mode="inotify")
module(load="omkafka")
template(name="job-line" type="list" option.jsonf="on") {{
  property(outname="@timestamp" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="file" name="$!metadata!filename" format="jsonf")
  property(outname="offset" name="$!metadata!fileoffset" format="jsonf")
  property(outname="message" name="msg" format="jsonf")
}}
input(type="imfile" File="{folder}/*.out" Tag="job" addMetadata="on" ruleset="ship")
input(type="imfile" File="{folder}/*.err" Tag="job" addMetadata="on" ruleset="ship")
ruleset(name="ship") {{
  action(type="omkafka" broker=["{bootstrap}"] topic="{topic}" template="job-line" partitions.auto="on"
         resubmitOnFailure="on" keepFailedMessages="on" failedMsgFile="{work}/failed" confParam=["linger.ms=5"])
}}
"""


class Shipper(Protocol):
    """Ships what is appended to the files of one folder."""

    name: str

    def start(self) -> None:
        """Begin to ship."""

    def stop(self) -> None:
        """Ship the rest and end."""


def shipper(folder: Path, bootstrap: str, topic: str) -> Shipper:
    """Rsyslog where it and its Kafka output are installed, else the tail publisher."""
    if shutil.which("rsyslogd") and any(Path(p).exists() for p in OMKAFKA):
        return Rsyslog(folder, bootstrap, topic)
    return TailPublisher(folder, bootstrap, topic)


class Rsyslog:
    """The real rsyslog: imfile -> omkafka."""

    name = "rsyslog"

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self._work = folder.parent / "rsyslog"
        self._config = CONFIG.format(work=self._work, folder=folder, bootstrap=bootstrap, topic=topic)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run in the foreground of its own process, with its own state folder and pid file."""
        self._work.mkdir(parents=True, exist_ok=True)
        config = self._work / "rsyslog.conf"
        config.write_text(self._config)
        with (self._work / "rsyslog.log").open("wb") as log:
            command = ["rsyslogd", "-n", "-f", str(config), "-i", str(self._work / "rsyslogd.pid")]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_S
        while not (self._work / "rsyslogd.pid").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"rsyslogd did not start: {(self._work / 'rsyslog.log').read_text()[-500:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """SIGTERM flushes what is queued."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class TailPublisher:
    """Follows the files of a folder and publishes their lines; for machines without rsyslog."""

    name = "tail publisher"

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self._folder, self._topic = folder, topic
        self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","))
        self._offsets: dict[Path, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="tail-publisher", daemon=True)

    def start(self) -> None:
        """Follow in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """One more look at every file, then flush."""
        self._stop.set()
        self._thread.join()
        self._look(last=True)
        self._producer.close()

    def _loop(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self, last: bool = False) -> None:
        for path in sorted([*self._folder.glob("*.out"), *self._folder.glob("*.err")]):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                text = file.read()
            whole = len(text) if last else text.rfind(b"\n") + 1
            self._offsets[path] = self._offsets.get(path, 0) + whole
            for line in text[:whole].splitlines():
                self._producer.send(self._topic, value=_as_rsyslog(line, path))
        self._producer.flush()


def _as_rsyslog(line: bytes, path: Path) -> bytes:
    stamp = datetime.now(UTC).isoformat()
    text = line.decode("utf-8", "replace")
    told = {"@timestamp": stamp, "host": os.uname().nodename, "file": str(path), "message": text}
    return json.dumps(told).encode()
