"""A small fallback model for tests, learned in a moment from a dozen made-up failures."""

from __future__ import annotations

from functools import lru_cache

from classifiers.exit_spec import ExitSpec, read_exit_spec
from classifiers.fallback import NOTHING, Learned
from classifiers.masking import masked
from classifiers.records import AttemptFacts
from services.training import Judged, train
from services.training_rows import Material, Row, Trial

NOBODY = AttemptFacts(cluster="c", job_id="j")
FAILURES = {
    "gpu_oom": (
        "CUDA out of memory, tried to allocate {n} GiB on the device",
        "device memory exhausted: cannot allocate {n} MiB of GPU memory",
        "GPU memory allocation of {n} bytes failed: out of memory on the device",
        "RESOURCE_EXHAUSTED: out of GPU memory while trying to allocate {n} bytes",
        "HIP out of memory. Tried to allocate {n} GiB of GPU memory",
    ),
    "network_error": (
        "connection refused by peer at port {n}",
        "connection reset by peer after {n} seconds",
        "could not connect to the peer: connection timed out after {n} seconds",
        "lost connection to the server: connection reset, {n} retries",
        "connect to server failed: network is unreachable, connection {n}",
    ),
    "storage_failure": (
        "input/output error while reading block {n} of the file system",
        "stale file handle on the mounted file system, inode {n}",
        "read-only file system: cannot write block {n}",
        "file system error: lost page write, block {n}",
        "disk failure: input/output error on the file system, sector {n}",
    ),
    "import_error": (
        "ModuleNotFoundError: no module named package{n}",
        "ImportError: cannot import module thing{n}",
        "the module some{n} could not be imported: not installed",
        "cannot import name value{n} from module",
        "module package{n} is not installed in this environment",
    ),
    NOTHING: (
        "epoch {n} finished, loss 0.4",
        "saving the checkpoint took {n} seconds",
        "WARNING: the learning rate {n} is high",
        "reading {n} shards of the data set",
        "deprecated argument {n} will be removed",
    ),
}


@lru_cache
def spec() -> ExitSpec:
    """The exit spec that ships."""
    from builders import SPEC_TEXT

    return read_exit_spec(SPEC_TEXT)


def material(skip: frozenset[str] = frozenset()) -> Material:
    """Rows and trials of FAILURES, without the labels of `skip`; each sentence is a group of two near-duplicates."""
    found = Material()
    for label, sentences in FAILURES.items():
        for number, sentence in enumerate(sentences if label not in skip else ()):
            for n in (3, 41):
                line = sentence.format(n=n)
                found.rows.append(Row(masked(line), label, f"{label} {number}", 1.0, "example"))
                if label != NOTHING:
                    trial = Trial((line,), NOBODY, frozenset({label}), f"{label} {number}", "example")
                    found.trials.append(trial)
    return found


@lru_cache
def small_model() -> tuple[Learned, tuple[Judged, ...]]:
    """The model of `material()`, and its held-out readings."""
    learned, rows = train(material(), spec(), lambda line: None)
    return learned, tuple(rows)
