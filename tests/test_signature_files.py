"""The signature folder: its cache, and a catalog that follows edits."""

from __future__ import annotations

import pytest
from builders import SPEC_TEXT, catalog_of, line, signature_yaml
from prometheus_client import REGISTRY

from classifiers.matching import Matcher
from classifiers.signature import SignatureError
from services.signature_files import (
    PACKAGED,
    LiveMatcher,
    NoSignatures,
    cache_folder,
    folder_of,
    follow,
    load_matcher,
    read_texts,
)

GOOD = signature_yaml("good")
BETTER = signature_yaml("better", pattern="'something new broke'", match="['something new broke']", no_match="['x']")
BROKEN = signature_yaml("broken", pattern="'(unclosed'")


@pytest.fixture(name="folder")
def _folder(tmp_path, monkeypatch):
    """A signature folder of this test's own, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "signatures"
    folder.mkdir()
    (folder / "exit_spec.yaml").write_text(SPEC_TEXT)
    (folder / "some.yaml").write_text(GOOD)
    return folder


def ids(matcher, text="something broke"):
    """Ids of the signatures that a line shows."""
    return [e.signature for e in matcher.scan([line(text)])]


def cached():
    """The files in the cache."""
    return sorted(cache_folder().glob("*"))


def test_an_empty_setting_means_the_packaged_folder(folder):
    """And any other names a folder."""
    assert (PACKAGED, folder) == (folder_of(""), folder_of(str(folder)))


def test_only_yaml_files_of_the_folder_itself_are_read(folder):
    """Cases, notes and editors' leavings beside them are none."""
    (folder / "README.md").write_text("x")
    (folder / "cases").mkdir()
    (folder / "cases" / "deep.yaml").write_text("x")

    assert ["exit_spec.yaml", "some.yaml"] == list(read_texts(folder))


@pytest.mark.parametrize("where", ["nowhere", "empty"])
def test_a_folder_without_signatures_is_one_line(tmp_path, where):
    """It names the setting."""
    (tmp_path / "empty").mkdir()

    with pytest.raises(NoSignatures, match=rf"{where}: no signature files \(\*\.yaml\); set EXITSIGN_SIGNATURES"):
        read_texts(tmp_path / where)


def test_a_file_that_is_no_text_is_named(folder):
    """A binary file under a YAML name."""
    (folder / "bad.yaml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(NoSignatures, match=r"bad\.yaml: 'utf-8' codec"):
        read_texts(folder)


def test_what_was_compiled_before_is_taken_from_the_cache(folder):
    """Shown by another catalog's database in its place: nothing is compiled that stands there already."""
    compiled = ids(load_matcher(folder))
    (file,) = cached()
    file.write_bytes(Matcher(catalog_of(BETTER)).dump())

    assert (["good"], []) == (compiled, ids(load_matcher(folder)))


def test_a_changed_catalog_is_compiled_anew(folder):
    """Another digest never meets an old database."""
    load_matcher(folder)
    (folder / "some.yaml").write_text(GOOD + BETTER)

    assert ["better"] == ids(load_matcher(folder), "something new broke")
    assert 2 == len(cached())


@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["empty", "garbage", "cut off"])
def test_a_damaged_cache_costs_seconds_and_nothing_else(folder, damage):
    """It is compiled again, and the cache is mended."""
    load_matcher(folder)
    (file,) = cached()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)

    assert ["good"] == ids(load_matcher(folder))
    assert whole == file.read_bytes()


def test_a_cache_that_cannot_be_written_stops_nobody(folder, tmp_path, monkeypatch):
    """Its folder's name is taken by a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert ["good"] == ids(load_matcher(folder))


def test_a_broken_catalog_does_not_start(folder):
    """The error names file, line and id."""
    (folder / "some.yaml").write_text(BROKEN)

    with pytest.raises(SignatureError, match=r"some\.yaml:1: broken: invalid pattern"):
        load_matcher(folder)


def test_a_broken_catalog_leaves_nothing_in_the_cache(folder):
    """Or the next start would take it for checked."""
    (folder / "some.yaml").write_text(BROKEN)
    with pytest.raises(SignatureError):
        load_matcher(folder)

    assert [] == cached()


def test_an_edit_comes_into_use(folder):
    """Looking again without an edit changes nothing."""
    live = LiveMatcher(folder)
    before = live.current.catalog.digest
    (folder / "some.yaml").write_text(GOOD + BETTER)

    assert (True, False) == (live.look(), live.look())
    assert before != live.current.catalog.digest
    assert ["better"] == ids(live.current, "something new broke")


@pytest.mark.parametrize("edit", ["broken pattern", "no YAML", "no exit spec", "nothing", "no text"])
def test_an_edit_that_cannot_be_used_leaves_the_old_catalog(folder, edit):
    """The worker goes on with what it had, and says so once; the next good edit comes into use."""
    live = LiveMatcher(folder)
    old = live.current
    failures = REGISTRY.get_sample_value("exitsign_catalog_reload_failures_total") or 0.0
    file = folder / "some.yaml"
    match edit:
        case "broken pattern":
            file.write_text(BROKEN)
        case "no YAML":
            file.write_text("- id: [")
        case "no exit spec":
            (folder / "exit_spec.yaml").unlink()
        case "nothing":
            file.unlink()
            (folder / "exit_spec.yaml").unlink()
        case "no text":
            file.write_bytes(b"\xff\xfe")
    refused = live.look()

    assert (False, old) == (refused, live.current)
    assert failures + 1 == REGISTRY.get_sample_value("exitsign_catalog_reload_failures_total")

    (folder / "exit_spec.yaml").write_text(SPEC_TEXT)
    file.write_text(BETTER)

    assert live.look()
    assert ["better"] == ids(live.current, "something new broke")


def test_undoing_a_broken_edit_and_making_it_again_says_it_again(folder):
    """What was refused once is not taken for looked at for ever."""
    live = LiveMatcher(folder)
    for text in (BROKEN, GOOD, BROKEN):
        (folder / "some.yaml").write_text(text)
        live.look()
    (folder / "some.yaml").write_text(GOOD + BETTER)

    assert live.look()


def test_an_edit_is_followed_in_a_thread(folder):
    """Until the event is set."""
    live = LiveMatcher(folder)
    came = live.current.catalog.digest
    stop = follow(live, 0.01)
    (folder / "some.yaml").write_text(GOOD + BETTER)
    while live.current.catalog.digest == came:
        stop.wait(0.01)
    stop.set()

    assert ["better"] == ids(live.current, "something new broke")
