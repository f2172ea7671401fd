"""The real rsyslog follows the files of really failing programs; their labels arrive, by the catalog that ships.

Rule: where rsyslog or its Kafka output is missing this fails, it never skips: `.ci/run` installs both.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stack.service_kit import ROOT, Service, ended, packaged_copy, serving, started

from services.stack.up import Stack

if TYPE_CHECKING:
    from load_tests.shippers import Rsyslog

PROGRAMS = {"missing_input.py": "incorrect_inputs", "shape_error.py": "semantic_error"}


@pytest.fixture(scope="module", name="service")
def _service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("rsyslog-service")
    with serving(stack, folder, packaged_copy(folder)) as service:
        yield service


@pytest.fixture(name="jobs")
def _jobs(service: Service, tmp_path: Path) -> Iterator[Path]:
    """A folder whose .out and .err files rsyslog ships to `job-logs`."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    shipper = rsyslog(folder, service.stack.bootstrap)
    shipper.start()
    yield folder
    shipper.stop()


def rsyslog(folder: Path, bootstrap: str) -> Rsyslog:
    """The shipper, or a failure that says what to install."""
    from load_tests.shippers import OMKAFKA, Rsyslog

    if not shutil.which("rsyslogd") or not any(Path(p).exists() for p in OMKAFKA):
        pytest.fail("rsyslog with its Kafka output is missing: apt-get install rsyslog rsyslog-kafka, as .ci/run does")
    return Rsyslog(folder, bootstrap, "job-logs")


def run(program: str, stem: Path) -> int:
    """Run a failing program with its output in files that rsyslog follows; its exit code."""
    environ = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(ROOT / "load_tests" / "jobs" / program)]
    with Path(f"{stem}.out").open("wb") as out, Path(f"{stem}.err").open("wb") as err:
        return subprocess.run(
            command, stdout=out, stderr=err, cwd=stem.parent, env=environ, timeout=60, check=False
        ).returncode


@pytest.mark.parametrize(("program", "label"), PROGRAMS.items(), ids=list(PROGRAMS))
def test_what_a_failing_program_printed_gets_its_label_through_rsyslog(
    service: Service, jobs: Path, program: str, label: str
) -> None:
    """File -> rsyslog -> Kafka -> label in Postgres and advice, with rank, node and stream read from the file's name."""
    job = f"{Path(program).stem.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    begun = time.time()
    service.send(started(job, started_at=begun))
    code = run(program, jobs / f"{job}.1.3.node-7")
    service.send(ended(job, exit_code=code))
    told = service.advice(job, 40.0, label=label)

    assert code != 0
    evidence = told.body["evidence"]
    assert (3, "node-7", "stderr", "job-logs") == tuple(evidence[n] for n in ("rank", "node", "stream", "topic"))
    assert label == service.row(job, label=label)["label"]
