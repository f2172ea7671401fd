"""The curator's commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from builders import SPEC_TEXT, signature_yaml
from typer.testing import CliRunner

from services.cli.main import app

OOM = signature_yaml(
    "oom", label="gpu_oom", pattern="'out of GPU memory'", match="['out of GPU memory']", no_match="['x']"
)
DRAFT = f"""\
# What the frobnicator prints.

- id: frob   # for ever
  version: 1
  status: draft   # young
  label: network_error
  role: root
  why: It says so.
  source: [stderr]
  pattern: 'frobnicator lost the peer'
  match: ['frobnicator lost the peer']
  no_match: ['frobnicator found the peer']

{OOM}"""
CASE = """\
why: one rank runs out of memory
end: {state: FAILED}
label: unknown
---
r0 err   out of GPU memory
"""


def folder_of(path: Path, **files: str) -> Path:
    """A signature folder with these files."""
    path.mkdir(exist_ok=True)
    for name, text in {"exit_spec": SPEC_TEXT, **files}.items():
        (path / f"{name}.yaml").write_text(text)
    return path


def history_of(path: Path, *rows: dict) -> str:
    """A history of failed attempts."""
    path.write_text("".join(json.dumps({"id": f"a{n}", "exit_code": 1, **row}) + "\n" for n, row in enumerate(rows)))
    return str(path)


def run(*arguments: object, status: int = 0) -> str:
    """What `exitsign signatures ...` prints (errors included)."""
    done = CliRunner().invoke(app, ["signatures", *map(str, arguments)])
    assert done.exit_code == status, done.output
    return done.output


@pytest.mark.parametrize("name", ["check", "try", "new", "diff", "stats", "promote", "bless", "lock"])
def test_every_command_has_help_with_an_example(name):
    """A person at three in the morning copies it."""
    assert f"Example: exitsign signatures {name}" in " ".join(run(name, "--help").split())


def test_check_is_silent_on_a_sound_folder(tmp_path):
    """Warnings about labels without a signature do not fail it."""
    found = run("check", "--folder", folder_of(tmp_path, some=OOM))

    assert "1 signatures, 1 labels, 0 errors" in found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- id: a\n  id: b\n", "some.yaml:2: yaml: duplicate key 'id'"),
        (signature_yaml("a", label="nope"), "some.yaml:1: a: label nope is not in exit_spec.yaml"),
        (signature_yaml("a", pattern="'(((('"), "some.yaml:1: a: invalid pattern"),
        (signature_yaml("a", pattern="'(a+)+$'", match="['aa']"), "some.yaml:1: a: slow: over"),
        (signature_yaml("a", pattern="'never'"), "some.yaml:1: a: its own example does not match"),
    ],
)
def test_check_fails_with_file_line_and_id(tmp_path, text, line):
    """Whatever is wrong with it."""
    assert line in run("check", "--folder", folder_of(tmp_path, some=text), status=1)


def test_check_speaks_json(tmp_path):
    """For editors and bots."""
    text = run("check", "--json", "--folder", folder_of(tmp_path, some=signature_yaml("a", label="nope")), status=1)

    found = json.loads(text)

    assert ("some.yaml", 1, "a", True) == (found["file"], found["line"], found["subject"], found["error"])


def test_a_folder_without_signatures_is_bad_usage(tmp_path):
    """The line names the setting."""
    assert "set EXITSIGN_SIGNATURES" in run("check", "--folder", tmp_path, status=2)


def test_lock_then_change_then_check(tmp_path):
    """A change without a new version is found, and the lock refuses it too."""
    where = folder_of(tmp_path, some=OOM)
    run("lock", "--folder", where)
    (where / "some.yaml").write_text(OOM.replace("'out of", "'[Oo]ut of"))

    assert "oom: changed without a new version: say version: 2" in run("check", "--folder", where, status=1)
    assert "say version: 2" in run("lock", "--folder", where, status=1)


def test_try_shows_where_a_pattern_hits_and_what_it_takes(tmp_path):
    """File, line, and whose win it would be."""
    where = folder_of(tmp_path / "signatures", some=OOM)
    log = tmp_path / "train.log"
    log.write_text("fine\n[rank3]: out of GPU memory on device 3\n")

    found = run("try", "out of GPU memory on device", log, "--label", "gpu_oom", "--folder", where)

    assert f"{log}:2: out of GPU memory on device 3" in found
    assert "1 lines in 1 of 1 attempts; would win 1" in found
    assert "1 from oom (gpu_oom)" in found


def test_try_takes_an_existing_signature(tmp_path):
    """What would be lost without it."""
    where = folder_of(tmp_path / "signatures", some=OOM)
    history = history_of(tmp_path / "h.jsonl", {"lines": ["out of GPU memory"]}, {"lines": ["bye"]})

    rows = [json.loads(line) for line in run("try", "--id", "oom", history, "--json", "--folder", where).splitlines()]

    assert {"place": f"{history}:a0:1", "text": "out of GPU memory", "spans": [[0, 17]]} == rows[0]
    assert (1, 2, {"nobody": 1}) == (rows[1]["attempts_hit"], rows[1]["attempts"], rows[1]["taken_from"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("try", "(", "x.log"), "invalid pattern"),
        (("try", "fine words", "/no/such.log"), "No such file or directory"),
        (("try", "fine words"), "needs a PATH"),
        (("try", "--id", "nope", "x.log"), "no signature with a pattern has the id nope"),
        (("try", "fine words", "x.log", "--label", "nope"), "label nope is not in exit_spec.yaml"),
        (("new",), "needs a line or --from FILE:NUMBER"),
        (("new", "it broke badly"), "needs --label"),
        (("new", "it broke badly", "--label", "nope"), "label nope is not in exit_spec.yaml; the labels are:"),
        (("new", "--from", "x.log", "--label", "gpu_oom"), "needs FILE:NUMBER"),
        (("new", "+ set -x", "--label", "gpu_oom"), "this line repeats program text"),
        (("diff", "git:no-such-revision", "x"), "git"),
        (("stats",), "needs --history FILE"),
        (("stats", "--history", "/no/such.jsonl"), "No such file or directory"),
        (("promote", "nope"), "no signature has the id nope"),
        (("bless",), "no cases"),
    ],
)
def test_bad_usage_is_one_line(tmp_path, monkeypatch, arguments, problem):
    """Exit status 2, and what to do."""
    monkeypatch.delenv("EXITSIGN_POSTGRES", raising=False)
    found = run(*arguments, "--folder", folder_of(tmp_path, some=OOM), status=2)

    assert problem in found
    assert "Traceback" not in found


def test_new_drafts_a_signature_that_check_takes(tmp_path):
    """Paste it, and nothing is wrong."""
    where = folder_of(tmp_path / "signatures", some=OOM)
    log = tmp_path / "train.log"
    log.write_text("fine\n2026-11-21 07:12:44,143 QuotaError: volume 'scratch7' is 98% full\n")

    done = CliRunner().invoke(
        app, ["signatures", "new", "--from", f"{log}:2", "--label", "storage_failure", "--folder", str(where)]
    )
    (where / "quota.yaml").write_text(done.stdout)

    assert "train.log:2" in done.stdout
    assert str(tmp_path) not in done.stdout
    assert "2 signatures" in run("check", "--folder", where)


def diffed(tmp_path: Path, *options: str) -> str:
    """A diff of two folders over a history of two attempts."""
    before = folder_of(tmp_path / "before", some=OOM)
    after = folder_of(tmp_path / "after", some=DRAFT.replace("status: draft", "status: stable"))
    history = history_of(
        tmp_path / "h.jsonl",
        {"lines": ["frobnicator lost the peer"], "gpus": 8, "run_s": 900, "category": "network_error"},
        {"lines": ["out of GPU memory"]},
    )
    return run("diff", before, after, "--history", history, *options)


def test_diff_tells_labels_retries_and_gpu_time_that_change(tmp_path):
    """What a reviewer asks."""
    found = diffed(tmp_path)

    assert "+ frob" in found
    assert "1 of 2 attempts change" in found
    assert "2.0 GPU-hours in 1 of them; against people's labels 1 mended, 0 broken" in found
    assert "unknown (no signature) -> network_error (frob)" in found


def test_diff_writes_markdown(tmp_path):
    """For a pull request's comment."""
    found = diffed(tmp_path, "--markdown")

    assert "**Added** (1): `frob`" in found
    assert "| before | after | retry | attempts | GPU-hours |" in found
    assert "| unknown | network_error |" in found


