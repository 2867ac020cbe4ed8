"""Python's operators: element-wise on tensors, arithmetic on lengths.

operator.mul(x, y)         *, * -> *         the same as torch.mul
operator.mul(batch, 4)     4*batch           a value, known without running
operator.iadd(x, y)        *, * -> *         and x is written to
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import floor_div, mod
from dimsolve.solver.algebra.poly import Poly

from .entry import Entry, Form, entry
from .pointwise import Pointwise, in_place
from .products import matmul
from .python import value
from .samples import Example, between, constant, example, t, whole
from .values import NotKnown, is_dim, is_tensor


def exact(a: Any, b: Any) -> Any:
    """Returns a / b of lengths where it is whole or both are numbers; NotKnown otherwise."""
    if isinstance(a, Poly) or isinstance(b, Poly):
        raise NotKnown("a quotient of symbols is no length")
    return a / b


def _power(a: Any, b: Any) -> Any:
    if isinstance(b, Poly):
        raise NotKnown("a power with a symbol as its exponent is no length")
    return a**b


def _compared(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(a: Any, b: Any) -> Any:
        if isinstance(a, Poly) or isinstance(b, Poly):
            raise NotKnown("a comparison of symbols is not decided here")
        return function(a, b)

    return compare


_ARITHMETIC: dict[str, tuple[Callable[..., Any], str, str]] = {
    "add": (operator.add, "same", "together"),
    "sub": (operator.sub, "same", "together"),
    "mul": (operator.mul, "same", "each"),
    "floordiv": (floor_div, "same", "no"),
    "mod": (mod, "same", "no"),
    "truediv": (exact, "real", "first"),
    "pow": (_power, "same", "no"),
    "and_": (operator.and_, "same", "no"),
    "or_": (operator.or_, "same", "no"),
    "xor": (operator.xor, "same", "no"),
    "lshift": (operator.lshift, "same", "no"),
    "rshift": (operator.rshift, "same", "no"),
    **{
        name: (_compared(getattr(operator, name)), "bool", "no")
        for name in ["eq", "ne", "lt", "le", "gt", "ge"]
    },
}
"""Python's operators: what they are of lengths, and the dtype rule and linearity of the tensor
operator.
"""


def _binary(name: str, *, writes: bool = False) -> Form:
    """Returns the declaration of ``operator.NAME``: of tensors an element-wise operator, of lengths
    a value.
    """
    function, dtype, linear = _ARITHMETIC[name]
    form = Pointwise(("a", "b"), 2, dtype, linear)

    def declare(a: Any, b: Any) -> Declaration:
        if is_tensor(a) or is_tensor(b):
            found = form(a, b)
            return in_place(found) if writes and is_tensor(a) else found
        plain = all(not isinstance(x, Poly) for x in (a, b))
        if not plain and not (is_dim(a) and is_dim(b)):
            raise NotKnown("arithmetic of symbols with what is no length")
        if plain and name in ("floordiv", "mod"):
            return value(getattr(operator, name)(a, b))
        return value(function(a, b))

    return declare


def _product(a: Any, b: Any) -> Declaration:
    """Returns the declaration of ``a @ b``."""
    return matmul(a, b)


def _negative(a: Any) -> Declaration:
    """Returns the declaration of ``-a``."""
    return Pointwise(("a",), linear="first")(a) if is_tensor(a) else value(-a)


def _inverted(a: Any) -> Declaration:
    """Returns the declaration of ``~a``."""
    return Pointwise(("a",))(a) if is_tensor(a) else value(~a)


def _absolute(a: Any) -> Declaration:
    """Returns the declaration of ``abs(a)``."""
    if is_tensor(a):
        return Pointwise(("a",), dtype="abs")(a)
    if isinstance(a, Poly):
        raise NotKnown("the sign of a symbol's expression is not decided here")
    return value(abs(a))


def _positive(a: Any) -> Declaration:
    """Returns the declaration of ``+a``."""
    return Pointwise(("a",), linear="first")(a) if is_tensor(a) else value(a)


_IN_PLACE = "add and floordiv lshift mod mul or pow rshift sub truediv xor"


def _operators() -> list[Entry]:
    entries: list[Entry] = []
    calls: tuple[Example, ...]
    pairs = (
        example(t(12, 6), t(12, 6)),
        example(t(12, 1), t(6)),
        example(t(12, 6), 2),
        example(2.0, t(12, 6)),
    )
    positive = (
        example(between(1, 9, 12, 6), between(1, 3, 12, 6)),
        example(between(1, 9, 12, 6), 2),
    )
    steps = (example(constant(between(1, 9, 12, 6)), constant(between(1, 3, 12, 6))),)
    numbers = (example(whole(9, 12, 6), whole(3, 12, 6)),)
    for name in _ARITHMETIC:
        calls = numbers if name in ("and_", "or_", "xor", "lshift", "rshift") else pairs
        calls = positive if name in ("mod", "truediv", "pow") else calls
        calls = steps if name == "floordiv" else calls
        entries.append(entry(f"operator.{name}", _binary(name), *calls))
    for name in _IN_PLACE.split():
        base = name if name in _ARITHMETIC else f"{name}_"
        bits = base in ("and_", "or_", "xor", "lshift", "rshift")
        calls = numbers if bits else positive
        entries.append(entry(f"operator.i{name}", _binary(base, writes=True), *calls))
    return entries


ENTRIES = (
    *_operators(),
    entry("operator.matmul", _product, example(t(2, 12, 6), t(6, 4))),
    entry("operator.neg", _negative, example(t(12, 6))),
    entry("operator.pos", _positive, example(t(12, 6))),
    entry("operator.abs", _absolute, example(t(12, 6))),
    entry("operator.invert", _inverted, example(whole(9, 12, 6))),
)
