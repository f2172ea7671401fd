"""Every setting once, with its sentence: environment EXITSIGN_*, a file EXITSIGN_*_FILE, or a TOML file (--config).

Rule: a setting has one name everywhere; the environment beats the file, the file beats the default.
Rule: a wrong value is one line that names the setting.
"""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

PREFIX = "EXITSIGN_"


class SettingsError(ValueError):
    """A setting that can't be used; str() is one line for people."""


class InputSettings(BaseModel):
    """One row of the input table: which topic carries which format, and what its records leave unsaid."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str
    format: str
    cluster: str = "default"
    scheduler: str = "unknown"
    stream: str = "stderr"
    fields: dict[str, str] = {}


FILE_PATTERN = r"(?P<job>[^/]+)\.(?P<attempt>[^/.]+)\.(?P<rank>\d+)\.(?P<node>[^/.]+)\.(?P<stream>out|err)$"
DEFAULT_INPUTS = (
    InputSettings(topic="job-logs", format="rsyslog", fields={"file_pattern": FILE_PATTERN}),
    InputSettings(topic="job-logs-raw", format="raw"),
    InputSettings(topic="scheduler-events", format="exitsign"),
    InputSettings(topic="node-events", format="exitsign", stream="node"),
)


class Settings(BaseModel):
    """All settings of all agents and commands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kafka: str = Field("127.0.0.1:9092", description="Bootstrap servers of Kafka, host:port separated by commas.")
    postgres: str = Field("", description="DSN of Postgres, postgresql://user:password@host/database.")
    signatures: str = Field("", description="Folder of signature files; empty means the ones in the package.")
    inputs: tuple[InputSettings, ...] = Field(
        DEFAULT_INPUTS,
        description="The input table: topic, format, cluster, scheduler, stream, fields (JSON in the environment).",
    )
    partitions: int = Field(
        4, ge=1, description="Partitions of the topics that exitsign creates; fixed for their life."
    )
    replication: int = Field(1, ge=1, description="Replication factor of the topics that exitsign creates.")
    group_prefix: str = Field("exitsign", description="First part of every consumer group and Faust app id.")
    grace_s: float = Field(
        8.0, ge=0, description="How long after the end of an attempt late log lines still count, seconds."
    )
    max_wait_s: float = Field(
        60.0, ge=0, description="When to decide although input is still unscanned, seconds after the end."
    )
    late_facts_s: float = Field(
        300.0, ge=0, description="How long scheduler and node facts still revise a verdict, seconds after the end."
    )
    job_ttl_s: float = Field(86_400.0, ge=60, description="How long a quiet job's history is remembered, seconds.")
    max_retries: int = Field(3, ge=0, description="The owner's retries per job that advice may spend.")
    min_success: float = Field(0.05, ge=0, le=1, description="Advice stops below this expected success.")
    enforce_confidence: float = Field(0.5, ge=0, le=1, description="A model's advice below this confidence is shadow.")
    shadow: bool = Field(False, description="Kill switch: all advice is shadow.")
    advice_expiry_s: float = Field(3600.0, ge=1, description="How long advice stays valid, seconds.")
    tick_s: float = Field(1.0, gt=0, description="How often a scanner tells its watermarks, seconds.")
    match_time_limit_s: float = Field(0.05, gt=0, description="Time limit of one pattern on one line, seconds.")
    context_lines: int = Field(
        20, ge=0, description="Failure-like lines kept of each stream of an attempt in one batch."
    )
    poison_limit: int = Field(
        1000, ge=1, description="Dead letters of one partition, in a row or within poison_window_s, that stop an agent."
    )
    poison_window_s: float = Field(60.0, gt=0, description="The window of poison_limit, seconds.")
    watchdog_s: float = Field(120.0, gt=0, description="Lag without progress for so long ends the worker, seconds.")
    shutdown_s: float = Field(10.0, gt=0, description="How long a worker may take to stop after SIGTERM, seconds.")
    metrics_host: str = Field("127.0.0.1", description="Address that /metrics and /healthz listen on.")
    metrics_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port of /metrics and /healthz; 0 means the agent's own (9101 scanner, 9102 attributor, 9103 nodes, 9104 recorder).",
    )
    fallback: bool = Field(True, description="Ask the model where no signature explains a failure.")
    reload_s: float = Field(5.0, gt=0, description="How often the signature folder is looked at for changes, seconds.")
    log_level: str = Field("info", description="debug, info, warning or error.")


def load(config: Path | None = None, environ: dict[str, str] | None = None) -> Settings:
    """Settings of environment and file.  Raises SettingsError, one line, for an unknown name or a wrong value."""
    values: dict[str, Any] = _file(config) if config else {}
    values.update(_environment(dict(os.environ) if environ is None else environ))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"setting {name} ({PREFIX}{name.split('.')[0].upper()}): {first['msg']}") from None


def _file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; --config takes a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None


def _environment(environ: dict[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in Settings.model_fields:
        key = PREFIX + name.upper()
        if secret := environ.get(f"{key}_FILE"):
            try:
                values[name] = Path(secret).read_text().strip()
            except OSError as error:
                raise SettingsError(f"{key}_FILE: {secret}: {error.strerror}") from None
        if key in environ:
            values[name] = environ[key]
    if isinstance(values.get("inputs"), str):
        try:
            values["inputs"] = json.loads(values["inputs"])
        except ValueError as error:
            raise SettingsError(f"{PREFIX}INPUTS: not JSON: {error}") from None
    return values