def test_diff_speaks_json(tmp_path):
    """For programs."""
    found = json.loads(diffed(tmp_path, "--json"))

    assert (["frob"], 2, "a0", 7200.0) == (
        found["signatures"]["added"],
        found["attempts"],
        found["changes"][0]["id"],
        found["changes"][0]["gpu_s"],
    )


def test_diff_reads_a_git_revision(tmp_path):
    """The folder as it was."""
    where = folder_of(tmp_path / "signatures", some=OOM)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(where), *arguments], check=True, capture_output=True)
    (where / "some.yaml").write_text(OOM.replace("version: 1", "version: 2"))

    assert "~ oom: version 1 -> 2" in run("diff", "git:HEAD", where, "--folder", where)


def test_stats_counts_hits_and_wins(tmp_path):
    """And how many were never seen."""
    where = folder_of(tmp_path / "signatures", some=DRAFT.replace("status: draft", "status: stable"))
    history = history_of(tmp_path / "h.jsonl", {"lines": ["out of GPU memory"], "category": "gpu_oom", "ended_at": 60})

    shown = run("stats", "--history", history, "--folder", where)
    told = json.loads(run("stats", "--history", history, "--folder", where, "--json"))

    assert "1 of 2 signatures were never seen" in shown
    assert "1970-01-01T00:01" in shown
    assert ("oom", 1, 1, 0, 1, 1) == tuple(told[k] for k in ("signature", "lines", "won", "lost", "right", "judged"))


