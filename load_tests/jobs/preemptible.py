"""Trains until it is told to stop; the second time it is left alone and ends well."""

import os
import time

steps = 600 if int(os.environ.get("EXITSIGN_DEMO_ATTEMPT", "1")) < 2 else 3
for step in range(steps):
    print(f"step {step}: loss {1 / (step + 1):.4f}", flush=True)
    time.sleep(0.1)
