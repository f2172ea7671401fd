"""Failures that no signature explains, on the real stack with the model in use."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from stack.service_kit import Service, ended, log, packaged_copy, serving, started, until

from services.stack.up import Stack

BUILD_LIMIT_S = 240.0


@pytest.fixture(scope="module", name="service")
def _service(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("model-service")
    with serving(stack, folder, packaged_copy(folder), fallback=True) as service:
        attributor = service.agents["attributor"]
        until(
            lambda: 'event="fallback model" ready=true' in attributor.log.read_text().lower(), BUILD_LIMIT_S, "a model"
        )
        yield service


def failed(service: Service, line: str) -> str:
    """The id of a job that printed this line and failed."""
    job = f"model-{uuid.uuid4().hex[:8]}"
    service.send(started(job), log(job, f"epoch 3 of 9\n{line}"), ended(job))
    return job


def test_an_unseen_but_similar_error_gets_the_model_s_verdict(service: Service) -> None:
    """Its source says that a model guessed, and its reason by which words."""
    job = failed(service, "failed: tensor size mismatch, expected dimension 512 got 768")
    told = service.advice(job, 40.0, source="model")

    assert ("semantic_error", None) == (told.body["label"], told.body["signature"])
    assert "a model's guess, by the words" in told.body["reason"]
    assert "model" == service.row(job, label="semantic_error")["source"]


def test_nonsense_stays_unknown_with_its_context(service: Service) -> None:
    """The model abstains, and the line waits for a person in the view that `exitsign unknowns` reads."""
    job = failed(service, "zorble quux failed to frobnicate the gribble")
    told = service.advice(job, 40.0, label="unknown")
    row = service.row(job, label="unknown")

    assert "none" == told.body["source"]
    assert any("zorble quux" in text for text in row["context"])
