"""Resumes from a checkpoint whose writer was killed half-way."""

import pickle
import tempfile
from pathlib import Path

checkpoint = Path(tempfile.mkdtemp()) / "checkpoint_1200.pt"
checkpoint.write_bytes(pickle.dumps({"weights": list(range(1000))})[:500])
print(f"resuming from {checkpoint.name}", flush=True)
pickle.loads(checkpoint.read_bytes())
