"""One line of the library: a torch callable, its declaration, and calls that show and verify it.

The calls are data: a `Sample` has a shape and a dtype, so it can stand for a tensor in a
declaration; torch is imported only when one is built.

    entry("torch.nn.functional.linear", linear, example(t(12, 24), t(6, 24), bias=t(6)))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from dimsolve.ir.operator import Declaration

from ..paths import read_paths

Kind = Literal["normal", "uniform", "whole", "distinct", "ascending", "signs", "places", "definite"]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A tensor to be made: ``kind`` says of which values.

    normal: of the normal distribution; uniform: between low and high; whole: integers from low,
    below high; distinct: no two equal, in random order; ascending: sorted along the last dimension;
    signs: -1 and 1; places: numbered along the last dimensions; definite: symmetric positive
    definite matrices. grad: whether torch has a gradient in it, where it is of reals; the tensor
    then requires one.
    """

    shape: tuple[Any, ...]
    dtype: str = "float64"
    kind: Kind = "normal"
    low: float = 0.0
    high: float = 1.0
    grad: bool = True

    def build(self, seed: int, *, grad: bool = True) -> Any:
        """Returns the torch tensor."""
        tensor = self._values(seed)
        return tensor.requires_grad_(
            grad and self.grad and (tensor.is_floating_point() or tensor.is_complex())
        )

    def _values(self, seed: int) -> Any:
        import torch

        generator = torch.Generator().manual_seed(seed)
        dtype = getattr(torch, self.dtype)
        match self.kind:
            case "normal" if self.dtype.startswith("complex"):
                return torch.randn(self.shape, generator=generator, dtype=dtype)
            case "normal":
                return torch.randn(self.shape, generator=generator, dtype=torch.float64).to(dtype)
            case "uniform":
                unit = torch.rand(self.shape, generator=generator, dtype=torch.float64)
                return (unit * (self.high - self.low) + self.low).to(dtype)
            case "whole":
                return torch.randint(
                    int(self.low), int(self.high), self.shape, generator=generator
                ).to(dtype)
            case "distinct":
                count = torch.Size(self.shape).numel()
                order = torch.randperm(count, generator=generator).reshape(self.shape)
                return (order.to(torch.float64) / 4 - count / 8).to(dtype)
            case "ascending":
                steps = torch.rand(self.shape, generator=generator, dtype=torch.float64)
                return (steps.cumsum(-1) - self.shape[-1] / 4).to(dtype)
            case "signs":
                coins = torch.randint(2, self.shape, generator=generator)
                return (coins * 2 - 1).to(dtype)
            case "places":
                inner = self.shape[len(self.shape) - int(self.high) :]
                count = torch.Size(inner).numel()
                return torch.arange(count).reshape(inner).expand(self.shape).to(dtype).clone()
            case "definite":
                root = torch.randn(self.shape, generator=generator, dtype=torch.float64)
                eye = torch.eye(self.shape[-1], dtype=torch.float64)
                return (root @ root.mT + 4 * eye).to(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """A torch dtype by its name, made when the example is."""

    name: str

    def __str__(self) -> str:
        return f"torch.{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One call: positional arguments and keyword arguments, with samples for the tensors, also
    inside lists and tuples.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def build(self, *, grad: bool = True) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments with real tensors; the same sample is the same tensor, and every
        call makes new ones.
        """
        made: dict[int, Any] = {}

        def real(value: Any) -> Any:
            if isinstance(value, Sample):
                return made.setdefault(id(value), value.build(len(made), grad=grad))
            if isinstance(value, DType):
                import torch

                return getattr(torch, value.name)
            if isinstance(value, list | tuple):
                return type(value)(real(item) for item in value)
            return value

        return tuple(real(a) for a in self.args), {k: real(v) for k, v in self.kwargs.items()}


def constant(sample: Sample) -> Sample:
    """Returns the same sample without a gradient."""
    return replace(sample, grad=False)


def t(*shape: int, dtype: str = "float64", kind: Kind = "normal") -> Sample:
    """Returns a sample of normally distributed values."""
    return Sample(shape, dtype, kind)


def between(low: float, high: float, *shape: int, dtype: str = "float64") -> Sample:
    """Returns a sample of values between two bounds."""
    return Sample(shape, dtype, "uniform", low, high)


def whole(high: int, *shape: int, low: int = 0, dtype: str = "int64") -> Sample:
    """Returns a sample of integers from low (0), below high: indices, classes, counts."""
    return Sample(shape, dtype, "whole", low, high)


def mask(*shape: int) -> Sample:
    """Returns a sample of bools."""
    return Sample(shape, "bool", "whole", 0, 2)


def distinct(*shape: int) -> Sample:
    """Returns a sample without equal values: what is sorted or compared has one answer."""
    return Sample(shape, kind="distinct")


def ascending(*shape: int) -> Sample:
    """Returns a sample that is sorted along its last dimension."""
    return Sample(shape, kind="ascending")


def signs(*shape: int) -> Sample:
    """Returns a sample of -1 and 1, which has no gradient."""
    return Sample(shape, kind="signs", grad=False)


def places(inner: int, *shape: int) -> Sample:
    """Returns a sample whose last ``inner`` dimensions are numbered 0, 1, 2, ..."""
    return Sample(shape, "int64", "places", high=inner)


def example(*args: Any, **kwargs: Any) -> Example:
    """Returns the call as data."""
    return Example(args, kwargs)


def shapes(*texts: str) -> tuple[Example, ...]:
    """Returns one call for each text, of tensors with the shapes in it.

    >>> [sample.shape for sample in shapes("12 24, 24 6, ()")[0].args]
    [(12, 24), (24, 6), ()]
    """
    return tuple(
        Example(tuple(t(*map(int, shape.strip("() ").split())) for shape in text.split(",")))
        for text in texts
    )


Form: TypeAlias = "Callable[..., Declaration]"
"""Takes the arguments of one call of a torch callable and returns what it promises for it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """``path`` is where the function is imported from; ``declare`` takes its arguments and returns
    a Declaration.

    examples: calls with shapes that show the operator; `verify` runs them whole and split. note:
    what a user should know, for ``dimsolve ops``.
    """

    path: str
    declare: Form
    examples: tuple[Example, ...]
    note: str = ""


def entry(path: str, declare: Form, *examples: Example, note: str = "") -> Entry:
    """Returns an Entry.

    >>> entry("torch.cos", Declaration).path
    'torch.cos'
    """
    return Entry(path, declare, examples, note)


def entries(paths: str, declare: Form, *examples: Example, note: str = "") -> list[Entry]:
    """Returns an Entry for each of several paths that are declared alike.

    >>> [item.path for item in entries("torch. cos sin", Declaration)]
    ['torch.cos', 'torch.sin']
    """
    return [Entry(path, declare, examples, note) for path in read_paths(paths)]


def torch_entry(declare: Form, *examples: Example, note: str = "") -> Entry:
    """Returns the Entry of the function ``torch.NAME``, named as its declaration is."""
    return Entry(f"torch.{declare.__name__}", declare, examples, note)


def functional(declare: Form, *examples: Example, note: str = "") -> Entry:
    """Returns the Entry of ``torch.nn.functional.NAME``, named as its declaration is."""
    return Entry(f"torch.nn.functional.{declare.__name__}", declare, examples, note)
