"""Single values of a producer -> text, names, whole numbers, times; each bounded.

Rule: a value of the wrong type is Poison naming its field; an absent one is None, never zero and never "".
Rule: a time that can't be read, or lies outside 1990..2100, is None: a line is worth more than its clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from classifiers.records import Stream
from services.formats.base import Poison, RawRecord, quoted

MAX_VALUE_BYTES = 16 * 1024 * 1024
MAX_TEXT_CHARS = 64 * 1024
KEPT_CHARS = 32 * 1024
MAX_NAME_CHARS = 512
MAX_INT = 2**31 - 1  # What a column of the store holds.
FIRST_S, LAST_S = 631_152_000.0, 4_102_444_800.0  # 1990-01-01 and 2100-01-01.

_STREAMS = {
    "stdout": Stream.STDOUT, "out": Stream.STDOUT, "1": Stream.STDOUT,
    "stderr": Stream.STDERR, "err": Stream.STDERR, "2": Stream.STDERR,
    "scheduler": Stream.SCHEDULER, "node": Stream.NODE,
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def value_of(record: RawRecord) -> bytes | None:
    """The record's value, None where there is none (a tombstone).  Raises Poison over MAX_VALUE_BYTES."""
    value = record.value
    if value is not None and len(value) > MAX_VALUE_BYTES:
        raise Poison("too_large", f"the value has {len(value)} bytes, the limit is {MAX_VALUE_BYTES}")
    return value or None


def decoded(value: bytes) -> str:
    """UTF-8 text; bytes that are none become U+FFFD."""
    return value.decode("utf-8", "replace")


def decoded_json(value: bytes) -> str:
    """JSON text without a trailing NUL or line feed and without a byte order mark."""
    # NB: replaced before it is parsed: rsyslog passes a job's raw bytes into its JSON.
    return decoded(value).removeprefix("\ufeff").rstrip("\x00\r\n\t ")


def from_json(decoder: msgspec.json.Decoder[Any], text: str) -> Any:
    """What the decoder makes of JSON text.  Raises Poison."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None
    except msgspec.DecodeError as error:
        repaired = _ESCAPE.sub(_without_half, text) if "\\ud" in text or "\\uD" in text else text
        if repaired != text:
            return from_json(decoder, repaired)
        raise Poison("bad_json", f"{error} of {len(text)} characters") from None
    except RecursionError:
        raise Poison("bad_json", "nested too deeply") from None


def _without_half(escape: re.Match[str]) -> str:
    """Half a surrogate pair -> U+FFFD: Python producers escape a job's raw bytes that way."""
    return "\\ufffd" if escape.group(1) else escape.group()


def _refused(message: str) -> Poison:
    detail = message if len(message) <= 200 else message[:100] + " ... " + message[-95:]
    if "missing required field" in message:
        return Poison("missing_field", detail)
    if message.startswith("Invalid "):
        return Poison("unknown_value", detail)
    return Poison("wrong_type", detail)


def bounded(text: str) -> str:
    """Text without NULs; over MAX_TEXT_CHARS only its head and tail with a mark between."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if len(text) <= MAX_TEXT_CHARS:
        return text
    return f"{text[:KEPT_CHARS]} [... {len(text) - 2 * KEPT_CHARS} characters cut ...] {text[-KEPT_CHARS:]}"


def name_of(value: object, field: str, limit: int = MAX_NAME_CHARS) -> str | None:
    """A name or id as text, None where it is absent or blank.  Raises Poison over the limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Poison("wrong_type", f"{field} must be text, not {type(value).__name__}")
    text = str(value).replace("\x00", "").strip()
    if len(text) > limit:
        raise Poison("too_large", f"{field} has {len(text)} characters, the limit is {limit}")
    return text or None


def whole(value: object, field: str, low: int = 0, high: int = MAX_INT) -> int | None:
    """A whole number, also where it came as text; None where it is absent.  Raises Poison outside low..high."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
            raise Poison("wrong_type", f"{field} must be a whole number, not {quoted(value)}")
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Poison("wrong_type", f"{field} must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        raise Poison("wrong_type", f"{field} must lie in {low}..{high}, not {quoted(value)}")
    return value


def moment(value: object, field: str) -> float | None:
    """Seconds since the epoch of a number, a number as text, or ISO 8601 (UTC where it names no zone)."""
    if value is None:
        return None
    if isinstance(value, str):
        seconds = _seconds(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise Poison("wrong_type", f"{field} must be a number or text, not {type(value).__name__}")
    # NB: the comparison comes before float(): a whole number of 500 digits has no float.
    return float(seconds) if seconds is not None and FIRST_S <= seconds < LAST_S else None


def _seconds(text: str) -> float | None:
    if len(text) > 64:
        return None
    try:
        if text[4:5] != "-":
            return float(text)
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def stream_of(value: object, default: Stream) -> Stream:
    """The stream that a word names (also out, err, 1, 2).  Raises Poison on a word outside the list."""
    name = name_of(value, "stream")
    if name is None:
        return default
    stream = _STREAMS.get(name.lower())
    if stream is None:
        raise Poison("unknown_value", f"stream {quoted(name)} is none of {', '.join(_STREAMS)}")
    return stream
