"""What the fallback learns from: signatures' examples, cases, corpus files and feedback, as rows and trials.

Rule: everything of one signature, case or project is one group; groups that share a template are one as well.
Rule: a row that says nothing of a root cause (noise, counter-examples, unmarked lines) is learned as NOTHING.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from classifiers.cases import Case, read_case
from classifiers.catalog import Catalog
from classifiers.context import context_of
from classifiers.exit_spec import ENDED_WELL, UNKNOWN, ExitSpec
from classifiers.fallback import NOTHING, facts_text
from classifiers.lines import clean
from classifiers.masking import masked, template
from classifiers.matching import Matcher
from classifiers.records import AttemptFacts, Evidence, LogLine, Position, Role, Stream
from classifiers.signature import Example, Signature
from services.evaluation import Sample
from services.feedback_rows import read_feedback
from services.rewording import reworded, skeletons

SOURCES = ("example", "rewording", "skeleton", "why", "counter-example", "definition", "case", "corpus", "feedback")
# How much a line of each role says about the root cause; a summary names what happened elsewhere.
ROLE_WEIGHT = {Role.ROOT: 1.0, Role.CONFIRMATION: 0.8, Role.CASCADE: 0.5, Role.SUMMARY: 0.3, Role.IMPLICIT: 0.3}
REWORDINGS = 1
MIN_CHARS = 8
MAX_CASE_LINES = 40
PLAIN_FACTS = ("state FAILED", "exit code 1", "state FAILED, exit code 1", "state FAILED, exit code 2", "exit code 2")


@dataclass(frozen=True, slots=True)
class Row:
    """One masked line to learn from; `label` may be NOTHING, `source` is one of SOURCES."""

    text: str
    label: str
    group: str
    weight: float
    source: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One attempt to be tested on: its context lines, its exit facts, the labels that are right."""

    lines: tuple[str, ...]
    facts: AttemptFacts
    accepted: frozenset[str]
    group: str
    source: str


@dataclass
class Material:
    """All rows and trials."""

    rows: list[Row] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """`sha256:...` of the rows, whatever their order."""
        return "sha256:" + hashlib.sha256("\n".join(sorted(map(row_key, self.rows))).encode()).hexdigest()

    def only(self, sources: Iterable[str]) -> Material:
        """The rows of some sources; all trials."""
        chosen = frozenset(sources)
        return Material([row for row in self.rows if row.source in chosen], self.trials)


def row_key(row: Row) -> str:
    """Sixteen hex digits that stand for a row's text and label."""
    return hashlib.sha256(f"{row.label}\0{row.text}".encode()).hexdigest()[:16]


def gather(
    catalog: Catalog, cases: Path | None, corpora: Sequence[Sample], feedback: Path | None, matcher: Matcher
) -> Material:
    """All material; `matcher` decides which lines of a log are context (see `context_of`).  Raises CorpusError."""
    found = Material()
    for signature in catalog.signatures:
        found.rows += of_signature(signature)
        found.rows += of_counter_examples(signature, matcher)
        found.trials += trials_of(signature)
    found.rows += of_definitions(catalog.spec)
    for path in sorted(cases.glob("*.case")) if cases else ():
        add_case(found, read_case(path.read_text(encoding="utf-8"), path.name), catalog.spec, matcher)
    for sample in corpora:
        add_sample(found, sample, matcher, "corpus")
    for sample in read_feedback(feedback, catalog.spec) if feedback else ():
        add_sample(found, sample, matcher, "feedback")
    return in_groups(found)


def of_signature(signature: Signature) -> Iterator[Row]:
    """Rows of one signature: its examples, their rewordings, its pattern's alternatives, its counter-examples."""
    group = f"signature {signature.id}"
    label = signature.label or NOTHING
    weight = ROLE_WEIGHT.get(signature.role, 1.0)
    for example in signature.match:
        text = masked(_line_of(example))
        if not text:
            continue
        yield Row(text, label, group, weight, "example")
        for variant in reworded(text, REWORDINGS, signature.id):
            yield Row(variant, label, group, weight / 2, "rewording")
    if signature.label is not None:
        for pattern in signature.patterns:
            for text in map(masked, skeletons(pattern)):
                if len(text) >= MIN_CHARS:
                    yield Row(text, label, group, weight / 2, "skeleton")
    if signature.label is not None:
        yield Row(masked(signature.why), signature.label, group, weight / 2, "why")


