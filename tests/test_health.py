"""The health endpoint."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from services import metrics
from services.health import PortTaken, serve


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(**told: object) -> Iterator[str]:
    """The address of an endpoint whose check tells this."""
    server = serve("scanner", "127.0.0.1", free_port(), lambda: dict(told))
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def get(url: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_healthy_agent_answers_200_and_tells_how_it_is():
    """The check's words come out as JSON, with the agent's name."""
    with served(healthy=True, lag=7) as url:
        status, body = get(f"{url}/healthz")

    assert (200, {"agent": "scanner", "healthy": True, "lag": 7}) == (status, json.loads(body))


def test_an_unhealthy_agent_answers_503():
    """A probe restarts it."""
    with served(healthy=False) as url:
        status, body = get(f"{url}/healthz")

    assert (503, False) == (status, json.loads(body)["healthy"])


def test_a_check_that_says_nothing_is_not_healthy():
    """Silence is no health."""
    with served() as url:
        assert 503 == get(f"{url}/healthz")[0]


def test_metrics_are_in_the_prometheus_text_format():
    """What an agent counted can be read."""
    metrics.STORE_OUTAGES.inc(0)
    with served(healthy=True) as url:
        status, body = get(f"{url}/metrics")

    assert 200 == status
    assert "# TYPE exitsign_store_outages_total counter" in body


def test_a_taken_port_is_one_line_that_names_the_setting():
    """Two agents on one machine need two ports."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            PortTaken, match=rf"^scanner: 127\.0\.0\.1:{port} can't be had \(.+\); set EXITSIGN_METRICS_PORT$"
        ):
            serve("scanner", "127.0.0.1", port, dict)
