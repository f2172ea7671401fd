"""/metrics and /healthz of one agent.

Rule: healthy means: started, and no batch has been stuck for longer than the watchdog's time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

PORTS = {"scanner": 9101, "attributor": 9102, "nodes": 9103, "recorder": 9104}


class PortTaken(OSError):
    """The metrics port can't be had; str() is one line with the setting to change."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: probes come every few seconds."""


def serve(agent: str, host: str, port: int, check: Callable[[], dict[str, Any]]) -> WSGIServer:
    """Serve in a daemon thread until `server.shutdown()`.  `check` gives {"healthy": bool, ...}.  Raises PortTaken."""
    metrics_app = make_wsgi_app()

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != "/healthz":
            return metrics_app(environ, start_response)  # type: ignore[no-any-return]
        told = {"agent": agent, **check()}
        status = "200 OK" if told.get("healthy") else "503 Service Unavailable"
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(told).encode()]

    chosen = port or PORTS.get(agent, 0)
    try:
        server = make_server(host, chosen, app, handler_class=_Quiet)
    except OSError as error:
        msg = f"{agent}: {host}:{chosen} can't be had ({error.strerror}); set EXITSIGN_METRICS_PORT"
        raise PortTaken(msg) from None
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server
