"""Loads a shared library that is not on the node."""

import ctypes

ctypes.CDLL("libnot_on_this_node.so.9")
