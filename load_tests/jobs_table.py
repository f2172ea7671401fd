"""Which jobs the demo runs, and what each of their attempts must get."""

from __future__ import annotations

from load_tests.cluster import Job

JOBS = (
    Job("missing-input", ("incorrect_inputs",), "missing_input.py"),
    Job("cut-off-config", ("incorrect_inputs",), "bad_json.py"),
    Job("shape-mismatch", ("semantic_error",), "shape_error.py"),
    Job("missing-key", ("semantic_error",), "key_error.py"),
    Job("missing-attribute", ("semantic_error",), "attribute_error.py"),
    Job("failed-assertion", ("semantic_error",), "assertion.py"),
    Job("endless-recursion", ("semantic_error",), "recursion.py"),
    Job("broken-syntax", ("syntax_error",), "syntax_error.txt"),
    Job("missing-module", ("import_error",), "missing_module.py"),
    Job("missing-library", ("cannot_load_libs",), "missing_library.py"),
    Job("missing-command", ("user_config",), "missing_command.sh"),
    Job("unknown-option", ("user_config",), "bad_argument.py"),
    Job("no-permission", ("permission_error",), "permission_denied.py"),
    Job("segmentation-fault", ("invalid_memory_access_cpu",), "segfault.py"),
    Job("native-abort", ("invalid_memory_access_cpu",), "abort.sh"),
    Job("host-memory", ("cpu_oom",), "memory_limit.py"),
    Job("disk-full", ("storage_failure",) * 4, "disk_full.py"),
    Job("divide-by-zero", ("arithmetic_error",), "division_by_zero.py"),
    Job("cut-off-checkpoint", ("model_checkpoint_error",), "bad_checkpoint.py"),
    Job("runs-too-long", ("time_limit",), "runs_too_long.py", end={"state": "TIMEOUT"}, kill_after_s=1.5),
    Job("preempted-once", ("job_preempted", None), "preemptible.py", end={"state": "PREEMPTED"}, kill_after_s=1.5),
    Job("node-lost-once", ("node_failure", None), "preemptible.py", end={"state": "NODE_FAIL"}, kill_after_s=1.0),
    Job("interrupted", ("killed_by_user",), "interrupted.py"),
    Job("late-service", ("network_error", None), "flaky_service.py"),
    Job("unknown-host", ("network_error",) * 4, "unknown_host.py"),
    Job("frightening-success", (None,), "frightening_success.py"),
    # What needs GPUs or Hadoop is replayed from signatures/cases, line by line, in those programs' wording.
    Job("gpu-memory", ("gpu_oom",), case="oom-on-one-rank-of-eight-seen-by-torchrun-and-srun", gpus=8),
    Job("bad-gpu-index", ("gpu_invalid_memory_access",), case="device-side-assert-from-a-label-out-of-range"),
    Job("hdfs-input", ("incorrect_inputs",), case="hdfs-input-folder-of-the-job-does-not-exist"),
    Job(
        "key-error-on-rank-3",
        ("semantic_error",),
        case="key-error-on-rank-3-and-nccl-timeouts-half-an-hour-later",
        gpus=8,
    ),
    Job("nan-loss", ("arithmetic_error",), case="nan-loss-stops-the-run"),
    Job("home-quota", ("disk_quota",), case="home-quota-exceeded-while-writing-a-checkpoint"),
    Job("old-driver", ("cuda_failure",) * 3, case="driver-too-old-for-the-cuda-build-of-the-job"),
    Job("mpi-too-many-ranks", ("user_config",), "mpi_too_many.sh", needs="mpirun"),
    Job("mpi-unknown-host", ("network_error",) * 4, "mpi_unreachable_host.sh", needs="mpirun"),
)
