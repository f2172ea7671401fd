"""Training: what becomes a row, what stands in one fold, what is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from builders import catalog_of, signature_yaml
from learned import material, small_model, spec
from typer.testing import CliRunner

from classifiers.cases import read_case
from classifiers.context import context_of
from classifiers.fallback import NOTHING
from classifiers.matching import Matcher
from services.cli.train import run
from services.evaluation import CorpusError
from services.feedback_rows import read_feedback
from services.model_report import best_coverage, figures_of, write_report
from services.rewording import reworded, skeletons
from services.training import FOLDS, TooLittle, fold_of, hold_out, table_of, train
from services.training_rows import (
    Material,
    add_case,
    add_sample,
    in_groups,
    of_counter_examples,
    of_signature,
)

QUOTA = signature_yaml(
    "quota",
    label="disk_quota",
    pattern="'[Dd]isk quota exceeded|over the (?:user|group) limit'",
    match="['write failed: Disk quota exceeded', 'you are over the user limit']",
    no_match="['something broke quietly', 'the quota is fine']",
)
CATALOG = catalog_of(signature_yaml(), QUOTA)
MATCHER = Matcher(CATALOG)


def test_a_signature_gives_its_examples_and_what_its_pattern_stands_for() -> None:
    """Examples, and a text for every alternative of the pattern, all in one group."""
    quota = CATALOG.find("quota")
    assert quota is not None
    rows = list(of_signature(quota))
    assert {"signature quota"} == {row.group for row in rows}
    assert {"disk_quota"} == {row.label for row in rows}
    texts = {row.text for row in rows if row.source == "skeleton"}
    assert {"disk quota exceeded", "over the user limit", "over the group limit"} <= {t.lower() for t in texts}


def test_a_counter_example_that_another_signature_knows_is_its_example() -> None:
    """A line that quota must not match is nothing, unless the catalog knows better: then it goes with that signature."""
    quota = CATALOG.find("quota")
    assert quota is not None
    rows = {row.text: (row.label, row.group) for row in of_counter_examples(quota, MATCHER)}
    assert ("semantic_error", "signature some-signature") == rows["something broke quietly"]
    assert (NOTHING, "signature quota") == rows["the quota is fine"]


def test_the_marked_line_of_a_case_has_its_label_and_unmarked_ones_say_nothing() -> None:
    """Lines marked as symptoms are not learned at all."""
    text = "why: a test\nend: {state: FAILED, exit_code: 1}\nlabel: disk_quota\n---\n- err   all is well\n- err - a symptom\n- err > Disk quota exceeded\n"
    found = Material()
    add_case(found, read_case(text, "some.case"), spec(), MATCHER)
    assert {("Disk quota exceeded", "disk_quota"), ("all is well", NOTHING)} == {(r.text, r.label) for r in found.rows}
    assert [frozenset({"disk_quota"})] == [trial.accepted for trial in found.trials]


def test_groups_that_share_a_template_are_one() -> None:
    """Near-duplicates of two signatures never stand on both sides of a split."""
    found = material()
    first, other = found.rows[0], found.rows[2]
    twin = type(first)(other.text, first.label, "somebody else", 1.0, "example")
    merged = in_groups(Material([*found.rows, twin], found.trials))
    assert merged.rows[-1].group == next(row.group for row in merged.rows if row.text == other.text)
    assert len({row.group for row in merged.rows}) == len({row.group for row in found.rows})


def test_a_trial_is_read_by_a_model_that_never_saw_its_group() -> None:
    """Each trial is held out in its own fold, or where its label is left out; then it can't be right."""
    found = material()
    held = hold_out(found, table_of(found.rows), lambda line: None)
    assert {h.unseen for h in held} == {True, False}
    assert not any(h.right for h in held if h.unseen)
    assert len([h for h in held if not h.unseen]) <= len(found.trials)
    assert {0, 1, 2, 3, 4} >= {fold_of(h.trial.group) for h in held}


def test_training_tells_reworded_failures_apart() -> None:
    """On sentences held out with their near-duplicates the small model is right far more often than by chance."""
    _, rows = small_model()
    assert figures_of(rows, spec())["accuracy"] > 0.5


def test_the_digest_of_material_does_not_depend_on_its_order() -> None:
    """The same rows give the same digest; one row less gives another."""
    found = material()
    assert found.digest == Material(found.rows[::-1], []).digest
    assert found.digest != Material(found.rows[1:], []).digest


def test_rewordings_only_leave_words_out() -> None:
    """Every word of a rewording stands in the text, in its order; the same seed gives the same ones."""
    text = "could not connect to the peer before the limit was reached"
    variants = reworded(text, 4, "seed")
    assert variants == reworded(text, 4, "seed")
    assert variants
    for variant in variants:
        words = iter(text.split())
        assert all(word in words for word in variant.split())


def test_a_pattern_that_does_not_parse_has_no_skeletons() -> None:
    """What only the other engine understands is left out, not guessed."""
    assert [] == skeletons(r"(?<=a{1,3})\p{Lu}[")
    assert ["no space left", "no inodes left"] == skeletons("no (?:space|inodes) left")


