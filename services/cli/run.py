"""`exitsign run`: the agents."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from services.cli.common import fail, one_line_errors, settings


def run(
    agent: Annotated[str, typer.Argument(help="scanner, attributor, recorder, or all.")],
) -> None:
    """Run one agent, or all of them side by side, until SIGTERM.

    Example: exitsign run all
    """
    from services.agents import AGENTS, run_agent, run_all
    from services.health import PortTaken

    if agent not in (*AGENTS, "all"):
        fail(f"no agent {agent!r}; there are {', '.join(AGENTS)} and all")
    chosen = settings()
    if agent in ("recorder", "all") and not chosen.postgres:
        fail("the recorder needs Postgres; set EXITSIGN_POSTGRES, or start one with `exitsign stack up`")
    with one_line_errors():
        try:
            sys.exit(run_all(AGENTS, {}) if agent == "all" else run_agent(agent, chosen))
        except (PortTaken, ValueError) as error:
            fail(str(error), 1)
