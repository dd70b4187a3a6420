"""Whether an engine may use device nodes, and in words why it may not."""

from __future__ import annotations

from collections.abc import Iterable

from lemonpod.host.tree import Tree


def here(tree: Tree, path: str | None) -> str | None:
    """The path, where there is such a node."""
    return path if path is not None and tree.node(path) is not None else None


def opens(tree: Tree, path: str | None) -> bool:
    """Whether there is such a node and this user may read and write it."""
    node = None if path is None else tree.node(path)
    return node is not None and tree.may_open(node)


def closed(tree: Tree, paths: Iterable[str]) -> str | None:
    """What is missing of the nodes that an engine needs, or None where it may use them all."""
    absent: list[str] = []
    forbidden: list[str] = []
    for path in paths:
        node = tree.node(path)
        if node is None:
            absent.append(path)
        elif not tree.may_open(node):
            owner = "root" if node.uid == 0 else str(node.uid)
            forbidden.append(f"{path} is {node.mode & 0o777:04o} {owner}:{tree.group(node.gid)}")
    problems = [f"no {' and no '.join(absent)} here"] if absent else []
    if forbidden:
        problems.append(f"{' and '.join(forbidden)}, which this user may not open")
    return "; ".join(problems) or None
