"""Walks a graph with a cycle."""


def depth(node: int) -> int:
    """The depth of a node, for ever."""
    return 1 + depth(node + 1)


print(depth(0))
