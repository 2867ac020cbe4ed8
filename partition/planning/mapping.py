"""A policy as a mapping: patterns of node names to splits per axis.

    {"*.q_proj": {"tp": "n"}, "*.o_proj": {"tp": "k"}, "matmul_custom": {"tp": (0, 1)}}

A pattern (with ``*``, ``?`` and ``[...]``) is matched against the path of the module that made the
call, the node's id, the operator's name, and module and name joined by a dot. A split is an
identifier of the annotation or (index, dim); of the nodes of a module those take it that have it.
Of two patterns that match one node the later counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from ..mesh import Mesh
from ..plan_errors import PlanError, plan_error
from .network import Network, Operator
from .requests import Request, Split


def requests_of(policy: Mapping[str, Any], network: Network, mesh: Mesh) -> list[Request]:
    """Returns the splits that a mapping asks for. Raises PlanError for a pattern that matches
    nothing, a split that no matched node has, or text that is no split; MeshError for an axis that
    does not exist.
    """
    found: dict[tuple[int, str], Request] = {}
    for pattern, splits in policy.items():
        if not isinstance(pattern, str) or not isinstance(splits, Mapping):
            raise _unreadable(pattern, splits)
        matched = [operator for operator in network.operators if _matches(pattern, operator)]
        if not matched:
            raise _matches_nothing(pattern, network)
        for axis, split in splits.items():
            mesh.index(axis)
            read = _split(pattern, split)
            takers = [operator for operator in matched if _has(operator, read)]
            if not takers:
                raise _no_taker(pattern, read, matched)
            for operator in takers:
                request = Request(operator.number, axis, read, f"'{pattern}'")
                found[operator.number, axis] = request
    return list(found.values())


def _matches(pattern: str, operator: Operator) -> bool:
    node = operator.node
    names = (node.module, node.id, node.name, f"{node.module}.{node.name}", node.signature)
    return any(name and fnmatchcase(name, pattern) for name in names)


def _split(pattern: str, split: Any) -> Split:
    match split:
        case str():
            return split
        case (int() as index, int() as dim) if bool not in (type(index), type(dim)):
            return index, dim
        case _:
            raise _unreadable(pattern, split)


def _has(operator: Operator, split: Split) -> bool:
    """Whether a node has the identifier, or a dimension at (index, dim)."""
    kind = operator.kind
    if isinstance(split, str):
        return split in kind.solution.layout.marks
    index, dim = split
    if not 0 <= index < len(kind.tensors):
        return False
    patterns = kind.tensors[index]
    return patterns is not None and -len(patterns) <= dim < len(patterns)


def _names(network: Network) -> Iterator[str]:
    for operator in network.operators:
        yield from filter(None, (operator.node.module, operator.node.name, operator.node.id))


def _matches_nothing(pattern: str, network: Network) -> PlanError:
    close = get_close_matches(pattern, dict.fromkeys(_names(network)), n=3, cutoff=0.4)
    return plan_error(
        "no-such-node",
        "a pattern of the policy matches nothing",
        f"'{pattern:.60}' matches no module path, node or operator of the graph",
        f"close are {', '.join(close)}" if close else "",
    )


def _no_taker(pattern: str, split: Split, matched: list[Operator]) -> PlanError:
    """Nobody has the split: what the first of them has is in the reason."""
    operator = matched[0]
    names = ", ".join(operator.kind.solution.layout.marks) or "none"
    return plan_error(
        "unknown-split",
        "no node that a pattern matches has its split",
        f"'{pattern:.60}' matches {_counted(len(matched))}, the first is {operator.node.id} with "
        f"the identifiers {names}; {split!r} is in none of them",
        operator.declaration.frozen or _tensors(operator),
        text=operator.kind.solution.text,
    )


def _counted(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _tensors(operator: Operator) -> str:
    """What (index, dim) may be."""
    rows = [f"{index} has {len(row)}" for index, row in enumerate(operator.kind.tensors) if row]
    return f"of {operator.node.id}, by index, so many dimensions: {', '.join(rows)}" if rows else ""


def _unreadable(pattern: Any, split: Any) -> PlanError:
    return plan_error(
        "not-a-policy",
        "this is not a policy",
        f"{pattern!r:.60}: {split!r:.60}",
        'write {"*.q_proj": {"tp": "n"}}: an identifier or (index, dim) for each axis',
    )
