"""What a claim says at integers by Python's grammar: an oracle that shares nothing with ours."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product

BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "Min": min,
    "Max": max,
    "mod": operator.mod,
    "floordiv": operator.floordiv,
    "ceildiv": lambda a, b: -(-a // b),
}

Values = Mapping[str, int]


@lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, values: Values) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, values)
        case ast.BinOp(left=left, op=op, right=right):
            return BINARY[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return FUNCTIONS[name](*(_value(argument, values) for argument in arguments))
        case _:
            raise AssertionError(ast.dump(node))


def says(text: str, values: Values) -> bool | None:
    """Whether a relation holds; None where a side has no value."""
    node = _tree(text)
    assert isinstance(node, ast.Compare)
    (comparator,), (op,) = node.comparators, node.ops
    try:
        return COMPARE[type(op)](_value(node.left, values), _value(comparator, values))
    except ZeroDivisionError:
        return None


def all_hold(texts: Iterable[str], values: Values) -> bool:
    """Whether all of the relations have a value and hold."""
    return all(says(text, values) is True for text in texts)


def box(names: Iterable[str], sizes: Mapping[int, int]) -> Iterator[dict[str, int]]:
    """All values from 1 up; ``sizes`` says how far, by the number of names."""
    listed = sorted(names)
    for point in product(range(1, sizes[len(listed)] + 1), repeat=len(listed)):
        yield dict(zip(listed, point, strict=True))
