"""The database's history: revisions in versions/, what dashboards may read in views/.

Rule: a revision imports nothing of ours; it must still run when the code has moved on.
Rule: expand, then contract: a release only adds what the last release can live with, the next one removes.
Rule: views are not in revisions; `exitsign db upgrade` makes them anew from views/*.sql with their grants.
"""
