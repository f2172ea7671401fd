"""Docs that are held by the code: a setting, topic, metric, command, label or view without a word is an error."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import msgspec
import pytest
from builders import SPEC_TEXT, T0, ended, evidence, judge
from prometheus_client.metrics import MetricWrapperBase

from classifiers.attempt import JobState, step
from classifiers.decision import Clock, decide
from classifiers.exit_spec import read_exit_spec
from classifiers.records import Advice
from services import metrics, wire
from services.cli.main import COMMANDS
from services.formats import FORMATS
from services.settings import PREFIX, Settings
from services.topics import OUR_TOPICS

ROOT = Path(__file__).resolve().parent.parent
SERVICES = (ROOT / "services" / "README.md").read_text()
README = (ROOT / "README.md").read_text()
PAGES = sorted(
    p for p in ROOT.rglob("*.md") if not {".venv", ".stack", "node_modules"} & set(p.relative_to(ROOT).parts)
)


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_every_setting_is_documented(name):
    """With its sentence, as it stands in the code."""
    assert f"`{PREFIX}{name.upper()}`" in SERVICES
    assert Settings.model_fields[name].description in SERVICES


@pytest.mark.parametrize("topic", OUR_TOPICS, ids=lambda t: t.name)
def test_every_topic_is_documented(topic):
    """With its sentence."""
    assert f"| `{topic.name}` | {topic.sentence} |" in SERVICES


def test_every_metric_is_documented():
    """By the name that Prometheus shows."""
    names = [
        m._name + ("_total" if m._type == "counter" else "")
        for m in vars(metrics).values()
        if isinstance(m, MetricWrapperBase)
    ]

    assert [] == [name for name in names if f"`{name}`" not in SERVICES]


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_is_documented(name):
    """In the page beside the formats."""
    assert f"`{name}`" in (ROOT / "services" / "formats" / "README.md").read_text()


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_is_named_in_a_readme(command):
    """Somewhere a reader looks."""
    assert any(re.search(rf"exitsign {command}\b", page.read_text()) for page in PAGES)


def test_every_label_has_a_sentence_and_a_remedy():
    """The exit spec is the labels' page."""
    spec = read_exit_spec(SPEC_TEXT)

    assert [] == [
        name for name, label in spec.labels.items() if not (label.definition and label.reason and label.remedy)
    ]


@pytest.mark.parametrize("view", sorted((ROOT / "migrations" / "views").glob("*.sql")), ids=lambda p: p.stem)
def test_every_view_has_a_comment(view):
    r"""Dashboards' authors read it with \\d+."""
    assert f"COMMENT ON VIEW {view.stem} IS" in view.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Every relative link of every page."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())

    assert [] == [link for link in links if not (page.parent / link).exists()]


def test_the_python_block_of_the_readme_compiles():
    """What a scheduler's author copies."""
    (block,) = re.findall(r"```python\n(.*?)```", README, re.S)

    compile(block, "README.md", "exec")


def test_the_published_schema_of_advice_is_the_code_s():
    """A field added to the code stands in the schema as well."""
    published = json.loads((ROOT / "services" / "advice_v1.json").read_text())

    assert msgspec.json.schema(Advice)["$defs"] == published["$defs"]


def test_real_advice_fits_the_schema():
    """What the attributor sends validates."""
    state = JobState(cluster="c", job_id="job-1")
    for record in (evidence("oom", "gpu_oom", at=5), ended(8)):
        state = step(state, record)
    _, (said,) = decide(state, Clock(T0 + 60, T0 + 60), judge())

    jsonschema.validate(
        json.loads(wire.encode(said.advice)), json.loads((ROOT / "services" / "advice_v1.json").read_text())
    )


def test_decisions_are_short_and_numbered():
    """At most ten lines each."""
    entries = re.split(r"^## ", (ROOT / "DECISIONS.md").read_text(), flags=re.M)[1:]

    assert [str(n) for n in range(1, len(entries) + 1)] == [e.split(".")[0] for e in entries]
    assert [] == [e.splitlines()[0] for e in entries if len(e.strip().splitlines()) > 11]
