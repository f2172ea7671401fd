"""Whole attempts written down, with the verdict marked in the text.

A case is a text file: a head of YAML, a line of three dashes, then the log, one line each:

    why: rank 2 runs out of GPU memory, the others wait for it in vain
    end: {state: FAILED, exit_code: 1}
    label: gpu_oom
    ---
    r0 err   Epoch 3: loss 0.21
    r2 err > torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
    r0 err - [rank0] Watchdog caught collective operation timeout

Columns are rank (or `-`), stream (err out sch nod), mark, text.  Marks: `>` decides, `-` is a symptom, blank says nothing.

Rule: marks and label are written by `exitsign signatures bless` and read by people in the diff.
Rule: a healthy case has `label: null`; none of its lines may hold evidence that would decide a failed attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from classifiers.attribution import Attribution, attribute
from classifiers.decision import ended_well
from classifiers.exit_facts import FACTS_TOPIC
from classifiers.exit_spec import UNKNOWN
from classifiers.matching import Matcher
from classifiers.records import AttemptFacts, LogLine, Position, Stream
from classifiers.signature import Place, SignatureError, load_yaml

STREAMS = {"err": Stream.STDERR, "out": Stream.STDOUT, "sch": Stream.SCHEDULER, "nod": Stream.NODE}
LINE_S = 0.1
_HEAD = frozenset({"why", "end", "label", "healthy"})


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One line of a case; `mark` is `>`, `-` or a blank."""

    rank: int | None
    stream: str
    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """One attempt: what it shows, how it ended, its label (None: it ended well), its lines."""

    file: str
    why: str
    end: dict[str, str | int]
    label: str | None
    healthy: bool
    lines: tuple[CaseLine, ...]

    @property
    def facts(self) -> AttemptFacts:
        """The exit facts of the head."""
        return AttemptFacts(cluster="case", job_id=self.file, **self.end)  # type: ignore[arg-type]


def read_case(text: str, file: str) -> Case:
    """One case of one text.  Raises SignatureError naming file and line."""
    head_text, dashes, body = text.partition("\n---\n")
    head = load_yaml(head_text, file)
    if not dashes or not isinstance(head, dict) or not head.get("why"):
        raise SignatureError(Place(file, 1), "case", "needs a head with `why:` and `end:`, then a line ---")
    unknown = set(head) - _HEAD - {"__line__"}
    if unknown:
        raise SignatureError(Place(file, 1), "case", f"unknown key {', '.join(sorted(unknown))}")
    first = head_text.count("\n") + 3
    lines = [_line(line, file, first + n) for n, line in enumerate(body.splitlines()) if line.strip()]
    end = {k: v for k, v in (head.get("end") or {}).items() if k != "__line__"}
    return Case(file, head["why"], end, head.get("label"), bool(head.get("healthy")), tuple(lines))


def write_case(case: Case) -> str:
    """The text of a case."""
    end = ", ".join(f"{key}: {value}" for key, value in case.end.items())
    head = [f"why: {case.why}", f"end: {{{end}}}", f"label: {case.label or 'null'}"]
    if case.healthy:
        head.append("healthy: true")
    body = [
        f"{'-' if ln.rank is None else f'r{ln.rank}'} {ln.stream} {ln.mark} {ln.text}".rstrip() for ln in case.lines
    ]
    return "\n".join([*head, "---", *body]) + "\n"


def judge_case(case: Case, matcher: Matcher) -> tuple[str | None, Attribution]:
    """The label that a case gets, and why.  Ranks are streams of their own; a healthy case is judged as if it had failed."""
    evidence = []
    for key in dict.fromkeys((ln.rank, ln.stream) for ln in case.lines):
        lines = [_log_line(case, n, ln) for n, ln in enumerate(case.lines) if (ln.rank, ln.stream) == key]
        evidence += matcher.scan(lines)
    if ended_well(case.facts) and not case.healthy:
        return None, Attribution(None, 1.0, (), trusted=True)
    facts = [] if case.healthy else matcher.facts(case.facts, len(case.lines) * LINE_S)
    found = attribute([*evidence, *facts], matcher.catalog.spec)
    label = found.winner.label if found.winner else None if case.healthy else UNKNOWN
    return label, found


def bless(case: Case, matcher: Matcher) -> Case:
    """The case with the label and marks that it gets today."""
    label, found = judge_case(case, matcher)
    marks = {r.position.offset: "-" for r in found.ranking if r.position.topic != FACTS_TOPIC}
    if found.winner is not None and found.winner.position.topic != FACTS_TOPIC:
        marks[found.winner.position.offset] = ">"
    lines = [replace(ln, mark=marks.get(n, " ")) for n, ln in enumerate(case.lines)]
    return replace(case, label=label, lines=tuple(lines))


def _log_line(case: Case, number: int, line: CaseLine) -> LogLine:
    return LogLine(
        cluster="case",
        job_id=case.file,
        text=line.text,
        stream=STREAMS[line.stream],
        position=Position("case", line.rank or 0, number),
        appended_at=number * LINE_S,
        rank=line.rank,
    )


def _line(line: str, file: str, number: int) -> CaseLine:
    rank, _, rest = line.partition(" ")
    stream, _, rest = rest.partition(" ")
    known = rank == "-" or (rank[:1] == "r" and rank[1:].isdigit())
    if not known or stream not in STREAMS or rest[:1] not in ("", " ", ">", "-"):
        problem = "a line is: rank (r0 or -), stream (err out sch nod), mark (> - or blank), text"
        raise SignatureError(Place(file, number), "case", problem)
    return CaseLine(None if rank == "-" else int(rank[1:]), stream, rest[:1] or " ", rest[2:])
