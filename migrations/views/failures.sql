CREATE OR REPLACE VIEW failures AS
SELECT
    v.cluster,
    v.job_id,
    v.attempt,
    a.scheduler,
    a.user_name,
    a.job_name,
    a.queue,
    v.label,
    v.owner,
    v.confidence,
    v.source,
    v.signature_id AS signature,
    v.signature_version,
    line.text AS line,
    line.rank,
    coalesce(line.node, a.failed_node) AS node,
    a.nodes,
    a.state,
    a.exit_code,
    a.signal,
    a.started_at,
    a.ended_at,
    extract(epoch FROM a.ended_at - a.started_at)::double precision AS run_s,
    a.gpus,
    a.gpu_seconds,
    newest.retry,
    newest.action,
    newest.mode,
    extract(epoch FROM first.issued_at - a.ended_at)::double precision AS advice_latency_s,
    v.reason,
    v.coverage,
    v.catalog,
    v.context,
    v.revision,
    v.final,
    v.decided_at
FROM verdicts v
JOIN attempts a USING (cluster, job_id, attempt)
LEFT JOIN evidence line
    ON line.cluster = v.cluster AND line.job_id = v.job_id AND line.attempt = v.attempt
    AND line.decided_at = v.decided_at AND line.place = 1
    AND v.signature_id IS NOT NULL
LEFT JOIN LATERAL (
    SELECT d.retry, d.action, d.mode FROM advice d
    WHERE d.cluster = v.cluster AND d.job_id = v.job_id AND d.attempt = v.attempt
    ORDER BY d.revision DESC, d.issued_at DESC LIMIT 1
) newest ON true
LEFT JOIN LATERAL (
    SELECT d.issued_at FROM advice d
    WHERE d.cluster = v.cluster AND d.job_id = v.job_id AND d.attempt = v.attempt
    ORDER BY d.revision, d.issued_at LIMIT 1
) first ON true
WHERE v.label IS NOT NULL;

COMMENT ON VIEW failures IS 'One row per failed attempt: its newest verdict, the line it rests on, what it cost and what was advised.';
COMMENT ON COLUMN failures.attempt IS 'Number of the attempt within its job, from 1, in the order of starts.';
COMMENT ON COLUMN failures.user_name IS 'Who submitted the job (not "user": unquoted, that is the database user).';
COMMENT ON COLUMN failures.label IS 'Name of the root cause; unknown where nothing explains the failure.';
COMMENT ON COLUMN failures.owner IS 'Who can do something about it: user, engine, infra, scheduler or other.';
COMMENT ON COLUMN failures.confidence IS 'From 0 to 1; 0 for unknown.';
COMMENT ON COLUMN failures.source IS 'What the verdict rests on: signature, facts, model or none.';
COMMENT ON COLUMN failures.signature IS 'Id of the signature that decided; NULL where none did.';
COMMENT ON COLUMN failures.line IS 'The redacted line that names the root cause.';
COMMENT ON COLUMN failures.node IS 'Node of that line, else the one that the scheduler blames.';
COMMENT ON COLUMN failures.run_s IS 'From start to end, seconds.';
COMMENT ON COLUMN failures.gpu_seconds IS 'What the attempt cost: run time x GPUs; NULL where the GPUs are not known.';
COMMENT ON COLUMN failures.retry IS 'Whether the newest advice of this attempt is to retry; NULL before there is any.';
COMMENT ON COLUMN failures.advice_latency_s IS 'From the end of the attempt to its first advice, seconds, by two clocks.';
COMMENT ON COLUMN failures.reason IS 'One sentence for people.';
COMMENT ON COLUMN failures.coverage IS 'How much of the log had been scanned: complete, truncated, late or not_scanned.';
COMMENT ON COLUMN failures.context IS 'Redacted lines that no signature knows, where nothing explains the failure.';
COMMENT ON COLUMN failures.revision IS 'How often the verdict was decided; a later one supersedes.';
COMMENT ON COLUMN failures.final IS 'True once nothing can revise the verdict any more.';
