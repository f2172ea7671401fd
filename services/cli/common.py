"""What every command shares: consoles, settings, and errors of one line that name the next command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from rich.console import Console

from classifiers.hybrid import Guessed
from classifiers.matching import Matcher
from classifiers.records import AttemptFacts
from classifiers.signature import SignatureError
from services.settings import Settings, SettingsError, load
from services.signature_files import NoSignatures

OUT = Console(highlight=False)
ERR = Console(stderr=True, highlight=False)
USAGE = 2


class _Chosen:
    """The file that --config named."""

    config: Path | None = None


def choose_config(path: Path | None) -> None:
    """Remember --config for `settings`."""
    _Chosen.config = path


def settings() -> Settings:
    """The settings; a wrong one ends the command with one line."""
    try:
        return load(_Chosen.config)
    except SettingsError as error:
        fail(str(error))


def fail(line: str, status: int = USAGE) -> NoReturn:
    """End the command with one line on stderr."""
    ERR.print(f"exitsign: {line}", style="red", markup=False, soft_wrap=True)
    sys.exit(status)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn the errors that people can mend into one line and exit status 2."""
    try:
        yield
    except (SignatureError, NoSignatures) as error:
        fail(f"{error}; see `exitsign signatures check`")
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(130)


def as_json(value: Any) -> str:
    """One line of JSON."""
    return msgspec.json.encode(value).decode()


def print_json(value: Any) -> None:
    """One line of JSON on stdout, never wrapped or coloured."""
    sys.stdout.write(as_json(value) + "\n")
    sys.stdout.flush()


class PresentModel:
    """The fallback model where one is there, loaded when the first attempt needs it (`exitsign train --ready` makes one)."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._found: list[Any] = []

    def guess(self, lines: Sequence[str], facts: AttemptFacts) -> Guessed | None:
        """What the model says, or None."""
        if not self._found:
            from services.models import present_fallback

            self._found.append(present_fallback(self._matcher))
        model = self._found[0]
        guessed: Guessed | None = model.guess(lines, facts) if model is not None else None
        return guessed


def pretty(value: Any) -> str:
    """Indented JSON for people."""
    return json.dumps(json.loads(as_json(value)), indent=2, ensure_ascii=False)
