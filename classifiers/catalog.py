"""All signatures and the exit spec at one digest.

Rule: a catalog is immutable; a change of any file gives another digest.
Rule: a catalog that loads is usable: ids are unique, labels exist, patterns compile for both engines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import regex

from classifiers.exit_spec import ExitSpec, read_exit_spec
from classifiers.signature import Signature, SignatureError, read_signatures

EXIT_SPEC_FILE = "exit_spec.yaml"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every signature (also drafts and retired ones), the exit spec, and the digest of the files they came from."""

    signatures: tuple[Signature, ...]
    spec: ExitSpec
    digest: str

    @property
    def active(self) -> tuple[Signature, ...]:
        """The signatures that are matched: stable and shadow."""
        return tuple(s for s in self.signatures if s.active)

    def find(self, signature_id: str) -> Signature | None:
        """The signature of that id, or None."""
        return next((s for s in self.signatures if s.id == signature_id), None)


def read_catalog(texts: Mapping[str, str], *, checked: bool = False) -> Catalog:
    """The catalog of {file name: text}.  Raises SignatureError for the first problem.

    `checked` says that a catalog of this digest was read before, so that its patterns are known to compile.
    """
    problems: list[SignatureError] = []
    catalog = gather(texts, problems, checked=checked)
    if problems or catalog is None:
        raise problems[0]
    return catalog


def gather(texts: Mapping[str, str], problems: list[SignatureError], *, checked: bool = False) -> Catalog | None:
    """The catalog of what can be read; everything that can't is appended to `problems`.  None without an exit spec."""
    spec = None
    try:
        spec = read_exit_spec(texts.get(EXIT_SPEC_FILE, ""), EXIT_SPEC_FILE)
    except SignatureError as error:
        problems.append(error)
    signatures: list[Signature] = []
    for file in sorted(texts):
        if file != EXIT_SPEC_FILE:
            try:
                signatures.extend(read_signatures(texts[file], file))
            except SignatureError as error:
                problems.append(error)
    if spec is None:
        return None
    if not checked:
        problems.extend(_wrong(signatures, spec))
    return Catalog(tuple(signatures), spec, digest_of(texts))


def digest_of(texts: Mapping[str, str]) -> str:
    """`sha256:...` over names and texts, in the order of names."""
    total = hashlib.sha256()
    for name in sorted(texts):
        total.update(f"{name}\0{texts[name]}\0".encode())
    return f"sha256:{total.hexdigest()}"


def _wrong(signatures: Iterable[Signature], spec: ExitSpec) -> Iterator[SignatureError]:
    seen: dict[str, Signature] = {}
    for signature in signatures:
        if signature.id in seen:
            yield SignatureError(signature.place, signature.id, f"this id stands already at {seen[signature.id].place}")
        seen.setdefault(signature.id, signature)
        if signature.label is not None and signature.label not in spec:
            yield SignatureError(signature.place, signature.id, f"label {signature.label} is not in {EXIT_SPEC_FILE}")
        for pattern in signature.patterns:
            try:
                regex.compile(pattern)
            except regex.error as error:
                yield SignatureError(signature.place, signature.id, f"invalid pattern: {error}")
