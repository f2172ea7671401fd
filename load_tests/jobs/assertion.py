"""Checks its own world sizes and finds them wrong."""

world_size, tensor_parallel = 6, 4
assert world_size % tensor_parallel == 0, f"world size {world_size} is not divisible by {tensor_parallel}"
