"""`exitsign classify`: name the root cause of logs, without Kafka or Postgres."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from classifiers.classification import Log, as_answer, classify
from classifiers.matching import Matcher
from classifiers.records import Stream, Verdict
from services.cli.common import OUT, PresentModel, fail, one_line_errors, print_json, settings
from services.signature_files import folder_of, load_matcher

MAX_LINES = 2_000_000


class _Row(msgspec.Struct, kw_only=True):
    """One line of --jsonl; unknown keys are ignored."""

    id: str | int
    lines: list[str]
    stream: Stream = Stream.STDERR
    exit_code: int | None = None
    signal: int | None = None
    state: str | None = None
    reason: str | None = None


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Log files, one attempt each; - is stdin.")],
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="Each line of PATH is one attempt as JSON; implies --json.")
    ] = False,
    exit_code: Annotated[int | None, typer.Option(help="The attempt's exit code.")] = None,
    signal: Annotated[int | None, typer.Option(help="The signal that ended the attempt.")] = None,
    state: Annotated[str | None, typer.Option(help="The scheduler's state, such as FAILED or TIMEOUT.")] = None,
    reason: Annotated[str | None, typer.Option(help="The scheduler's reason, such as OOMKilled.")] = None,
    stream: Annotated[Stream, typer.Option(help="Where the lines were read.")] = Stream.STDERR,
    json: Annotated[bool, typer.Option("--json", help="One JSON object an attempt.")] = False,
    model: Annotated[bool, typer.Option(help="Ask the model where no signature explains a failure.")] = True,
) -> None:
    """Name the root cause of each log.

    Example: exitsign classify --exit-code 1 train.log
    """
    with one_line_errors():
        chosen = settings()
        matcher = load_matcher(folder_of(chosen.signatures), chosen.match_time_limit_s)
        guess = PresentModel(matcher).guess if model else None
        for path in paths:
            if jsonl:
                logs = _rows(path)
            else:
                facts = {"exit_code": exit_code, "signal": signal, "state": state, "reason": reason}
                logs = iter([Log(id=path, lines=_text(path).splitlines(), stream=stream, **facts)])  # type: ignore[arg-type]
            for log in logs:
                verdict = classify(log, matcher, guess)
                if json or jsonl:
                    print_json(as_answer(verdict, matcher))
                else:
                    _tell(verdict, matcher)


def _text(path: str) -> str:
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        fail(f"{path}: {error.strerror}; classify takes readable log files, or - for stdin")
    return data.decode("utf-8", "replace").replace("\0", "")


def _rows(path: str) -> Iterator[Log]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        if line.strip():
            try:
                row = msgspec.json.decode(line, type=_Row)
            except (msgspec.DecodeError, RecursionError) as error:
                fail(f"{path}:{number}: not an attempt: {error}; each line needs id and lines")
            yield Log(**{f: getattr(row, f) for f in _Row.__struct_fields__} | {"id": str(row.id)})


def _tell(verdict: Verdict, matcher: Matcher) -> None:
    """The verdict for people: label first, then the line that says so, then what it explains."""
    answer = as_answer(verdict, matcher)
    head = Text(f"{verdict.facts.job_id}: ")
    if verdict.label is None:
        OUT.print(head.append("ended well", style="green"))
        return
    head.append(verdict.label, style="bold red" if verdict.label != "unknown" else "bold yellow")
    head.append(f"  ({verdict.owner}, confidence {verdict.confidence:.2f}, {verdict.source})", style="dim")
    OUT.print(head)
    if line := answer["line"]:
        OUT.print(Text(f"  line {line['number']}: ", style="dim").append(line["text"], style="white"), soft_wrap=True)
    for symptom in answer["symptoms"][:5]:
        where = f"line {symptom['number']}" if symptom["number"] else "exit facts"
        OUT.print(
            Text(f"  not {symptom['signature']} ({where}): {symptom['lost_because']}", style="dim"), soft_wrap=True
        )
    OUT.print(
        Text(f"  {'retry' if answer['retry'] else 'no retry'} / {answer['action']}: ").append(answer["reason"]),
        soft_wrap=True,
    )
