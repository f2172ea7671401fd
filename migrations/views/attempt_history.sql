CREATE OR REPLACE VIEW attempt_history AS
SELECT
    r.cluster,
    r.job_id,
    r.attempt,
    r.revision,
    r.revision = v.revision AND r.decided_at = v.decided_at AS newest,
    r.final,
    a.scheduler,
    a.ref,
    a.attempt_ref,
    a.user_name,
    a.job_name,
    a.queue,
    a.state,
    a.exit_code,
    a.signal,
    a.reason AS exit_reason,
    a.disruptions,
    a.started_at,
    a.ended_at,
    a.nodes,
    a.failed_node,
    a.gpus,
    a.gpu_seconds,
    r.label,
    r.owner,
    r.confidence,
    r.source,
    r.signature_id AS signature,
    r.signature_version,
    r.reason,
    r.ranking,
    r.captures,
    r.context,
    r.shadows,
    r.coverage,
    r.catalog,
    r.decided_at,
    r.verdict_id
FROM verdict_revisions r
JOIN verdicts v USING (cluster, job_id, attempt)
JOIN attempts a USING (cluster, job_id, attempt);

COMMENT ON VIEW attempt_history IS 'Every revision of every verdict with the ranking that explains it, those of attempts that ended well included.';
COMMENT ON COLUMN attempt_history.newest IS 'True for the revision that counts; filter on it for one row per attempt.';
COMMENT ON COLUMN attempt_history.attempt_ref IS 'The scheduler''s own identity of the attempt.';
COMMENT ON COLUMN attempt_history.exit_reason IS 'The scheduler''s reason; `reason` is the verdict''s sentence.';
COMMENT ON COLUMN attempt_history.label IS 'Name of the root cause; NULL where the attempt ended well.';
COMMENT ON COLUMN attempt_history.ranking IS 'JSON array, winner first: signature, label, role, text, stream, position, time, rank, node, lost_because, explained_by.';
COMMENT ON COLUMN attempt_history.shadows IS 'JSON array of the shadow signatures that were seen and did not count.';
COMMENT ON COLUMN attempt_history.catalog IS 'Digest of the signatures in use.';
