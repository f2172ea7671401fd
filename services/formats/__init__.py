"""Producers' wire formats: bytes of a Kafka record -> records, or Poison.  README.md says which topic needs which.

Rule: an input's format is named in its settings, never guessed from content.
Rule: this table is the only list of formats.
"""

from __future__ import annotations

from services.formats.base import Format, Input, Poison, RawRecord, Record
from services.formats.exitsign import Exitsign
from services.formats.filebeat import FILEBEAT
from services.formats.fluentbit import FLUENTBIT
from services.formats.fluentd import FLUENTD
from services.formats.k8s_event import K8sEvent
from services.formats.raw import Raw
from services.formats.rsyslog import RSYSLOG
from services.formats.slurm_jobcomp import SlurmJobcomp
from services.formats.syslog_ng import SYSLOG_NG
from services.formats.vector import VECTOR

__all__ = ["FORMATS", "Format", "Input", "Poison", "RawRecord", "Record", "check_input", "format_named"]

_SHIPPERS = (RSYSLOG, FLUENTBIT, FLUENTD, VECTOR, FILEBEAT, SYSLOG_NG)
_ALL: tuple[Format, ...] = (Raw(), Exitsign(), *_SHIPPERS, SlurmJobcomp(), K8sEvent())
FORMATS: dict[str, Format] = {each.name: each for each in _ALL}


def format_named(name: str) -> Format:
    """The format of that name.  Raises ValueError naming all formats."""
    try:
        return FORMATS[name]
    except KeyError:
        raise ValueError(f"unknown format {name!r}; known formats: {', '.join(sorted(FORMATS))}") from None


def check_input(where: Input) -> None:
    """Raise ValueError where a row of the inputs table can't work: unknown format, unknown field, bad file_pattern."""
    # An empty record says nothing, but reading it compiles the row.
    format_named(where.format).read(RawRecord(where.topic, 0, 0, 0.0), where)
