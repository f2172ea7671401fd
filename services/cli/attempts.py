"""`exitsign attempts show`: what happened to one job, and why its verdicts are what they are."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from services.cli.common import OUT, fail, print_json
from services.cli.db import dsn
from services.queries import Unreachable, attempts_of

app = typer.Typer(no_args_is_help=True, help="What happened to one job, and why.")
LOSERS = 5


@app.callback()
def group() -> None:
    """What happened to one job, and why."""


@app.command()
def show(
    job: Annotated[str, typer.Argument(help="The scheduler's job id.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object an attempt.")] = False,
) -> None:
    """Print every attempt of a job with its verdict, ranking and advice.

    Example: exitsign attempts show 81234
    """
    try:
        rows = attempts_of(dsn(), job)
    except Unreachable as error:
        fail(str(error), 1)
    if not rows:
        fail(f"no attempt of job {job} is stored; is the recorder running? (`exitsign run recorder`)", 1)
    for row in rows:
        if json:
            print_json(row)
        else:
            _tell(row)
            _tell_feedback(row["feedback"])


def _tell(row: dict[str, Any]) -> None:
    head = Text(f"{row['cluster']}/{row['job_id']} attempt {row['attempt']}  ", style="bold")
    if row["label"] is None:
        OUT.print(head.append("ended well", style="green"))
        return
    head.append(row["label"], style="bold red" if row["label"] != "unknown" else "bold yellow")
    head.append(
        f"  {row['owner']}, confidence {row['confidence']:.2f}, revision {row['revision']}{', final' if row['final'] else ''}",
        style="dim",
    )
    OUT.print(head, soft_wrap=True)
    ended = " ".join(f"{name} {row[name]}" for name in ("state", "exit_code", "signal") if row[name] is not None)
    OUT.print(Text(f"  ended {row['ended_at']:%Y-%m-%d %H:%M:%S %Z}  {ended}", style="dim"))
    for place, ranked in enumerate(row["ranking"][: LOSERS + 1]):
        where = f"{ranked['stream']}{'' if ranked['rank'] is None else ' of rank ' + str(ranked['rank'])}"
        if place == 0 and row["signature"]:
            OUT.print(Text(f"  {ranked['text']}"), soft_wrap=True)
            OUT.print(
                Text(
                    f"    {row['signature']} v{row['signature_version']}, {where}, {ranked['position']['topic']}/{ranked['position']['partition']}@{ranked['position']['offset']}",
                    style="dim",
                ),
                soft_wrap=True,
            )
        else:
            OUT.print(
                Text(f"  not {ranked['signature']} ({where}): {ranked['lost_because']}", style="dim"), soft_wrap=True
            )
    for line in row["context"] or ():
        OUT.print(Text(f"  ? {line}", style="dim"), soft_wrap=True)
    if row["action"]:
        OUT.print(Text(f"  advice: {row['action']}: {row['advice_reason']} {row['remedy']}"), soft_wrap=True)


def _tell_feedback(given: list[dict[str, Any]]) -> None:
    for said in given:
        note = f": {said['note']}" if said["note"] else ""
        OUT.print(Text(f"  feedback: {said['label']} by {said['by']}{note}", style="dim"), soft_wrap=True)
