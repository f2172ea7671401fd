"""Wants more memory than its limit."""

import resource

resource.setrlimit(resource.RLIMIT_AS, (512 * 2**20, 512 * 2**20))
print("loading the data set into memory", flush=True)
rows = [bytes(64 * 2**20) for _ in range(64)]
