"""Asks a parameter server that is not up."""

import socket

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
socket.create_connection(("127.0.0.1", port), timeout=5)
