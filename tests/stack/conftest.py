"""One real stack for the whole session.

Rule: where Java or Maven is missing these tests fail with the StackError; they never skip.
Rule: nothing is left running: the stack stops with the session, and dies with it when that is killed.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.stack.up import FOLDER, Stack


@pytest.fixture(scope="session", name="stack")
def _stack() -> Iterator[Stack]:
    folders = FOLDER / "tests"
    for old in folders.glob("[0-9]*"):
        if not Path("/proc", old.name).exists():
            shutil.rmtree(old)  # Left by a session that was killed.
    folder = folders / str(os.getpid())
    with Stack(folder) as stack:
        yield stack
    shutil.rmtree(folder)


@pytest.fixture(scope="session", name="bootstrap")
def _bootstrap(stack: Stack) -> str:
    return stack.bootstrap


@pytest.fixture(scope="session", name="unique")
def _unique() -> Callable[[str], str]:
    """Gives names that no other test of this stack has: unique("job") -> "job-7"."""
    numbers = itertools.count(1)
    return lambda prefix: f"{prefix}-{next(numbers)}"


@pytest.fixture(name="database")
def _database(stack: Stack, unique: Callable[[str], str]) -> Iterator[str]:
    """DSN of an empty database of this test's own."""
    name = unique("test")
    yield stack.postgres.create_database(name)
    stack.postgres.drop_database(name)
