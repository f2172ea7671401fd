"""Builders: the smallest record of each kind, with what a test cares about named in the call."""

from __future__ import annotations

from typing import Any

from classifiers.catalog import Catalog, read_catalog
from classifiers.decision import Judge
from classifiers.matching import Matcher
from classifiers.records import (
    Context,
    Evidence,
    JobEvent,
    LogLine,
    Phase,
    Position,
    Role,
    Stream,
    Tick,
)
from services.signature_files import PACKAGED, read_texts

T0 = 1_795_000_000.0


def line(text: str, offset: int = 0, **more: Any) -> LogLine:
    """One stderr line of job-1."""
    values = {"cluster": "c", "job_id": "job-1", "stream": Stream.STDERR, "appended_at": T0, **more}
    return LogLine(text=text, position=Position("job-logs", 0, offset), **values)


def evidence(signature: str, label: str, role: Role = Role.ROOT, at: float = 0.0, **more: Any) -> Evidence:
    """Evidence seen `at` seconds after T0; `rank` also names its partition, so that ranks are streams of their own."""
    rank = more.get("rank", 0)
    offset = more.pop("offset", int(at * 1000))
    values = {
        "cluster": "c",
        "job_id": "job-1",
        "version": 1,
        "text": f"{signature} line",
        "stream": Stream.STDERR,
        "appended_at": T0 + at,
        "time": T0 + at,
        "position": Position("job-logs", rank, offset),
        **more,
    }
    return Evidence(signature=signature, label=label, role=role, **values)


def context(text: str, at: float = 0.0, **more: Any) -> Context:
    """A context line seen `at` seconds after T0."""
    values = {
        "cluster": "c",
        "job_id": "job-1",
        "stream": Stream.STDERR,
        "appended_at": T0 + at,
        "time": T0 + at,
        **more,
    }
    return Context(text=text, position=Position("job-logs", 0, int(at * 1000)), **values)


def started(at: float = 0.0, **more: Any) -> JobEvent:
    """A start `at` seconds after T0."""
    return _event(Phase.STARTED, at, **{"started_at": T0 + at, **more})


def ended(at: float, state: str | None = "FAILED", **more: Any) -> JobEvent:
    """An end `at` seconds after T0."""
    return _event(Phase.ENDED, at, state=state, **{"ended_at": T0 + at, **more})


def disrupted(at: float, reason: str, **more: Any) -> JobEvent:
    """A disruption (a preemption notice, say) `at` seconds after T0."""
    return _event(Phase.DISRUPTED, at, reason=reason, time=T0 + at, **more)


def _event(phase: Phase, at: float, **more: Any) -> JobEvent:
    offset = more.pop("offset", int(at * 1000) * 4 + list(Phase).index(phase))
    values = {"cluster": "c", "job_id": "job-1", "appended_at": T0 + at, **more}
    return JobEvent(phase=phase, position=Position("scheduler-events", 0, offset), **values)


def tick(at: float, **more: Any) -> Tick:
    """A tick saying that job-logs/0 is scanned up to `at` seconds after T0."""
    values = {"scanner": "s", "scanned": {"job-logs/0": T0 + at}, "partitions": {"job-logs": 1}, **more}
    return Tick(time=T0 + at, **values)


SPEC_TEXT = (PACKAGED / "exit_spec.yaml").read_text()


def packaged_catalog() -> Catalog:
    """The catalog that ships."""
    return read_catalog(read_texts(PACKAGED))


def catalog_of(*signatures: str) -> Catalog:
    """A catalog of the packaged exit spec and the signatures written out in YAML."""
    return read_catalog({"exit_spec.yaml": SPEC_TEXT, "some.yaml": "\n".join(signatures)})


def signature_yaml(id: str = "some-signature", **more: Any) -> str:
    """One signature as YAML text; keys given replace the usual ones, None leaves a key out."""
    values = {
        "version": "1",
        "status": "stable",
        "label": "semantic_error",
        "role": "root",
        "why": "Because.",
        "source": "[stderr, stdout]",
        "pattern": "'something broke'",
        "match": "['something broke here']",
        "no_match": "['nothing broke here']",
        **more,
    }
    body = "".join(f"  {key}: {value}\n" for key, value in values.items() if value is not None)
    return f"- id: {id}\n{body}"


def judge(**more: Any) -> Judge:
    """A judge over the packaged exit spec that has signatures on a few exit facts."""
    catalog = catalog_of(
        signature_yaml(
            "state-timeout",
            label="time_limit",
            pattern=None,
            facts="{state: TIMEOUT}",
            match="[{state: TIMEOUT}]",
            no_match="[{state: FAILED}]",
        ),
        signature_yaml(
            "reason-preempted",
            label="job_preempted",
            pattern=None,
            facts="{reason: [PREEMPTED, PreemptionByScheduler]}",
            match="[{reason: PREEMPTED}]",
            no_match="[{reason: Error}]",
        ),
    )
    return Judge(spec=catalog.spec, digest=catalog.digest, match_facts=Matcher(catalog).facts, **more)
