CREATE OR REPLACE VIEW advice_current AS
SELECT DISTINCT ON (d.cluster, d.job_id)
    d.cluster,
    d.job_id,
    d.attempt,
    d.revision,
    d.final,
    d.advice_id,
    d.scheduler,
    d.attempt_ref,
    d.retry,
    d.action,
    d.after_s,
    d.attempts_left,
    d.counts_toward_budget,
    d.exclude_nodes,
    d.resources,
    d.expected_success,
    d.label,
    d.owner,
    d.confidence,
    d.source,
    d.signature_id AS signature,
    d.signature_version,
    d.catalog,
    d.evidence,
    d.coverage,
    d.reason,
    d.remedy,
    d.mode,
    d.issued_at,
    d.expires_at,
    d.expires_at < now() AS expired,
    told.applied,
    told.by AS applied_by,
    told.why AS applied_why
FROM advice d
LEFT JOIN LATERAL (
    SELECT o.applied, o.by, o.why FROM outcomes o
    WHERE o.advice_id = d.advice_id
    ORDER BY o.time DESC NULLS LAST, o.by LIMIT 1
) told ON true
ORDER BY d.cluster, d.job_id, d.attempt DESC, d.revision DESC, d.issued_at DESC;

COMMENT ON VIEW advice_current IS 'One row per job: the advice that counts now (newest attempt, newest revision) and what its scheduler did with it.';
COMMENT ON COLUMN advice_current.action IS 'retry, retry_after, retry_elsewhere, retry_with_change, stop or hold.';
COMMENT ON COLUMN advice_current.attempts_left IS 'Retries that the label''s and the owner''s budgets still allow.';
COMMENT ON COLUMN advice_current.expected_success IS 'Chance that the retry ends well, from 0 to 1.';
COMMENT ON COLUMN advice_current.mode IS 'enforce, or shadow: recorded, to be acted on by nobody.';
COMMENT ON COLUMN advice_current.expired IS 'True once the advice is too old to act on.';
COMMENT ON COLUMN advice_current.applied IS 'The newest outcome: applied, not_applied or failed; NULL where none was told.';
