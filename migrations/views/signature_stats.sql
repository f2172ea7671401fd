CREATE OR REPLACE VIEW signature_stats AS
SELECT
    e.signature_id AS signature,
    max(e.signature_version) AS version,
    count(*) AS attempts,
    count(*) FILTER (WHERE w.won) AS won,
    count(*) FILTER (WHERE NOT w.won) AS lost,
    max(e.decided_at) AS last_seen,
    max(e.decided_at) FILTER (WHERE w.won) AS last_won,
    sum(a.gpu_seconds) FILTER (WHERE w.won) AS gpu_seconds_won,
    count(f.label) FILTER (WHERE w.won) AS judged,
    count(f.label) FILTER (WHERE w.won AND f.label = v.label) AS agreed,
    (count(f.label) FILTER (WHERE w.won AND f.label = v.label))::double precision
        / nullif(count(f.label) FILTER (WHERE w.won), 0) AS precision_by_feedback
FROM evidence e
JOIN verdicts v
    ON v.cluster = e.cluster AND v.job_id = e.job_id AND v.attempt = e.attempt
    AND v.revision = e.revision AND v.decided_at = e.decided_at
JOIN attempts a ON a.cluster = e.cluster AND a.job_id = e.job_id AND a.attempt = e.attempt
CROSS JOIN LATERAL (SELECT v.signature_id IS NOT DISTINCT FROM e.signature_id AS won) w
LEFT JOIN LATERAL (
    SELECT p.label FROM feedback p
    WHERE p.cluster = e.cluster AND p.job_id = e.job_id AND p.attempt = e.attempt
    ORDER BY p.time DESC NULLS LAST, p.recorded_at DESC LIMIT 1
) f ON true
GROUP BY e.signature_id;

COMMENT ON VIEW signature_stats IS 'One row per signature that newest verdicts rank: how often it was seen, decided and lost, and what people said of it.';
COMMENT ON COLUMN signature_stats.attempts IS 'Attempts in whose newest verdict the signature is ranked.';
COMMENT ON COLUMN signature_stats.won IS 'Attempts that it decided.';
COMMENT ON COLUMN signature_stats.gpu_seconds_won IS 'GPU-seconds of the attempts that it decided, where the GPUs are known.';
COMMENT ON COLUMN signature_stats.judged IS 'Attempts that it decided and that a person gave a label.';
COMMENT ON COLUMN signature_stats.agreed IS 'Those of them where the newest such label is the same.';
COMMENT ON COLUMN signature_stats.precision_by_feedback IS 'agreed / judged, 0 to 1; NULL where nobody said anything.';
