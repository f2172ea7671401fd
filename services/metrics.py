"""Every metric once, with its sentence.

Rule: a metric is used by its name in this module, so that a mistyped one fails the type check.
Rule: labels are few and bounded: never a job, a node or a text.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

RECORDS = Counter("exitsign_records_total", "Records read, by agent and topic.", ["agent", "topic"])
POISON = Counter("exitsign_poison_total", "Dead letters, by agent, topic and reason.", ["agent", "topic", "reason"])
EVIDENCE = Counter("exitsign_evidence_total", "Evidence published, by signature.", ["signature"])
CONTEXT = Counter("exitsign_context_total", "Context lines published.")
CONTEXT_BYTES = Counter("exitsign_context_bytes_total", "Bytes of context lines published.")
TIMEOUTS = Counter(
    "exitsign_pattern_timeouts_total", "Patterns that ran out of time on a line, by signature.", ["signature"]
)
DISABLED = Gauge("exitsign_signatures_disabled", "Signatures that this worker switched off after repeated time-outs.")
CATALOG = Gauge("exitsign_catalog_info", "1 for the catalog in use, by digest.", ["digest"])
RELOAD_FAILURES = Counter(
    "exitsign_catalog_reload_failures_total", "Changes of the signature folder that could not be used."
)
TRUNCATED = Counter(
    "exitsign_truncated_lines_total", "Lines longer than the limit, of which head and tail were scanned."
)
STRANGERS = Counter(
    "exitsign_evidence_without_job_total", "Evidence that was forgotten because its job was never announced."
)
UNKNOWN_RECORDS = Counter(
    "exitsign_unknown_records_total", "Records of a newer writer that were skipped, by topic.", ["topic"]
)
VERDICTS = Counter(
    "exitsign_verdicts_total", "Verdicts published, by label, source and whether final.", ["label", "source", "final"]
)
ADVICE = Counter("exitsign_advice_total", "Advice published, by action and mode.", ["action", "mode"])
ADVICE_LATENCY = Histogram(
    "exitsign_advice_latency_seconds",
    "Time from the append of an attempt's end to its first advice.",
    buckets=(0.25, 0.5, 1, 2, 4, 8, 10, 15, 30, 60, 120, 300),
)
OPEN_JOBS = Gauge("exitsign_open_jobs", "Jobs in the attributor's memory.")
WATERMARK_LAG = Gauge("exitsign_watermark_lag_seconds", "How far the slowest input partition is behind.")
LAG = Gauge(
    "exitsign_lag_records", "Records not read yet, by agent, topic and partition.", ["agent", "topic", "partition"]
)
ROWS = Counter("exitsign_rows_total", "Records written to Postgres, by table.", ["table"])
STORE_OUTAGES = Counter("exitsign_store_outages_total", "Writes that had to wait for Postgres.")
BATCH_SECONDS = Histogram("exitsign_batch_seconds", "Time that one batch took, by agent.", ["agent"])
RETRIES = Counter("exitsign_batch_retries_total", "Batches tried again after a failure, by agent.", ["agent"])