def of_counter_examples(signature: Signature, matcher: Matcher) -> Iterator[Row]:
    """Lines that a signature must not match: another signature's evidence where it knows them, else they say nothing."""
    lines = [clean(example.line).text for example in signature.no_match if example.line is not None]
    for line, known in zip(lines, known_lines(lines, matcher), strict=True):
        if known is None:
            yield Row(masked(line), NOTHING, f"signature {signature.id}", 0.5, "counter-example")
        else:
            weight = ROLE_WEIGHT.get(known.role, 0.5) / 2
            yield Row(masked(line), known.label, f"signature {known.signature}", weight, "counter-example")


def known_lines(lines: Sequence[str], matcher: Matcher) -> list[Evidence | None]:
    """For each line the evidence that it is by itself, if any."""
    logged = [
        LogLine(cluster="", job_id="", text=text, stream=Stream.STDERR, position=Position("", 0, n), appended_at=0.0)
        for n, text in enumerate(lines)
    ]
    found = {e.position.offset: e for e in matcher.scan(logged) if e.role in ROLE_WEIGHT}
    return [found.get(number) for number in range(len(lines))]


def of_definitions(spec: ExitSpec) -> Iterator[Row]:
    """The clauses of each label's definition, and exit facts that say nothing."""
    for label in spec.labels.values():
        if label.name not in (UNKNOWN, ENDED_WELL):
            for clause in re.split(r"[.;,:()]", label.definition):
                if len(clause) >= MIN_CHARS:
                    yield Row(masked(clause), label.name, f"definition {label.name}", 0.5, "definition")
    for facts in PLAIN_FACTS:
        yield Row(masked(f"exit facts: {facts}"), NOTHING, "definition of exit facts", 1.0, "definition")


def trials_of(signature: Signature) -> Iterator[Trial]:
    """Each example as an attempt of one line; noise and weak roles name no root cause and are no attempts."""
    if signature.label is None or signature.role in (Role.SUMMARY, Role.IMPLICIT):
        return
    nobody = AttemptFacts(cluster="", job_id="")
    for example in signature.match:
        if example.line is not None:
            line = clean(example.line).text
            yield Trial((line,), nobody, frozenset({signature.label}), f"signature {signature.id}", "example")


def add_case(found: Material, case: Case, spec: ExitSpec, matcher: Matcher) -> None:
    """One case: the line that decides has the case's label, unmarked lines say nothing."""
    group = f"case {case.file}"
    texts = [clean(line.text).text for line in case.lines]
    for line, text, known in zip(case.lines, texts, known_lines(texts, matcher), strict=True):
        if line.mark == ">" and case.label in spec:
            found.rows.append(Row(masked(text), str(case.label), group, 1.0, "case"))
        elif line.mark == " " and known is None and text.strip():
            found.rows.append(Row(masked(text), NOTHING, group, 0.5, "case"))
    if case.label in spec and case.label != UNKNOWN:
        lines = tuple(dict.fromkeys(filter(str.strip, texts)))[-MAX_CASE_LINES:]
        found.trials.append(Trial(lines, case.facts, frozenset({str(case.label)}), group, "case"))


def add_sample(found: Material, sample: Sample, matcher: Matcher, source: str) -> None:
    """One labelled attempt: its marked line has its label, its other context lines say nothing."""
    if sample.label in (UNKNOWN, ENDED_WELL):
        return
    log = sample.log
    lines = context_of(matcher, log.lines, log.stream)
    root = clean(log.lines[sample.root_line]).text if sample.root_line is not None else None
    group = f"{source} {sample.project}"
    facts = AttemptFacts(
        cluster="", job_id=log.id, state=log.state, exit_code=log.exit_code, signal=log.signal, reason=log.reason
    )
    if said := facts_text(facts):
        found.rows.append(Row(masked(said), sample.label, group, 0.5, source))
    for text in lines if root is None else {root: None, **dict.fromkeys(lines)}:
        marked = text == root or root is None
        weight = 1.0 if text == root else 0.3
        found.rows.append(Row(masked(text), sample.label if marked else NOTHING, group, weight, source))
    found.trials.append(Trial(tuple(lines), facts, sample.accepted, group, source))


def _line_of(example: Example) -> str:
    if example.line is not None:
        return clean(example.line).text
    return facts_text(AttemptFacts(cluster="", job_id="", **dict(example.facts)))


def in_groups(found: Material) -> Material:
    """The material with groups that share a template of a labelled row made one."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    by_template: dict[str, str] = {}
    for row in found.rows:
        if row.label != NOTHING and row.source in ("example", "case", "corpus", "feedback"):
            first = by_template.setdefault(template(row.text), row.group)
            parent[root(row.group)] = root(first)
    rows = [replace(row, group=root(row.group)) for row in found.rows]
    return Material(rows, [replace(trial, group=root(trial.group)) for trial in found.trials])