def test_the_context_of_a_log_is_what_looks_like_failure_and_the_tail() -> None:
    """Healthy lines in the middle leave no trace; secrets do not come out; a known signature's frame is no failure."""
    lines = [f"step {n} of 90" for n in range(90)]
    lines[10] = "connection refused, token=abcdefghijklmnop"
    found = context_of(MATCHER, lines, tail=2)
    assert ["connection refused, token=[REDACTED]", "step 88 of 90", "step 89 of 90"] == found


def test_the_context_of_a_long_log_keeps_the_first_and_the_last_failures() -> None:
    """A thousand failures leave `bound` lines, from both ends."""
    found = context_of(MATCHER, [f"error number x{n}x" for n in range(1000)], bound=4)
    assert ["error number x0x", "error number x1x", "error number x998x", "error number x999x"] == found


def test_feedback_is_learned_with_the_exit_facts_it_came_with(tmp_path: Path) -> None:
    """A person's label goes to the attempt's marked line and to its exit facts."""
    path = tmp_path / "feedback.jsonl"
    row = {
        "id": "job-7",
        "lines": ["all well", "weird failure of the flux unit"],
        "label": "node_failure",
        "exit_code": 77,
        "root_cause_line": 1,
    }
    path.write_text(json.dumps(row) + "\n")
    found = Material()
    for sample in read_feedback(path, spec()):
        add_sample(found, sample, MATCHER, "feedback")
    assert {
        ("exit facts: exit code 77", "node_failure"),
        ("weird failure of the flux unit", "node_failure"),
        ("all well", NOTHING),
    } == {(r.text, r.label) for r in found.rows}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"lines": ["x"], "label": "no_such_label"}', "label no_such_label is not in the exit spec"),
        ('{"lines": ["x"]}', "needs lines and label"),
        ("not json", "not feedback"),
        ('{"lines": ["x"], "label": "gpu_oom", "root_cause_line": 7}', "root_cause_line 7 is not one of 1 lines"),
    ],
)
def test_feedback_that_can_not_be_used_is_named_by_line(tmp_path: Path, text: str, reason: str) -> None:
    """The error names file, line and reason."""
    path = tmp_path / "feedback.jsonl"
    path.write_text('{"lines": ["x"], "label": "gpu_oom"}\n' + text + "\n")
    with pytest.raises(CorpusError, match=reason) as error:
        read_feedback(path, spec())
    assert f"{path}:2:" in str(error.value)


def test_feedback_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file is one line with its path."""
    with pytest.raises(CorpusError, match="No such file"):
        read_feedback(tmp_path / "none.jsonl", spec())


def test_coverage_at_a_precision_counts_the_most_confident_first() -> None:
    """All of the readings can be labelled at precision 0; never more at a higher one."""
    _, rows = small_model()
    seen = [row for row in rows if not row.held.unseen]
    assert 1.0 == best_coverage(seen, 0.0)
    assert best_coverage(seen, 0.95) <= best_coverage(seen, 0.5)
    assert 0.0 == best_coverage([], 0.9)


def test_a_report_holds_every_figure_and_its_pictures(tmp_path: Path) -> None:
    """The page names each figure and label; every picture that it shows is there as PNG and SVG."""
    _, rows = small_model()
    page = write_report(tmp_path, rows, spec(), {"trained": "today"}).read_text()
    assert all(name in page for name in figures_of(rows, spec()))
    assert "| gpu_oom |" in page
    for name in ("coverage", "reliability", "confusion", "labels"):
        assert f"({name}.png)" in page
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()


def test_a_fold_is_the_same_whoever_else_is_there() -> None:
    """The fold of a group depends on its name alone."""
    names = [f"group {n}" for n in range(100)]
    assert [fold_of(name) for name in names] == [fold_of(name) for name in reversed(names)][::-1]
    assert set(range(FOLDS)) == {fold_of(name) for name in names}


def test_too_little_to_learn_from_is_said(tmp_path: Path) -> None:
    """Few examples, or examples of one label alone, are refused in one line."""
    found = material()
    with pytest.raises(TooLittle, match="too few to learn from"):
        train(Material(found.rows, found.trials[:3]), spec(), lambda line: None)
    one = [row for row in found.rows if row.label in (NOTHING, "gpu_oom")]
    with pytest.raises(TooLittle, match="too few labels"):
        train(Material(one, found.trials), spec(), lambda line: None)


def test_the_command_names_a_corpus_that_is_not_there(tmp_path: Path) -> None:
    """A wrong path ends the command with one line and status 2, before anything is learned or written."""
    app = typer.Typer()
    app.command()(run)
    ended = CliRunner().invoke(app, ["--corpus", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "model")])
    assert 2 == ended.exit_code
    assert ["exitsign:", "No", "such", "file", "or", "directory"] == [
        w for w in ended.output.split() if "none" not in w
    ]
    assert not (tmp_path / "model").exists()
