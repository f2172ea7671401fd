"""Who may import whom: read from the sources, with the reason in the message."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("classifiers", "services", "migrations", "load_tests", "tests")
PURE = {"regex", "yaml", "msgspec", "hyperscan"}
LEAVES = {"settings", "topics", "metrics", "wire", "store", "store_tables", "store_rows", "produce", "queries"}
AGENTS = {"scanner", "attributor", "recorder"}
LEARNERS = ("fallback", "ngrams", "unknowns")
LINTER = ("classifiers/checks.py", "classifiers/hostile.py")
MAX_LINES, MAX_FUNCTION = 250, 50
TOO_LONG = {
    "classifiers/records.py": "the vocabulary stands on one page",
    "services/transport.py": "one subclass of one driver; its books stand in spans.py",
}


def sources(folder):
    """Every Python file of a package."""
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path):
    """(line, module) of every import of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


def broken(folder, allowed, why):
    """`file:line: imports X: why` for every import that `allowed(path, module)` refuses."""
    return [
        f"{path.relative_to(ROOT)}:{line}: imports {module}: {why}"
        for path in sources(folder)
        for line, module in imports(path)
        if not allowed(path, module)
    ]


def test_classifiers_are_pure():
    """Text and records in, decisions out: stdlib, the matching engines, and scikit-learn in the fallback alone."""

    def allowed(path, module):
        top = module.split(".")[0]
        learns = path.stem in LEARNERS and top in ("sklearn", "numpy", "scipy", "drain3")
        return top in sys.stdlib_module_names or top in PURE or top == "classifiers" or learns

    assert [] == broken("classifiers", allowed, "classifiers must stay pure")


@pytest.mark.parametrize("module", ["time", "random", "logging", "socket", "subprocess", "pathlib", "os"])
def test_classifiers_have_no_clock_files_or_chance(module):
    """Decisions do not look at the world; the linter alone may take the time of a pattern."""
    found = list(broken("classifiers", lambda path, name: name.split(".")[0] != module, "no world in the core"))

    assert [] == [f for f in found if not (module == "time" and f.split(":")[0] in LINTER)]


def test_leaves_know_the_vocabulary_at_most():
    """Settings, topics, metrics, wire and store import none of the agents, and of the classifiers only words."""

    def allowed(path, module):
        if path.parent.name != "services" or path.stem not in LEAVES:
            return True
        ours = module.startswith(("services", "classifiers"))
        words = module in ("classifiers.records", "classifiers.attempt", "services.formats.base", "services")
        return not ours or words or module.removeprefix("services.") in LEAVES

    assert [] == broken("services", allowed, "leaves know nobody")


def test_agents_do_not_know_each_other():
    """Each scales alone; what they share stands in a leaf."""

    def allowed(path, module):
        if path.parent.name != "services" or path.stem not in AGENTS:
            return True
        return module.removeprefix("services.") not in AGENTS - {path.stem} and ".cli" not in module

    assert [] == broken("services", allowed, "agents never import each other")


def test_migrations_import_nothing_of_ours():
    """A revision must mean the same for ever."""

    def allowed(path, module):
        return path.parent.name != "versions" or not module.startswith(("services", "classifiers"))

    assert [] == broken("migrations", allowed, "a revision stands alone")


def test_nobody_imports_tests_or_load_tests():
    """They look at the product, not the other way round."""
    outside = [
        b
        for folder in ("classifiers", "services", "migrations")
        for b in broken(
            folder, lambda p, m: m.split(".")[0] not in ("tests", "load_tests", "builders"), "tests are not a library"
        )
    ]

    assert [] == outside


@pytest.mark.parametrize("folder", ["classifiers", "services", "load_tests", "migrations"])
def test_files_and_functions_keep_their_size(folder):
    """Files past 250 lines and functions past 50 are where regret begins."""
    long_files = [
        f"{name} ({count})"
        for path in sources(folder)
        if (count := path.read_text().count("\n")) > MAX_LINES and (name := str(path.relative_to(ROOT))) not in TOO_LONG
    ]
    long_functions = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sources(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION
    ]

    assert ([], []) == (long_files, long_functions)


def test_every_module_says_what_it_is():
    """One line, then what must stay true."""
    silent = [
        str(path.relative_to(ROOT))
        for folder in PACKAGES
        for path in sources(folder)
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]

    assert [] == silent


def test_nothing_names_the_place_where_it_was_written():
    """No path of one machine stands in the repository."""
    tell = re.compile("/" + "work/(?:main|shared|[.]library)|pyenv" + "/versions")
    told = [
        f"{path.relative_to(ROOT)}"
        for pattern in ("*.py", "*.md", "*.yaml", "*.yml", "*.toml", "*.case", "Makefile", "Dockerfile")
        for folder in (*PACKAGES, "signatures")
        for path in (ROOT / folder).rglob(pattern)
        if tell.search(path.read_text(errors="replace"))
    ]

    assert [] == told
