"""Plain text lines in the value; who printed them stands in headers, or in the key `cluster/job[/attempt[/rank]]`.

Rule: headers win: a key is read only where no header names the job.
"""

from __future__ import annotations

from functools import lru_cache

from services.formats.base import Input, RawRecord, Record, check_fields
from services.formats.loglines import Identity, identity_of, log_lines
from services.formats.values import MAX_NAME_CHARS, decoded, moment, name_of, value_of

_ROLES = ("cluster", "job", "attempt", "rank", "node", "stream")
_Headers = tuple[tuple[str, bytes], ...]


class Raw:
    """Text lines with headers or a key."""

    name = "raw"

    def read(self, record: RawRecord, where: Input) -> list[Record]:
        """One LogLine for each line of the value; a value without text gives none."""
        roles, time_header = _header_names(where)
        value = value_of(record)
        if value is None:
            return []
        identity = time = None
        named: _Headers = ()
        if headers := record.headers:
            # Only what names an identity: a trace id in the headers must not spoil the cache.
            named = tuple([header for header in headers if header[0] in roles])
            identity = _from_headers(where, named)
            if len(named) != len(headers):
                times = [text for name, text in headers if name == time_header and text]
                time = moment(decoded(times[-1]), "time") if times else None
        if identity is None:
            identity = _from_key(where, record.key, named)
        return log_lines(record, identity, decoded(value), time)


@lru_cache(maxsize=1024)
def _header_names(where: Input) -> tuple[dict[str, str], str]:
    check_fields(where, (*_ROLES, "time"))
    return {where.fields.get(role, role): role for role in _ROLES}, where.fields.get("time", "time")


def _values(where: Input, named: _Headers) -> dict[str, str]:
    roles, _ = _header_names(where)
    # NB: a name over the limit raises here, and what raises is not cached: the caches below hold short names only.
    return {roles[name]: text for name, value in named if value and (text := name_of(decoded(value), name))}


@lru_cache(maxsize=16_384)
def _from_headers(where: Input, named: _Headers) -> Identity | None:
    values = _values(where, named)
    return identity_of(where, **values) if "job" in values else None


@lru_cache(maxsize=16_384)
def _from_key(where: Input, key: bytes | None, named: _Headers) -> Identity:
    return identity_of(where, **{**_key_parts(key), **_values(where, named)})


def _key_parts(key: bytes | None) -> dict[str, str]:
    """The parts of a key of our form; any other key (a uuid, a host name) names nothing."""
    if key is None or len(key) > MAX_NAME_CHARS:
        return {}
    parts = decoded(key).split("/")
    if not 2 <= len(parts) <= 4 or not all(parts):
        return {}
    return dict(zip(("cluster", "job", "attempt", "rank"), parts, strict=False))
