"""`exitsign unknowns`: what attempts that nothing explains have in common, and drafts of signatures for it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from classifiers.drafts import Undraftable, Wish
from classifiers.exit_spec import UNKNOWN
from classifiers.unknowns import AttemptName, Cluster, Unknowns, draft_of
from services.cli.common import ERR, OUT, fail, one_line_errors, print_json
from services.cli.db import dsn
from services.cli.signatures_folder import Folder, catalog_of, chosen_folder, print_table, read_lock_of
from services.queries import Unreachable, unknown_attempts

app = typer.Typer(no_args_is_help=True, help="What attempts that nothing explains have in common.")
SHOWN = 110
Days = Annotated[int, typer.Option(min=1, max=36_500, help="Attempts decided in the last so many days.")]
Limit = Annotated[int, typer.Option(min=1, help="At most so many attempts, the newest.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a cluster.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id of a cluster, or its beginning (`exitsign unknowns list`).")]


@app.command("list")
def list_(
    days: Days = 30,
    limit: Limit = 10_000,
    top: Annotated[int, typer.Option(min=1, help="At most so many clusters.")] = 30,
    json: AsJson = False,
) -> None:
    """Rank the clusters of unexplained lines by the GPU-time that their attempts lost.

    Example: exitsign unknowns list --days 7
    """
    unknowns = _read(days, limit)
    ranked = unknowns.ranked()
    for cluster in ranked[:top] if json else ():
        print_json({"id": cluster.id, **msgspec.to_builtins(cluster)})
    if json:
        return
    table = Table("id", "GPU-hours", "attempts", "first seen", "last seen", "template")
    for cluster in ranked[:top]:
        hours, seen = f"{cluster.gpu_seconds / 3600:.1f}", (_day(cluster.first_seen), _day(cluster.last_seen))
        table.add_row(cluster.id, hours, str(cluster.attempts), *seen, Text(cluster.template[:SHOWN]))
    print_table(table)
    forgotten = f"; {unknowns.dropped} rare ones were forgotten for room" if unknowns.dropped else ""
    ERR.print(f"{len(ranked)} clusters of {days} days{forgotten}; next: `exitsign unknowns show ID`", soft_wrap=True)


@app.command()
def show(name: Id, days: Days = 30, limit: Limit = 10_000, json: AsJson = False) -> None:
    """Print one cluster with some of its lines and attempts.

    Example: exitsign unknowns show 3f2b8c1e10
    """
    cluster = _find(name, days, limit)
    if json:
        print_json({"id": cluster.id, **msgspec.to_builtins(cluster)})
        return
    OUT.print(Text(f"{cluster.id}  {cluster.template}", style="bold"), soft_wrap=True)
    seen = f"first seen {_day(cluster.first_seen)}, last seen {_day(cluster.last_seen)}"
    OUT.print(f"  {cluster.attempts} attempts, {cluster.gpu_seconds / 3600:.1f} GPU-hours, {seen}", soft_wrap=True)
    for line in cluster.lines:
        OUT.print(Text(f"  ? {line}"), soft_wrap=True)
    for one in cluster.examples:
        told = f"  {one.cluster}/{one.job_id} attempt {one.attempt}: `exitsign attempts show {one.job_id}`"
        OUT.print(Text(told, style="dim"), soft_wrap=True)


@app.command()
def draft(
    name: Id,
    label: Annotated[str, typer.Option(help="The root cause that its lines name.")] = UNKNOWN,
    days: Days = 30,
    limit: Limit = 10_000,
    folder: Folder = None,
) -> None:
    """Draft a signature that matches a cluster's lines; paste it into the file of the program that prints them.

    Example: exitsign unknowns draft 3f2b8c1e10 --label storage_failure
    """
    with one_line_errors():
        where = chosen_folder(folder)
        catalog = catalog_of(where)
        if label not in catalog.spec:
            fail(f"label {label} is not in exit_spec.yaml; the labels are: {', '.join(catalog.spec.labels)}")
        cluster = _find(name, days, limit)
        try:
            made = draft_of(cluster, Wish(label), {s.id for s in catalog.signatures} | read_lock_of(where).keys())
        except Undraftable as error:
            fail(str(error), 1)
    sys.stdout.write(made.text)
    mend = "id and why" if label != UNKNOWN else "id, why and label (or give --label)"
    ERR.print(
        f"{len(made.signature.match)} of {len(cluster.lines)} kept lines match; next: paste it into {where}/PROGRAM.yaml, mend {mend}, then `exitsign signatures check`",
        soft_wrap=True,
    )


def _read(days: int, limit: int) -> Unknowns:
    unknowns = Unknowns()
    try:
        for row in unknown_attempts(dsn(), days, limit):
            name = AttemptName(row["cluster"], row["job_id"], row["attempt"])
            unknowns.add(name, row["context"], row["at"], row["gpu_seconds"])
    except Unreachable as error:
        fail(str(error), 1)
    return unknowns


def _find(name: str, days: int, limit: int) -> Cluster:
    cluster = _read(days, limit).find(name)
    if cluster is None:
        fail(f"no cluster {name} (or several) in {days} days; see `exitsign unknowns list --days {days}`", 1)
    return cluster


def _day(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")
