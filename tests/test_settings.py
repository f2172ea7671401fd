"""Settings from environment, secret files and TOML."""

from __future__ import annotations

import json

import pytest

from services.settings import DEFAULT_INPUTS, Settings, SettingsError, load


def test_without_anything_the_defaults_hold():
    """An empty environment is a laptop."""
    assert Settings() == load(environ={})


def test_the_environment_sets_every_kind_of_value():
    """Numbers, switches and text are read from text."""
    told = load(
        environ={
            "EXITSIGN_KAFKA": "k:1",
            "EXITSIGN_GRACE_S": "2.5",
            "EXITSIGN_SHADOW": "true",
            "EXITSIGN_PARTITIONS": "8",
        }
    )

    assert ("k:1", 2.5, True, 8) == (told.kafka, told.grace_s, told.shadow, told.partitions)


def test_variables_of_others_are_nothing_to_us():
    """Only names of settings count, and only with the prefix."""
    assert Settings() == load(environ={"KAFKA": "x", "EXITSIGN_DEMO_ATTEMPT": "1", "PATH": "/bin"})


def test_a_file_sets_and_the_environment_beats_it(tmp_path):
    """The same names stand in both."""
    file = tmp_path / "exitsign.toml"
    file.write_text('kafka = "file:1"\ngrace_s = 3\n[[inputs]]\ntopic = "t"\nformat = "raw"\n')
    told = load(file, {"EXITSIGN_KAFKA": "environment:1"})

    assert ("environment:1", 3.0, ["t"]) == (told.kafka, told.grace_s, [row.topic for row in told.inputs])


def test_a_secret_comes_from_a_file(tmp_path):
    """EXITSIGN_POSTGRES_FILE names a file that holds the DSN; the line feed at its end is none of it."""
    (tmp_path / "dsn").write_text("postgresql://u:p@h/d\n")

    assert "postgresql://u:p@h/d" == load(environ={"EXITSIGN_POSTGRES_FILE": str(tmp_path / "dsn")}).postgres


def test_the_variable_itself_beats_its_file(tmp_path):
    """What is said more directly holds."""
    (tmp_path / "dsn").write_text("from-file")
    environ = {"EXITSIGN_POSTGRES_FILE": str(tmp_path / "dsn"), "EXITSIGN_POSTGRES": "direct"}

    assert "direct" == load(environ=environ).postgres


def test_the_input_table_is_json_in_the_environment():
    """What a row leaves unsaid has defaults."""
    rows = [{"topic": "slurm", "format": "slurm_jobcomp", "cluster": "alps"}]
    (row,) = load(environ={"EXITSIGN_INPUTS": json.dumps(rows)}).inputs

    assert ("slurm", "slurm_jobcomp", "alps", "unknown", {}) == (
        row.topic,
        row.format,
        row.cluster,
        row.scheduler,
        row.fields,
    )


def test_the_default_inputs_have_one_row_a_topic():
    """A topic with two formats could not be read."""
    assert len(DEFAULT_INPUTS) == len({row.topic for row in DEFAULT_INPUTS})


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({"EXITSIGN_GRACE_S": "soon"}, r"^setting grace_s \(EXITSIGN_GRACE_S\): .*number"),
        ({"EXITSIGN_GRACE_S": "-1"}, r"^setting grace_s \(EXITSIGN_GRACE_S\): .*greater than or equal to 0"),
        ({"EXITSIGN_PARTITIONS": "0"}, r"^setting partitions \(EXITSIGN_PARTITIONS\): "),
        ({"EXITSIGN_METRICS_PORT": "70000"}, r"^setting metrics_port \(EXITSIGN_METRICS_PORT\): "),
        ({"EXITSIGN_INPUTS": "[{"}, r"^EXITSIGN_INPUTS: not JSON: "),
        ({"EXITSIGN_INPUTS": '[{"topic": "t"}]'}, r"^setting inputs\.0\.format \(EXITSIGN_INPUTS\): Field required$"),
        (
            {"EXITSIGN_INPUTS": '[{"topic": "t", "format": "raw", "x": 1}]'},
            r"^setting inputs\.0\.x \(EXITSIGN_INPUTS\): ",
        ),
        ({"EXITSIGN_POSTGRES_FILE": "/no/such/file"}, r"^EXITSIGN_POSTGRES_FILE: /no/such/file: No such file"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_setting(environ, line):
    """Whoever set it knows what to change."""
    with pytest.raises(SettingsError, match=line) as refused:
        load(environ=environ)

    assert 1 == len(str(refused.value).splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [("graze_s = 3", r"^setting graze_s \(EXITSIGN_GRAZE_S\): "), ("kafka = = 3", r"exitsign\.toml: .*line 1")],
)
def test_a_wrong_file_is_one_line(tmp_path, text, line):
    """A name that is no setting is refused, and so is what is no TOML."""
    file = tmp_path / "exitsign.toml"
    file.write_text(text)

    with pytest.raises(SettingsError, match=line):
        load(file, {})


def test_a_missing_file_is_one_line(tmp_path):
    """--config with a wrong path says so."""
    with pytest.raises(SettingsError, match=r"none\.toml: No such file or directory; --config takes a TOML file"):
        load(tmp_path / "none.toml", {})
