"""syslog-ng's kafka-c destination, `format-json` over its macros.

Rule: `DATE` has neither year nor zone and is not read: map `time` to a macro that has both (ISODATE, UNIXTIME).
Rule: `HOST` names the node only on inputs whose stream is `node`, as with rsyslog.
"""

from __future__ import annotations

from services.formats.mapped import Shipper
from services.formats.rsyslog import identify_host

SYSLOG_NG = Shipper(
    name="syslog-ng",
    places={
        "text": ("MESSAGE",),
        "time": ("ISODATE", "UNIXTIME"),
        "cluster": ("CLUSTER",),
        "job": ("JOB",),
        "attempt": ("ATTEMPT",),
        "rank": ("RANK",),
        "node": ("NODE",),
        "host": ("HOST",),
        "stream": ("STREAM",),
        "file": ("FILE_NAME",),
    },
    identify=identify_host,
)
