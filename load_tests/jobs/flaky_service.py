"""Needs a service that comes up late: fails the first time, passes the second."""

import os
import sys

if int(os.environ.get("EXITSIGN_DEMO_ATTEMPT", "1")) < 2:
    print(
        "requests.exceptions.ConnectionError: HTTPConnectionPool(host='params', port=80): Max retries exceeded with url: /v1 (Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))",
        file=sys.stderr,
    )
    sys.exit(1)
print("connected; training done")
