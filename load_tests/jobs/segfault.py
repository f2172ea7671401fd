"""Reads address zero in native code."""

import ctypes
import faulthandler

faulthandler.enable()
print("calling the native kernel", flush=True)
ctypes.string_at(0)
