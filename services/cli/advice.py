"""`exitsign advice watch`: read advice as a scheduler would."""

from __future__ import annotations

from typing import Annotated

import typer
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from rich.text import Text

from classifiers.records import Advice
from services import topics, wire
from services.cli.common import ERR, OUT, fail, print_json, settings

app = typer.Typer(no_args_is_help=True, help="Read advice as a scheduler would.")


@app.callback()
def group() -> None:
    """Read advice as a scheduler would."""


@app.command()
def watch(
    job: Annotated[str | None, typer.Option(help="Only this job id.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    from_start: Annotated[bool, typer.Option(help="Begin with the oldest advice kept.")] = True,
) -> None:
    """Print advice as it comes, until Ctrl-C.

    Example: exitsign advice watch --job 81234
    """
    chosen = settings()
    try:
        consumer = KafkaConsumer(
            topics.ADVICE,
            bootstrap_servers=chosen.kafka.split(","),
            auto_offset_reset="earliest" if from_start else "latest",
            enable_auto_commit=False,
        )
    except (KafkaError, OSError) as error:
        fail(f"Kafka at {chosen.kafka}: {error}; set EXITSIGN_KAFKA, or `exitsign stack up`", 1)
    try:
        for record in consumer:
            if record.value is not None:
                _tell(record.value, job, json)
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


def _tell(value: bytes, job: str | None, json: bool) -> None:
    try:
        advice = wire.advice(value)
    except wire.Unknown as error:
        ERR.print(f"skipped advice of a version that is not known here: {error}", style="yellow", markup=False)
        return
    if job is not None and advice.job_id != job:
        return
    if json:
        print_json(advice)
    else:
        OUT.print(line_of(advice), soft_wrap=True)


def line_of(advice: Advice) -> Text:
    """One line for people."""
    style = "green" if advice.retry else "red"
    text = Text(
        f"{advice.issued_at[11:19]} {advice.cluster}/{advice.job_id} attempt {advice.attempt}.{advice.revision} "
    )
    text.append(f"{advice.action}", style=style)
    if advice.after_s:
        text.append(f" after {advice.after_s} s", style=style)
    if advice.exclude_nodes:
        text.append(f" without {','.join(advice.exclude_nodes)}", style=style)
    text.append(f"  {advice.label} ({advice.confidence:.2f}): {advice.reason}", style="dim")
    return text
