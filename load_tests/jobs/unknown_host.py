"""Looks up a server whose name does not resolve."""

import socket

socket.getaddrinfo("parameter-server.invalid", 4000)
