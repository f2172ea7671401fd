"""Trains for longer than its time limit."""

import time

for step in range(600):
    print(f"step {step}: loss {1 / (step + 1):.4f}", flush=True)
    time.sleep(0.1)
