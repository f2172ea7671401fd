"""All signatures at one digest."""

from __future__ import annotations

import pytest
from builders import SPEC_TEXT, catalog_of, signature_yaml

from classifiers.catalog import digest_of, gather, read_catalog
from classifiers.signature import SignatureError


def files(**texts: str) -> dict[str, str]:
    """Texts of a folder that has an exit spec."""
    return {"exit_spec.yaml": SPEC_TEXT, **{f"{name}.yaml": text for name, text in texts.items()}}


def test_a_catalog_holds_every_signature_and_matches_some():
    """Drafts are there to be found, not to be matched."""
    catalog = catalog_of(signature_yaml("a"), signature_yaml("b", status="draft", pattern="'b'", match="['b']"))

    assert ["a", "b"] == [s.id for s in catalog.signatures]
    assert ["a"] == [s.id for s in catalog.active]
    assert catalog.find("b") is catalog.signatures[1]
    assert catalog.find("c") is None


def test_the_digest_follows_every_byte_and_no_order():
    """The same files give the same digest, whatever the order they were read in."""
    one, two = {"a": "x", "b": "y"}, {"b": "y", "a": "x"}

    assert digest_of(one) == digest_of(two)
    assert 4 == len({digest_of(d) for d in (one, {"a": "x", "b": "z"}, {"a": "xb", "": "y"}, {"a": "x"})})


def test_an_id_that_stands_twice_names_both_places():
    """Across files as within one."""
    with pytest.raises(SignatureError, match=r"two\.yaml:1: a: this id stands already at one\.yaml:1"):
        read_catalog(files(one=signature_yaml("a"), two=signature_yaml("a")))


def test_all_problems_are_gathered_at_once():
    """One per broken file, and every unknown label and invalid pattern of the others."""
    problems: list[SignatureError] = []
    bad = signature_yaml("a", label="nope") + signature_yaml("b", pattern="'('")

    gather(files(broken="- id: [", one=bad, fine=signature_yaml("c")), problems)

    assert ["broken.yaml", "one.yaml", "one.yaml"] == [p.place.file for p in problems]
    assert ["yaml", "a", "b"] == [p.subject for p in problems]


def test_a_catalog_without_an_exit_spec_is_refused():
    """Labels need their meaning."""
    problems: list[SignatureError] = []

    assert gather({"one.yaml": signature_yaml("a")}, problems) is None
    assert ["exit_spec.yaml:1: exit spec: needs `labels:`, a list"] == [str(p) for p in problems]
