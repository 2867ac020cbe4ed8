"""What a captured graph calls besides tensor operators: sizes, arithmetic on them, attributes,
switches.

    x.size(0)                      the length itself, known without running
    operator.mul(batch, 4)         arithmetic on lengths; on tensors it is torch.mul
    getattr(x, "shape")            the lengths; "T" and "mT" are operators
    torch._C._set_grad_enabled     nothing
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dimsolve.ir.operator import Declaration
from dimsolve.solver.algebra.dims import maximum, minimum
from dimsolve.solver.algebra.poly import product

from . import errors
from .dtypes import dtype_of, kind
from .entry import Form, entry
from .pointwise import Pointwise
from .samples import example, t
from .shaping import matrix_transpose, reversed_dims
from .values import NotKnown, axis, dims_of, is_dim, is_tensor


def value(result: Any) -> Declaration:
    """Returns the declaration of a call that computes no tensor: its result is known without
    running.
    """
    return Declaration("-> ?", (), returns="value", value=result)


def size(input: Any, dim: Any = None) -> Declaration:
    """Returns the declaration of Tensor.size."""
    dims = dims_of(input)
    return value(dims if dim is None else dims[axis(dim, len(dims))])


def rank(input: Any) -> Declaration:
    """Returns the declaration of Tensor.dim."""
    return value(len(dims_of(input)))


def count(input: Any) -> Declaration:
    """Returns the declaration of Tensor.numel."""
    dims = dims_of(input)
    return value(None if None in dims else product(d for d in dims if d is not None))


def length(input: Any) -> Declaration:
    """Returns the declaration of len: of a tensor, its first length."""
    return size(input, 0) if is_tensor(input) else value(len(input))


def nothing(*args: Any, **kwargs: Any) -> Declaration:
    """Returns the declaration of a switch or a log: it gives None and touches no tensor."""
    return value(None)


def predicate(test: Callable[[str], bool]) -> Form:
    """Returns the declaration of is_floating_point and its kin, which ask about the dtype."""

    def declare(input: Any) -> Declaration:
        dtype = dtype_of(input)
        if dtype is None:
            raise NotKnown("the dtype is not known")
        return value(test(dtype))

    return declare


def attribute(input: Any, name: str, *default: Any) -> Declaration:
    """Returns the declaration of getattr: lengths and dtypes are values, transposed views are
    operators.
    """
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
    """Returns the declaration of torch.sym_max, sym_min and Python's max, min of lengths."""

    def declare(*values: Any) -> Declaration:
        given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        if not all(is_dim(x) for x in given):
            raise NotKnown("only lengths are known of")
        return value(function(*given))

    return declare


def sym_sum(args: Any) -> Declaration:
    """Returns the declaration of torch.sym_sum."""
    if not all(is_dim(x) for x in args):
        raise NotKnown("only lengths are known of")
    return value(sum(args[1:], args[0]) if args else 0)


def _whole_number(a: Any) -> Declaration:
    """Returns the declaration of torch.sym_int, math.floor, math.ceil, int of a length."""
    if is_tensor(a):
        raise NotKnown("a number that is read from a tensor")
    if not is_dim(a) and not isinstance(a, float | bool):
        raise errors.not_understood("int", f"a {type(a).__name__}")
    return value(a if is_dim(a) else int(a))


def item(input: Any) -> Declaration:
    """Returns the declaration of Tensor.item: a number that only running can tell."""
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


ENTRIES = (
    entry(
        "builtins.getattr",
        attribute,
        example(t(12, 6, 4), "shape"),
        example(t(12, 6), "T"),
        example(t(2, 12, 6), "mT"),
    ),
    entry("builtins.len", length, example(t(12, 6))),
    entry("builtins.max", _extreme(maximum)),
    entry("builtins.min", _extreme(minimum)),
    entry("builtins.int", _whole_number),
    entry("torch.sym_max", _extreme(maximum)),
    entry("torch.sym_min", _extreme(minimum)),
    entry("torch.sym_sum", sym_sum),
    entry("torch.sym_int", _whole_number),
    entry("math.floor", _whole_number),
    entry("math.ceil", _whole_number),
    entry("torch.Tensor.size", size, example(t(12, 6)), example(t(12, 6), -1)),
    entry("torch.Tensor.dim", rank, example(t(12, 6))),
    entry("torch.numel", count, example(t(12, 6))),
    entry("torch.Tensor.item", item, note="a number that only running can tell"),
    entry("torch.Tensor.tolist", item, note="numbers that only running can tell"),
    entry("torch.is_floating_point", predicate(lambda d: kind(d) == 2), example(t(12))),
    entry("torch.is_complex", predicate(lambda d: kind(d) == 3), example(t(12))),
    entry("torch.is_signed", predicate(lambda d: kind(d) > 0 and d[0] != "u"), example(t(12))),
    *(entry(path, nothing, note="touches no tensor") for path in _SWITCHES),
)
