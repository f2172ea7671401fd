"""Wording drifts between versions: every phrasing of one failure gets the same label, behind any prefix."""

from __future__ import annotations

import pytest

from classifiers.classification import Log, classify
from services.signature_files import PACKAGED, load_matcher

MATCHER = load_matcher(PACKAGED)
PREFIXES = ("", "[rank3]: ", "1,2<stderr>:", "2026-11-21 07:12:44,123 ")
WORDINGS = {
    "gpu_oom": [
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity; 14.2 GiB already allocated)",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 79.15 GiB",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,512] and type float",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
        "W tensorflow/core/common_runtime/bfc_allocator.cc:456] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB",
        "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 4.00 GiB.",
        "node1:12:40 [0] include/alloc.h:99 NCCL WARN Cuda failure 2 'out of memory'",
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
    ],
    "collective_timeout": [
        "[E ProcessGroupNCCL.cpp:737] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1802710 milliseconds before timing out.",
        "[rank3]:[E1121 07:12:44.143 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLGATHER, NumelIn=1, NumelOut=8, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=_REDUCE_SCATTER_BASE)",
        "RuntimeError: NCCL communicator was aborted on rank 1. Original reason for failure was: [Rank 1] Watchdog caught collective operation timeout",
        "torch.distributed.DistBackendError: [Rank 2] Collective operation timed out: WorkNCCL(SeqNum=7)",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
        "[E ProcessGroupGloo.cpp:138] Rank 0 timed out in monitoredBarrier after 1800000 ms",
        "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        "EI0002: [PID: 7712] The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [5].",
        "[1] [E] horovod: Stalled ranks: 0: [allreduce.grad_0]",
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled system error, NCCL version 2.14.3",
        "[PG 0 Rank 3] First PG on this rank to signal dumping. Observed flight recorder dump signal; failure detected by watchdog at work sequence id: 12 PG status: last enqueued work: 14, last completed work: 11",
    ],
    "incorrect_inputs": [
        "org.apache.hadoop.mapred.InvalidInputException: Input path does not exist: hdfs://nn:8020/data/x",
        "java.io.FileNotFoundException: File does not exist: /user/x/part-00000",
        'Exception in thread "main" org.apache.hadoop.mapreduce.lib.input.InvalidInputException: Input path does not exist: hdfs://nn/x',
        "pyspark.errors.exceptions.captured.AnalysisException: [PATH_NOT_FOUND] Path does not exist: hdfs://nn/x.",
        "org.apache.spark.sql.AnalysisException: Path does not exist: hdfs://nn:8020/x;",
        "cat: `/user/x/train.txt': No such file or directory",
        "put: `/user/x/in': No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'",
        "Caused by: java.io.FileNotFoundException: File does not exist: hdfs://nn/x/_SUCCESS",
        "ls: `hdfs://nn/x': No such file or directory",
        "botocore.exceptions.ClientError: An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.",
        "OSError: HDFS path does not exist: /data/x",
    ],
    "model_checkpoint_error": [
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "RuntimeError: PytorchStreamReader failed reading file data/12: file read failed",
        "RuntimeError: Error(s) in loading state_dict for Net:",
        "RuntimeError: unexpected EOF, expected 81233 more bytes. The file might be corrupted.",
        "_pickle.UnpicklingError: invalid load key, 'v'.",
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
        "ValueError: Restore called with invalid save path: 'model.ckpt'. File path is: 'model.ckpt'",
        "tensorflow.python.framework.errors_impl.NotFoundError: Unsuccessful TensorSliceReader constructor: Failed to find any matching files for model.ckpt",
        "_pickle.UnpicklingError: pickle data was truncated",
        "size mismatch for fc.weight: copying a param with shape torch.Size([10, 512]) from checkpoint, the shape in current model is torch.Size([5, 512]).",
        "RuntimeError: Invalid magic number; corrupt file?",
    ],
    "invalid_memory_access_cpu": [
        "Segmentation fault (core dumped)",
        "Segmentation fault",
        "/var/spool/slurmd/job1/slurm_script: line 9: 12345 Segmentation fault      (core dumped) ./a.out",
        "Fatal Python error: Segmentation fault",
        "*** Process received signal *** Signal: Segmentation fault (11)",
        "[node1:12345] Signal: Segmentation fault (11)",
        "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.",
        "forrtl: severe (174): SIGSEGV, segmentation fault occurred",
        "#  SIGSEGV (0xb) at pc=0x00007f, pid=1, tid=2",
        "srun: error: n1: task 0: Segmentation fault (core dumped)",
        "malloc(): corrupted top size",
        "double free or corruption (out)",
    ],
    "import_error": [
        "ModuleNotFoundError: No module named 'torch'",
        "ImportError: No module named numpy",
        "ImportError: cannot import name 'gcd' from 'fractions' (/usr/lib/python3.9/fractions.py)",
        "ImportError: cannot import name 'AdamW'",
        "/usr/bin/python3: No module named pip",
        'Lmod has detected the following error: The following module(s) are unknown: "cuda/99"',
        "EnvironmentNameNotFound: Could not find conda environment: train",
        "Error in library(ggplot2) : there is no package called \u2018ggplot2\u2019",
        "java.lang.ClassNotFoundException: org.apache.spark.Main",
        'Exception in thread "main" java.lang.NoClassDefFoundError: org/apache/hadoop/conf/Configuration',
        "ImportError: attempted relative import with no known parent package",
        "ERROR: LoadError: ArgumentError: Package Flux not found in current path",
    ],
}


@pytest.mark.parametrize("label", WORDINGS)
def test_every_wording_of_a_failure_gets_its_label(label):
    """Twelve of twelve, in the classes where wording drifts most."""
    said = {text: classify(Log(id="x", lines=["step 1", text], exit_code=1), MATCHER).label for text in WORDINGS[label]}

    assert {} == {text: got for text, got in said.items() if got != label}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_prefix_hides_a_wording(prefix):
    """Ranks, launchers and times before the text change nothing."""
    logs = [
        (label, Log(id="x", lines=[prefix + text], exit_code=1)) for label, texts in WORDINGS.items() for text in texts
    ]

    assert [] == [log.lines[0] for label, log in logs if classify(log, MATCHER).label != label]
