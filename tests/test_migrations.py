"""The migrations as files: what they import, how they chain, what each view says of itself."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

ROOT = Path(__file__).parent.parent
REVISIONS = sorted((ROOT / "migrations" / "versions").glob("*.py"))
VIEWS = sorted((ROOT / "migrations" / "views").glob("*.sql"))
OURS = {"classifiers", "services", "signatures", "migrations", "tests", "load_tests"}


def imported(source: str) -> set[str]:
    """The top-level packages that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "migrations")
    return {name.split(".")[0] for name in names}


def scripts() -> ScriptDirectory:
    """The revisions as pyproject.toml tells alembic to find them."""
    return ScriptDirectory.from_config(Config(toml_file=str(ROOT / "pyproject.toml")))


def test_there_are_revisions_and_views() -> None:
    """The folders are where these tests look."""
    assert REVISIONS
    assert VIEWS


@pytest.mark.parametrize("file", REVISIONS, ids=lambda file: file.name)
def test_a_revision_imports_nothing_of_ours(file: Path) -> None:
    """It must still run when our code has moved on."""
    assert set() == imported(file.read_text()) & OURS


@pytest.mark.parametrize(
    ("source", "expected"),
    [("import services.store", {"services"}), ("from classifiers import records", {"classifiers"})],
)
def test_an_import_of_ours_is_seen(source: str, expected: set[str]) -> None:
    """Both forms of import count, inside functions as well."""
    assert expected == imported(f"def upgrade():\n    {source}\n")


def test_one_line_of_history() -> None:
    """There is one head and one base, and a file is named after its revision."""
    history = scripts()

    assert 1 == len(history.get_heads()) == len(history.get_bases())
    assert {file.name.split("_")[0] for file in REVISIONS} == {s.revision for s in history.walk_revisions()}


@pytest.mark.parametrize("file", REVISIONS, ids=lambda file: file.name)
def test_a_revision_says_whether_it_expands_or_contracts(file: Path) -> None:
    """Its docstring opens a line with the one or the other."""
    assert re.search(r"^(Expand|Contract): ", ast.get_docstring(ast.parse(file.read_text())) or "", re.MULTILINE)


@pytest.mark.parametrize("file", VIEWS, ids=lambda file: file.name)
def test_a_view_file(file: Path) -> None:
    """It makes the view that it is named after, replaces it in place, and comments on it."""
    statements = file.read_text()

    assert statements.startswith(f"CREATE OR REPLACE VIEW {file.stem} AS\n")
    assert f"COMMENT ON VIEW {file.stem} IS '" in statements


@pytest.mark.parametrize("file", VIEWS, ids=lambda file: file.name)
def test_no_view_has_a_column_that_needs_quotes(file: Path) -> None:
    """Unquoted, `user` would silently be the database user."""
    assert '"' not in re.sub(r"'[^']*'", "", file.read_text())
