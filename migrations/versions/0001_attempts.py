"""Attempts, verdicts and their history, evidence, advice, outcomes, feedback

Revision ID: 0001
Revises:

Expand: the first tables.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

KEY = "cluster text NOT NULL, job_id text NOT NULL, attempt integer NOT NULL"
RECORDED = "recorded_at timestamptz NOT NULL DEFAULT now()"
VERDICT = f"""
    {KEY},
    verdict_id text NOT NULL,
    revision integer NOT NULL,
    final boolean NOT NULL,
    label text,
    owner text,
    confidence double precision NOT NULL,
    source text NOT NULL,
    signature_id text,
    signature_version integer,
    catalog text NOT NULL,
    coverage text NOT NULL,
    decided_at timestamptz NOT NULL,
    captures jsonb NOT NULL,
    context text[] NOT NULL,
    shadows jsonb NOT NULL,
    reason text NOT NULL
"""

STATEMENTS = (
    f"""CREATE TABLE attempts (
    {KEY},
    revision integer NOT NULL,
    decided_at timestamptz NOT NULL,
    scheduler text NOT NULL,
    ref text,
    attempt_ref jsonb NOT NULL,
    state text,
    exit_code integer,
    signal integer,
    reason text,
    disruptions text[] NOT NULL,
    started_at timestamptz,
    ended_at timestamptz,
    nodes text[] NOT NULL,
    failed_node text,
    gpus integer,
    gpu_seconds double precision,
    user_name text,
    job_name text,
    queue text,
    {RECORDED},
    PRIMARY KEY (cluster, job_id, attempt)
)""",
    "CREATE INDEX attempts_ended_at ON attempts (ended_at)",
    f"CREATE TABLE verdicts ({VERDICT}, {RECORDED}, PRIMARY KEY (cluster, job_id, attempt))",
    "CREATE INDEX verdicts_decided_at ON verdicts (decided_at)",
    f"""CREATE TABLE verdict_revisions ({VERDICT},
    ranking jsonb NOT NULL,
    {RECORDED},
    PRIMARY KEY (cluster, job_id, attempt, revision, decided_at)
) PARTITION BY RANGE (decided_at)""",
    "CREATE TABLE verdict_revisions_default PARTITION OF verdict_revisions DEFAULT",
    f"""CREATE TABLE evidence (
    {KEY},
    place integer NOT NULL,
    revision integer NOT NULL,
    decided_at timestamptz NOT NULL,
    signature_id text NOT NULL,
    signature_version integer,
    label text NOT NULL,
    role text NOT NULL,
    stream text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    record_offset bigint NOT NULL,
    line_index integer NOT NULL,
    rank integer,
    node text,
    time timestamptz,
    text text NOT NULL,
    trusted boolean NOT NULL,
    lost_because text,
    explained_by text,
    PRIMARY KEY (cluster, job_id, attempt, place, decided_at)
) PARTITION BY RANGE (decided_at)""",
    "CREATE INDEX evidence_signature_id ON evidence (signature_id, decided_at)",
    "CREATE TABLE evidence_default PARTITION OF evidence DEFAULT",
    f"""CREATE TABLE advice (
    advice_id text PRIMARY KEY,
    {KEY},
    revision integer NOT NULL,
    final boolean NOT NULL,
    scheduler text NOT NULL,
    attempt_ref jsonb NOT NULL,
    retry boolean NOT NULL,
    action text NOT NULL,
    after_s integer NOT NULL,
    attempts_left integer NOT NULL,
    counts_toward_budget boolean NOT NULL,
    exclude_nodes text[] NOT NULL,
    resources jsonb NOT NULL,
    expected_success double precision NOT NULL,
    label text NOT NULL,
    owner text NOT NULL,
    confidence double precision NOT NULL,
    source text NOT NULL,
    signature_id text,
    signature_version integer,
    catalog text NOT NULL,
    evidence jsonb,
    coverage text NOT NULL,
    reason text NOT NULL,
    remedy text NOT NULL,
    mode text NOT NULL,
    issued_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    {RECORDED}
)""",
    "CREATE INDEX advice_job ON advice (cluster, job_id, attempt, revision)",
    "CREATE INDEX advice_issued_at ON advice (issued_at)",
    f"""CREATE TABLE outcomes (
    advice_id text NOT NULL,
    by text NOT NULL,
    {KEY},
    applied text NOT NULL,
    why text NOT NULL,
    time timestamptz,
    {RECORDED},
    PRIMARY KEY (advice_id, by)
)""",
    "CREATE INDEX outcomes_job ON outcomes (cluster, job_id, attempt)",
    f"""CREATE TABLE feedback (
    feedback_id text PRIMARY KEY,
    {KEY},
    label text NOT NULL,
    by text NOT NULL,
    note text NOT NULL,
    time timestamptz,
    {RECORDED}
)""",
    "CREATE INDEX feedback_job ON feedback (cluster, job_id, attempt)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("migrations go forward only: write the next one, or restore a backup")
