"""versions.lock: which version of which signature has which content.

Rule: a changed signature has a new version; an id that was ever used is never used for something else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from classifiers.catalog import Catalog
from classifiers.signature import Signature, Status

HEAD = "# id version digest; written by `exitsign signatures lock`, never by hand\n"


@dataclass(frozen=True, slots=True)
class Locked:
    """What versions.lock says of one id."""

    version: int
    digest: str
    retired: bool


def content_digest(signature: Signature) -> str:
    """The digest of everything that changes what a signature matches or says (not its examples, not its status)."""
    parts = (signature.label, signature.role, *signature.patterns, sorted(signature.facts.items()), signature.clears)
    return hashlib.sha256(repr((parts, sorted(signature.sources))).encode()).hexdigest()[:16]


def write_lock(catalog: Catalog, locked: Mapping[str, Locked]) -> str:
    """The text of versions.lock for this catalog; ids that are gone stay, as retired."""
    rows = {name: Locked(row.version, row.digest, retired=True) for name, row in locked.items()}
    for s in catalog.signatures:
        rows[s.id] = Locked(s.version, content_digest(s), s.status is Status.RETIRED)
    lines = [
        f"{name} {row.version} {row.digest}{' retired' if row.retired else ''}\n" for name, row in sorted(rows.items())
    ]
    return HEAD + "".join(lines)


def read_lock(text: str) -> dict[str, Locked]:
    """What versions.lock says.  Raises ValueError with the line number."""
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                name, version, digest, *rest = line.split()
                rows[name] = Locked(int(version), digest, rest == ["retired"])
            except ValueError:
                raise ValueError(f"versions.lock:{number}: needs 'id version digest [retired]'") from None
    return rows


def against_lock(signature: Signature, row: Locked) -> Iterator[str]:
    """What is wrong with a signature in the light of what was locked for its id."""
    if row.retired and signature.status is not Status.RETIRED:
        yield "this id was retired and is never used again: choose another"
    elif signature.status is Status.RETIRED:
        return
    elif signature.version < row.version:
        yield f"version {signature.version} is older than the locked {row.version}"
    elif signature.version == row.version and content_digest(signature) != row.digest:
        yield f"changed without a new version: say version: {row.version + 1}, then `exitsign signatures lock`"
