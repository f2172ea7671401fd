"""Opens a file of another user."""

import os
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
secret = folder / "labels.csv"
secret.write_text("1")
secret.chmod(0)
folder.chmod(0o755)
if os.getuid() == 0:
    os.setuid(65534)  # Root may read everything.
secret.read_text()
