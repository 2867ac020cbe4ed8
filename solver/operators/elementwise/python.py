"""What a captured graph calls besides tensor operators: sizes, Python's operators, attributes,
switches.

    x.size(0)                      the length itself, known without running
    operator.mul(x, y)             *, * -> *         the same as torch.mul
    operator.mul(batch, 4)         4*batch           of lengths it is a value
    operator.iadd(x, y)            *, * -> *         and x is written to
    getattr(x, "shape")            the lengths; "T" and "mT" are operators
    torch._C._set_grad_enabled     nothing
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import floor_div, maximum, minimum, mod
from ...algebra.poly import Poly, product
from ..declare import errors
from ..declare.dtypes import dtype_of, kind
from ..declare.entry import (
    Entry,
    Example,
    Form,
    between,
    constant,
    entries,
    entry,
    example,
    shapes,
    t,
    torch_entry,
    whole,
)
from ..declare.writing import NotKnown, axis, dims_of, is_dim, is_tensor
from ..linalg.products import matmul
from ..shape.reshape import matrix_transpose, reversed_dims
from .pointwise import Pointwise, in_place


def value(result: Any) -> Declaration:
    """Declares a call that computes no tensor: its result is known without running."""
    return Declaration("-> ?", (), returns="value", value=result)


def size(input: Any, dim: Any = None) -> Declaration:
    """Declares Tensor.size."""
    dims = dims_of(input)
    return value(dims if dim is None else dims[axis(dim, len(dims))])


def rank(input: Any) -> Declaration:
    """Declares Tensor.dim."""
    return value(len(dims_of(input)))


def count(input: Any) -> Declaration:
    """Declares Tensor.numel."""
    dims = dims_of(input)
    return value(None if None in dims else product(d for d in dims if d is not None))


def length(input: Any) -> Declaration:
    """Declares len: of a tensor, its first length."""
    return size(input, 0) if is_tensor(input) else value(len(input))


def nothing(*args: Any, **kwargs: Any) -> Declaration:
    """Declares a switch or a log: it gives None and touches no tensor."""
    return value(None)


def predicate(test: Callable[[str], bool]) -> Form:
    """Declares is_floating_point and its kin, which ask about the dtype."""

    def declare(input: Any) -> Declaration:
        dtype = dtype_of(input)
        if dtype is None:
            raise NotKnown("the dtype is not known")
        return value(test(dtype))

    return declare


def attribute(input: Any, name: str, *default: Any) -> Declaration:
    """Declares getattr: lengths and dtypes are values, transposed views are operators."""
    if not is_tensor(input):
        return value(getattr(input, name, *default))
    match name:
        case "shape":
            return size(input)
        case "ndim":
            return rank(input)
        case "T" | "H":
            return reversed_dims(input)
        case "mT" | "mH":
            return matrix_transpose(input)
        case "real" | "imag":
            return Pointwise(("input",), dtype="abs", linear="first")(input)
        case "data":
            return Declaration("* -> *", (input,), dtypes=(dtype_of(input),), linear=((0,),))
        case _:
            return value(getattr(input, name, default[0] if default else None))


def _extreme(function: Callable[..., Any]) -> Form:
    """Declares torch.sym_max, sym_min and Python's max, min of lengths."""

    def declare(*values: Any) -> Declaration:
        given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        if not all(is_dim(x) for x in given):
            raise NotKnown("only lengths are supported")
        return value(function(*given))

    return declare


def sym_sum(args: Any) -> Declaration:
    """Declares torch.sym_sum."""
    if not all(is_dim(x) for x in args):
        raise NotKnown("only lengths are supported")
    return value(sum(args[1:], args[0]) if args else 0)


def _whole_number(a: Any) -> Declaration:
    """Declares torch.sym_int, math.floor, math.ceil, int of a length."""
    if is_tensor(a):
        raise NotKnown("a number that is read from a tensor")
    if not is_dim(a) and not isinstance(a, float | bool):
        raise errors.not_understood("int", f"a {type(a).__name__}")
    return value(a if is_dim(a) else int(a))


def item(input: Any) -> Declaration:
    """Declares Tensor.item: a number that only running can tell."""
    raise NotKnown("a number that is read from a tensor")


_SWITCHES = (
    "torch._C._set_grad_enabled",
    "torch._C._log_api_usage_once",
    "torch.set_grad_enabled",
    "torch.is_grad_enabled",
    "torch._C._functorch._vmap_increment_nesting",
    "torch._C._functorch._vmap_decrement_nesting",
    "torch._check",
    "torch._assert",
    "torch._assert_async",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
    "torch.autograd.grad_mode.inference_mode",
    "builtins.print",
)


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
    """Declares ``operator.NAME``: of tensors an element-wise operator, of lengths a value."""
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
    """Declares ``a @ b``."""
    return matmul(a, b)


def _negative(a: Any) -> Declaration:
    """Declares ``-a``."""
    return Pointwise(("a",), linear="first")(a) if is_tensor(a) else value(-a)


def _inverted(a: Any) -> Declaration:
    """Declares ``~a``."""
    return Pointwise(("a",))(a) if is_tensor(a) else value(~a)


def _absolute(a: Any) -> Declaration:
    """Declares ``abs(a)``."""
    if is_tensor(a):
        return Pointwise(("a",), dtype="abs")(a)
    if isinstance(a, Poly):
        raise NotKnown("the sign of a symbol's expression is not decided here")
    return value(abs(a))


def _positive(a: Any) -> Declaration:
    """Declares ``+a``."""
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
    entry(
        "builtins.getattr",
        attribute,
        example(t(12, 6, 4), "shape"),
        example(t(12, 6), "T"),
        example(t(2, 12, 6), "mT"),
    ),
    entry("builtins.len", length, *shapes("12 6")),
    entry("builtins.max", _extreme(maximum)),
    entry("builtins.min", _extreme(minimum)),
    entry("builtins.int", _whole_number),
    entry("torch.sym_max", _extreme(maximum)),
    entry("torch.sym_min", _extreme(minimum)),
    torch_entry(sym_sum),
    entry("torch.sym_int", _whole_number),
    *entries("math. floor ceil", _whole_number),
    entry("torch.Tensor.size", size, *shapes("12 6"), example(t(12, 6), -1)),
    entry("torch.Tensor.dim", rank, *shapes("12 6")),
    entry("torch.numel", count, *shapes("12 6")),
    entry("torch.Tensor.item", item, note="a number that only running can tell"),
    entry("torch.Tensor.tolist", item, note="numbers that only running can tell"),
    entry("torch.is_floating_point", predicate(lambda d: kind(d) == 2), *shapes("12")),
    entry("torch.is_complex", predicate(lambda d: kind(d) == 3), *shapes("12")),
    entry("torch.is_signed", predicate(lambda d: kind(d) > 0 and d[0] != "u"), *shapes("12")),
    *(entry(path, nothing, note="touches no tensor") for path in _SWITCHES),
    *_operators(),
    entry("operator.matmul", _product, *shapes("2 12 6, 6 4")),
    entry("operator.neg", _negative, *shapes("12 6")),
    entry("operator.pos", _positive, *shapes("12 6")),
    entry("operator.abs", _absolute, *shapes("12 6")),
    entry("operator.invert", _inverted, example(whole(9, 12, 6))),
)
