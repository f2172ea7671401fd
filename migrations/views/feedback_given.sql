CREATE OR REPLACE VIEW feedback_given AS
SELECT
    f.cluster,
    f.job_id,
    f.attempt,
    f.label,
    f.by AS by_name,
    f.note,
    coalesce(f.time, f.recorded_at) AS given_at
FROM feedback f;

COMMENT ON VIEW feedback_given IS 'What people said the root cause of an attempt was; it stands beside the verdict, never over it.';
COMMENT ON COLUMN feedback_given.attempt IS 'Number of the attempt within its job, from 1, in the order of starts.';
COMMENT ON COLUMN feedback_given.label IS 'The root cause by that person''s word.';
COMMENT ON COLUMN feedback_given.by_name IS 'Who said it.';
COMMENT ON COLUMN feedback_given.given_at IS 'When it was said, or recorded where the producer did not tell.';
