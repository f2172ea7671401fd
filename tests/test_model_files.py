"""Model files: what is written can be read, everything else is refused with its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from builders import catalog_of, signature_yaml
from learned import FAILURES, NOBODY, material, small_model, spec

from classifiers.exit_spec import ExitSpec
from classifiers.fallback import Fallback
from classifiers.matching import Matcher
from services.model_files import CARD, MODEL, BadModel, load_fallback, load_or_build, read_card, read_model, save
from services.models import Made, card_of, compare, fallback_folder, ready_fallback

NOW = datetime(2026, 3, 4, tzinfo=UTC)
FIGURES = {"cost": 0.8}
LINE = ["connection refused by peer at port 80"]


def saved(folder: Path, **more: float) -> Made:
    """The small model in a folder."""
    learned, _ = small_model()
    card = card_of(material(), learned, spec(), {**FIGURES, **more}, NOW)
    return Made(folder, save(folder, learned, card))


def with_card(folder: Path, **more: Any) -> None:
    """Change fields of the card in a folder."""
    path = folder / CARD
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def test_a_saved_model_reads_as_it_was(tmp_path: Path) -> None:
    """What comes back gives the same reading with the same confidence."""
    saved(tmp_path)
    before, after = Fallback(small_model()[0]), load_fallback(tmp_path, spec())
    assert after is not None
    first, second = before.read(LINE, NOBODY), after.read(LINE, NOBODY)
    assert first is not None
    assert second is not None
    assert (first.label, before.confidence(first)) == (second.label, after.confidence(second))


def test_a_card_tells_what_the_model_is(tmp_path: Path) -> None:
    """Training set, date, version and figures stand beside the model."""
    saved(tmp_path)
    card = read_card(tmp_path)
    assert material().digest == card.training_digest
    assert ("2026-03-04T00:00:00+00:00", FIGURES) == (card.trained_at, card.figures)
    assert len({(row.text, row.label) for row in material().rows}) == len(card.rows)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sklearn": "0.1"}, "made with scikit-learn 0.1"),
        ({"labels": ["gpu_oom", "some_other"]}, "trained for another exit spec"),
        ({"recipe": 99}, "made by recipe 99"),
        ({"digest": "sha256:0"}, "not the file that"),
    ],
)
def test_a_model_made_for_something_else_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """Another scikit-learn, exit spec, recipe or file: one line says which, and names the next command."""
    saved(tmp_path)
    with_card(tmp_path, **change)
    with pytest.raises(BadModel, match=reason) as refused:
        read_model(tmp_path, spec())
    assert "exitsign train" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert load_fallback(tmp_path, spec()) is None


@pytest.mark.parametrize("body", [b"", b"PK\x03\x04 not a zip", b"\x00" * 1000])
def test_a_corrupt_model_is_refused(tmp_path: Path, body: bytes) -> None:
    """Bytes that are no model are refused, also where the card agrees with them."""
    from services.model_files import _digest

    saved(tmp_path)
    (tmp_path / MODEL).write_bytes(body)
    with pytest.raises(BadModel, match="not the file that"):
        read_model(tmp_path, spec())
    with_card(tmp_path, digest=_digest(body))
    with pytest.raises(BadModel, match="can't be read"):
        read_model(tmp_path, spec())


def test_a_model_with_types_that_nobody_trusts_is_not_loaded(tmp_path: Path) -> None:
    """A file that would make an object of a foreign type is refused before anything of it runs."""
    from skops.io import dumps

    from services.model_files import _digest

    saved(tmp_path)
    body = dumps({"classifier": Path("/tmp"), "calibrator": replace, "idf": None, "known": None})
    (tmp_path / MODEL).write_bytes(body)
    with_card(tmp_path, digest=_digest(body))
    with pytest.raises(BadModel, match="not trusted"):
        read_model(tmp_path, spec())


def test_a_file_of_other_parts_is_refused(tmp_path: Path) -> None:
    """A skops file that holds something else says what it lacks."""
    from skops.io import dumps

    from services.model_files import _digest

    saved(tmp_path)
    body = dumps({"something": 1})
    (tmp_path / MODEL).write_bytes(body)
    with_card(tmp_path, digest=_digest(body))
    with pytest.raises(BadModel, match="no model of exitsign"):
        read_model(tmp_path, spec())


def test_a_folder_without_a_model_gives_none(tmp_path: Path) -> None:
    """No model is no fallback, and no exception."""
    assert load_fallback(tmp_path, spec()) is None


def test_a_missing_model_is_built_once(tmp_path: Path) -> None:
    """The first reader builds, the second finds it built."""
    built = []

    def build() -> None:
        built.append(1)
        saved(tmp_path)

    assert load_or_build(tmp_path, spec(), build) is not None
    assert load_or_build(tmp_path, spec(), build) is not None
    assert [1] == built


def test_a_worse_candidate_stays_a_candidate(tmp_path: Path) -> None:
    """A model that costs more than the one in use is worse; a model is never worse than none."""
    made = saved(tmp_path / "candidate", cost=0.9)
    assert made.worse_than({"cost": 0.8})
    assert not made.worse_than({"cost": 0.9})
    assert not made.worse_than(None)


def test_promotion_puts_both_files_into_use(tmp_path: Path) -> None:
    """After promotion the folder's model is the candidate."""
    made = saved(tmp_path / "candidate")
    made.promote(tmp_path)
    assert made.card == read_model(tmp_path, spec())[1]


def test_the_model_in_use_is_measured_on_the_same_folds(tmp_path: Path) -> None:
    """A model of fewer labels is learned again from its own rows and tested on the candidate's trials."""
    learned, _ = small_model()
    less = material(frozenset({"import_error"}))
    save(tmp_path, learned, card_of(less, learned, spec(), FIGURES, NOW))
    made = saved(tmp_path / "candidate")
    told: list[str] = []
    figures = compare(tmp_path, material(), made, spec(), told.append)
    known = len({(row.text, row.label) for row in less.rows})
    assert told[0].startswith("the model in use, on the same folds:")
    assert f"of its {known} rows are still there" in told[0]
    assert figures is not None
    assert 0 < figures["trials"] <= len(material().trials)


def test_an_exit_spec_with_another_label_refuses_the_model(tmp_path: Path) -> None:
    """A label that the model does not know makes it a model for another exit spec."""
    saved(tmp_path)
    labels = dict(spec().labels)
    other = ExitSpec({**labels, "brand_new": labels["gpu_oom"]})
    with pytest.raises(BadModel, match="brand_new"):
        read_model(tmp_path, other)


def test_a_folder_of_few_signatures_gives_no_default_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog too small to learn from leaves the service without a fallback, not without a service."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ready_fallback(Matcher(catalog_of(signature_yaml())), tmp_path) is None


def test_the_promoted_model_is_the_one_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `exitsign train` promoted is taken before any default is built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    saved(fallback_folder())
    fallback = ready_fallback(Matcher(catalog_of(signature_yaml())), tmp_path)
    assert fallback is not None
    assert set(FAILURES) == set(fallback.labels)


def test_a_named_folder_without_a_model_is_none_and_builds_nothing(tmp_path: Path) -> None:
    """A folder that the settings name is read as it is."""
    assert ready_fallback(Matcher(catalog_of(signature_yaml())), tmp_path, tmp_path / "mine") is None
    assert not (tmp_path / "mine").exists()