def test_promote_changes_two_lines_and_no_other(tmp_path):
    """Comments and layout are the curator's."""
    where = folder_of(tmp_path, some=DRAFT)

    found = run("promote", "frob", "--folder", where)

    assert "frob is shadow now, version 1" in found
    assert "exitsign signatures lock" in found
    assert (where / "some.yaml").read_text() == DRAFT.replace("status: draft   #", "status: shadow   #")


def test_promote_climbs_the_ladder_to_its_end(tmp_path):
    """Two steps, and then nothing."""
    where = folder_of(tmp_path, some=DRAFT)
    run("promote", "frob", "--folder", where)
    run("promote", "frob", "--folder", where)

    assert "status: stable   # young" in (where / "some.yaml").read_text()
    assert "frob is stable: nothing comes after it" in run("promote", "frob", "--folder", where, status=1)


def test_promote_bumps_a_version_whose_content_changed(tmp_path):
    """The lock is then content with it."""
    where = folder_of(tmp_path, some=DRAFT)
    run("lock", "--folder", where)
    (where / "some.yaml").write_text(DRAFT.replace("pattern: 'frob", "pattern: '[Ff]rob"))

    assert "frob is shadow now, version 2" in run("promote", "frob", "--folder", where)
    assert "locked" in run("lock", "--folder", where)


def test_promote_refuses_what_check_refuses(tmp_path):
    """A dead signature stays a draft."""
    where = folder_of(tmp_path, some=DRAFT.replace("match: ['frobnicator lost", "match: ['frobnicator left"))

    assert "frob: its own example does not match" in run("promote", "frob", "--folder", where, status=1)
    assert "status: draft" in (where / "some.yaml").read_text()


def test_promote_refuses_a_thief_of_right_labels(tmp_path):
    """What people said of the past stands against it."""
    shadow = DRAFT.replace("status: draft", "status: shadow").replace("frobnicator lost", "out of GPU memory, lost")
    where = folder_of(tmp_path / "signatures", some=shadow.replace("frobnicator found", "found"))
    lines = ["out of GPU memory, lost the peer"]
    history = history_of(tmp_path / "h.jsonl", {"lines": lines, "category": "gpu_oom"})

    found = run("promote", "frob", "--history", history, "--folder", where, status=1)

    assert "frob: breaks 1 right labels: a0 is gpu_oom (oom), would be network_error" in found
    assert "status: shadow" in (where / "some.yaml").read_text()


def test_bless_check_tells_and_bless_writes(tmp_path):
    """Then nothing is left to tell."""
    where = folder_of(tmp_path, some=OOM)
    (where / "cases").mkdir()
    (where / "cases" / "oom.case").write_text(CASE)

    assert "cases/oom.case:1: unknown -> gpu_oom" in run("bless", "--check", "--folder", where, status=1)
    assert CASE == (where / "cases" / "oom.case").read_text()
    run("bless", "--folder", where)
    assert "r0 err > out of GPU memory" in (where / "cases" / "oom.case").read_text()
    assert "0 of 1 cases would change" in run("bless", "--check", "--folder", where)
