"""Ends well after output that looks like disaster."""

import sys
import traceback

print("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (caught; halving the batch size)", file=sys.stderr)
try:
    [][1]
except IndexError:
    traceback.print_exc()
print("errors: 0, failed: 0; training finished")
