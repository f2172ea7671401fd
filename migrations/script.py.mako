"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}

Expand or contract?  Say which, and which release may follow.
A column that a view of ours reads can't change its type under it: drop that view first, `exitsign db upgrade` makes it
anew.
"""

from __future__ import annotations

from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    raise RuntimeError("migrations go forward only: write the next one, or restore a backup")
