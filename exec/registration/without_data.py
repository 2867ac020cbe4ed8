"""Results of an operator whose inputs have no data: tensors of the annotated shapes.

    "(h t) k -> h t k", h = 8      x: meta (8*s, 16)      the result: meta (8, s, 16)

Functions that read data (a kernel of a C library, ``.item()``, NumPy) cannot run on meta and fake
tensors, yet tracing needs their shapes. Their dtype is what the declaration says, else what the
floating inputs promote to, else that of the first tensor. Gradients of them have the shapes of the
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from dimsolve.ir.operator import Declaration, Operator
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.solver.algebra.dims import Call, Function
from dimsolve.solver.algebra.poly import Dim, symbol
from dimsolve.solver.infer import infer, same_named


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yields the tensors among arguments, in order, also inside lists, tuples, dicts and slices."""
    match value:
        case Tensor():
            yield value
        case list() | tuple():
            for item in value:
                yield from tensors_in(item)
        case dict():
            for item in value.values():
                yield from tensors_in(item)
        case slice():
            yield from tensors_in((value.start, value.stop, value.step))


def lack_data(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor among the arguments has no data: it is on the meta device, or fake."""
    return any(map(_lacks_data, tensors_in((args, kwargs))))


def _lacks_data(tensor: Tensor) -> bool:
    return tensor.is_meta or isinstance(tensor, FakeTensor | FunctionalTensor)


def outputs_without_data(
    operator: Operator, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Returns tensors of the annotated shapes. Raises ``error`` where those are not known.

    Where torch.compile traces *into* a function, on its way to machine code, made-up results would
    become wrong programs: there ``error`` is raised too.
    """
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    if get_proxy_mode() is not None:
        raise error
    tensors = list(tensors_in((args, kwargs)))
    for tensor in tensors:
        if isinstance(tensor, FakeTensor) and tensor.fake_mode.shape_env is not None:
            # Sizes that the failed run has made up from data: no result has them.
            tensor.fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()
    declaration = operator.declare(*args, **kwargs)
    lengths = _Lengths()
    shapes = [
        None if not isinstance(given, Tensor) else [lengths.dim(size) for size in given.shape]
        for given in declaration.inputs
    ]
    arguments = same_named(declaration.annotation, declaration.arguments)
    solution = infer(declaration.annotation, shapes, arguments=arguments)
    if solution.free or any(dims is None for dims in solution.output_dims):
        raise error
    make: Any = _Shapes.apply
    made = make(
        [[_evaluate(dim, lengths.sizes) for dim in dims or ()] for dims in solution.output_dims],
        _dtypes(declaration, tensors),
        *tensors,
    )
    return made[0] if len(made) == 1 else made


class _Shapes(torch.autograd.Function):
    """Makes the outputs, and gives them a place in the autograd graph."""

    @staticmethod
    def forward(
        ctx: Any, shapes: list[list[Any]], dtypes: list[torch.dtype], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.tensors = tensors
        like = next(filter(_lacks_data, tensors))
        pairs = zip(shapes, dtypes, strict=True)
        return tuple(like.new_empty(shape, dtype=dtype) for shape, dtype in pairs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        shaped = (torch.empty_like(t) if t.is_floating_point() else None for t in ctx.tensors)
        return (None, None, *shaped)


class _Lengths:
    """torch's symbolic sizes as symbols of ours; ``sizes`` leads back."""

    def __init__(self) -> None:
        self.sizes: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def dim(self, size: Any) -> Dim:
        if isinstance(size, int):
            return size
        name = self._names.setdefault(str(size.node.expr), f"size_{len(self._names)}")
        self.sizes[name] = size
        return symbol(name)


_FUNCTIONS: dict[Function, Callable[..., Any]] = {
    Function.FLOORDIV: lambda a, b: a // b,
    Function.MOD: lambda a, b: a % b,
    Function.CEILDIV: lambda a, b: -(-a // b),
    # torch does not say what types these two take
    Function.MIN: lambda *sizes: reduce(cast(Any, torch.sym_min), sizes),
    Function.MAX: lambda *sizes: reduce(cast(Any, torch.sym_max), sizes),
}


def _evaluate(dim: Dim, sizes: Mapping[str, Any]) -> Any:
    """The length in torch's symbolic sizes: `dimsolve.solver.algebra.dims.evaluate` for them."""
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, term in dim.terms.items():
        product: Any = term
        for atom, exponent in monomial:
            if isinstance(atom, Call):
                base = _FUNCTIONS[atom.function](*(_evaluate(a, sizes) for a in atom.arguments))
            else:
                base = sizes[atom]
            product = product * base**exponent
        total = total + product
    return total


def _dtypes(declaration: Declaration, tensors: list[Tensor]) -> list[torch.dtype]:
    real = [t.dtype for t in tensors if t.is_floating_point() or t.is_complex()]
    usual = reduce(torch.promote_types, real) if real else tensors[0].dtype
    named = declaration.dtypes or (None,) * len(read_annotation(declaration.annotation).outputs)
    return [usual if name is None else getattr(torch, name) for name in named]
