"""Writes to a full disk (the kernel's own: /dev/full)."""

with open("/dev/full", "w") as out:  # noqa: PTH123 - as jobs do it
    out.write("x" * 65536)
