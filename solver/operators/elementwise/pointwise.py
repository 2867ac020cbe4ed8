"""Element-wise functions of one tensor, and of tensors and numbers that are broadcast.

One declaration serves them all; a table gives parameters, the rule of the dtype and the linearity.

    torch.cos       * -> *
    torch.add       a b, 1 b -> a b       of (12, 24) and (1, 24), linear in both together
    torch.where     *, *, * -> *

Shapes that are broadcast share identifiers: lengths at one place, counted from the end, that are
equal share one; a length of 1 beside another is the number 1. Symbols that are not known to agree
may each be 1, so nothing is split there: each has a frozen identifier, and the output has the only
length that is possible.

    (batch, 1, d)  (seq, d)      a 1 b, c b -> a c b
    (n,)  (m,)                   a^, b^ -> c^         c = max(n, m): n == m, n == 1 or m == 1
    (n,)  (8,)                   a^, b^ -> b^         n is 8 or 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import maximum, minimum, surely_positive
from ...algebra.poly import Dim, Poly, product
from ..declare import errors
from ..declare.dtypes import (
    complex_of,
    dtype_name,
    dtype_of,
    floating,
    kind,
    promote_types,
    real_of,
    result_type,
)
from ..declare.entry import (
    Entry,
    Example,
    between,
    constant,
    entries,
    entry,
    example,
    mask,
    shapes,
    t,
    whole,
)
from ..declare.needs import EQ, need, need_equal_or_one, never_equal
from ..declare.writing import (
    Lengths,
    Names,
    NotKnown,
    annotation,
    bare,
    dims_of,
    identifiers_in,
    is_tensor,
)


@dataclass(slots=True)
class Broadcast:
    """Patterns of all shapes and of the result. ``arguments`` and ``fresh`` are what a Declaration
    needs besides.
    """

    inputs: list[list[str]]
    output: list[str] = field(default_factory=list)
    arguments: dict[str, Any] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)


def broadcast(shapes: Sequence[Lengths], names: Names, mark: str = "") -> Broadcast:
    """Returns the patterns of shapes that are broadcast together. Raises ShapeError where they can
    never be.

    >>> result = broadcast([(2, 1, 8), (3, 8)], Names())
    >>> result.inputs, result.output
    ([['a', '1', 'c'], ['b', 'c']], ['a', 'b', 'c'])
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result = Broadcast([[] for _ in shapes])
    for position in range(-rank, 0):
        present = [i for i, shape in enumerate(shapes) if len(shape) >= -position]
        lengths = [shapes[i][position] for i in present]
        words, output = _one_place(shapes, position, lengths, names, mark, result)
        for i, word in zip(present, words, strict=True):
            result.inputs[i].append(word)
        result.output.append(output)
    return result


def _one_place(
    shapes: Sequence[Lengths],
    position: int,
    lengths: Sequence[Dim | None],
    names: Names,
    mark: str,
    result: Broadcast,
) -> tuple[list[str], str]:
    """Returns the word of every length at one place, and of the result."""
    distinct = list(dict.fromkeys(length for length in lengths if length != 1))
    if not distinct:
        return ["1"] * len(lengths), "1"
    if len(distinct) == 1 and (distinct[0] is not None or lengths.count(None) == 1):
        word = names.one(mark)
        return ["1" if length == 1 else word for length in lengths], word
    numbers = [length for length in distinct if isinstance(length, int)]
    if len(numbers) > 1 or never_broadcast(distinct):
        raise errors.cannot_broadcast(shapes, distinct, position)
    for a, b in combinations([length for length in distinct if length is not None], 2):
        need_equal_or_one(a, b, one=[length for length in (a, b) if isinstance(length, Poly)])
    # Unknown lengths need not agree with each other, so each has a word of its own.
    known = {length: names.one("^") for length in distinct if length is not None}
    each = [
        names.one("^") if length is None else "1" if length == 1 else known[length]
        for length in lengths
    ]
    if numbers:
        return each, known[numbers[0]]
    output = names.one("^")
    if None in distinct:
        result.fresh.append(bare(output))
    else:
        result.arguments[bare(output)] = common_length([d for d in distinct if d is not None])
    return each, output


def common_length(lengths: Sequence[Dim]) -> Dim:
    """Returns the length that lengths which broadcast have together: 0 where one of them is 0, and
    the greatest otherwise.

    >>> from dimsolve.solver.algebra.dims import floor_div
    >>> from dimsolve.solver.algebra.poly import symbol
    >>> n = symbol("n")
    >>> print(common_length([n, symbol("m")]), common_length([n, floor_div(n, 2)]), sep=" and ")
    max(m, n) and max(n, n//2)*min(1, n//2)
    """
    may_be_empty = [minimum(1, length) for length in lengths if not surely_positive(length)]
    return product([maximum(*lengths), *may_be_empty])


def laid_on(
    dims: Lengths, wanted: Sequence[Dim | None], words: Sequence[str], names: Names
) -> tuple[list[str], set[str]]:
    """Returns the words of a tensor that is broadcast to lengths with words of their own, and the
    identifiers that must stay whole: where symbols decide whether a length is 1 or the wanted one.

    >>> laid_on((1, 6), (2, 12, 6), ["a", "b", "c+"], Names())
    (['1', 'c+'], set())
    """
    row: list[str] = []
    doubtful: set[str] = set()
    offset = len(wanted) - len(dims)
    for length, target, word in zip(dims, wanted[offset:], words[offset:], strict=True):
        if length == 1 and target != 1:
            row.append("1")
        elif length is None or target is None or length == target or never_equal(length, 1):
            row.append(word)
        else:
            need_equal_or_one(length, target, one=(length,))
            row.append(names.one("^"))
            doubtful.update(identifiers_in(word))
    return row, doubtful


def never_broadcast(lengths: Sequence[Dim | None]) -> bool:
    """Whether two of the lengths can neither be equal nor be 1, for any values of the symbols."""
    fixed = [length for length in lengths if length is not None and never_equal(length, 1)]
    return any(never_equal(a, b) for n, a in enumerate(fixed) for b in fixed[:n])


DTYPES: dict[str, Callable[[Sequence[Any]], str | None]] = {
    "same": result_type,
    "real": lambda operands: floating(result_type(operands)),
    "bool": lambda operands: "bool",
    "abs": lambda operands: real_of(result_type(operands)),
    "first": lambda operands: dtype_of(operands[0]),
    "choice": lambda operands: result_type(operands[1:]),
    "complex": lambda operands: complex_of(result_type(operands)),
    "wide": lambda operands: promote_types("float64", result_type(operands)),
}
"""Output dtype by name of the rule, from the operands (tensors and numbers)."""

LINEAR: dict[str, Callable[[Sequence[bool]], tuple[tuple[int, ...], ...]]] = {
    "no": lambda tensors: (),
    "together": lambda tensors: (tuple(range(len(tensors))),) if all(tensors) else (),
    "each": lambda tensors: tuple((n,) for n in range(sum(tensors))),
    "first": lambda tensors: ((0,),) if tensors[0] else (),
    "pair": lambda tensors: ((0, 1),) if all(tensors[:2]) else (),
    "sum of product": lambda tensors: ((0, 1), (0, 2)) if all(tensors) else (),
    "choice": lambda tensors: ((1, 2),) if all(tensors) else (),
}
"""Which sets of tensors the output is linear in, by name of the rule, from which operands are
tensors (the others are numbers).
"""


def bind(parameters: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a call by name. Raises NotKnown for one that has no place."""
    if len(args) > len(parameters):
        raise NotKnown(f"{len(args)} arguments are given, {len(parameters)} are known of")
    bound = dict(zip(parameters, args, strict=False))
    for name, value in kwargs.items():
        if name not in parameters or name in bound:
            raise NotKnown(f"the argument '{name}' is not known of")
        bound[name] = value
    return bound


@dataclass(frozen=True, slots=True)
class Pointwise:
    """An element-wise function. The first ``tensors`` of its parameters may be tensors, which are
    broadcast, or numbers.

    dtype, linear: names of rules. An argument ``inplace=True`` makes it write to its first input.
    """

    parameters: tuple[str, ...]
    tensors: int = 1
    dtype: str = "same"
    linear: str = "no"

    def __call__(self, *args: Any, **kwargs: Any) -> Declaration:
        """Declares one call."""
        bound = bind(self.parameters, args, kwargs)
        operands = [
            bound[name] for name in self.parameters[: self.tensors] if bound.get(name) is not None
        ]
        tensors = [operand for operand in operands if is_tensor(operand)]
        if not tensors:
            raise NotKnown("no argument is a tensor")
        dtype = DTYPES[self.dtype](operands)
        if bound.get("dtype") is not None:
            dtype = dtype_name(bound["dtype"])
        declaration = spread(tensors)
        return replace(
            declaration,
            dtypes=(dtype,),
            linear=LINEAR[self.linear]([is_tensor(operand) for operand in operands]),
            mutates=(0,) if bound.get("inplace") is True else (),
        )


def spread(tensors: Sequence[Any], outputs: int = 1) -> Declaration:
    """Declares tensors that are broadcast together; all results have the common shape."""
    if len(tensors) == 1:
        return Declaration(f"* -> {', '.join(['*'] * outputs)}", tuple(tensors))
    shapes = [dims_of(tensor, f"input {number}") for number, tensor in enumerate(tensors)]
    if None not in shapes[0] and all(shape == shapes[0] for shape in shapes):
        stars = (", ".join(["*"] * count) for count in (len(shapes), outputs))
        return Declaration(" -> ".join(stars), tuple(tensors))
    result = broadcast(shapes, Names())
    return Declaration(
        annotation(result.inputs, [result.output] * outputs),
        tuple(tensors),
        arguments=result.arguments,
        fresh=tuple(result.fresh),
    )


def in_place(declaration: Declaration) -> Declaration:
    """Declares the variant that writes the result to its first input.

    Raises ShapeError where the first input would have to be broadcast.
    """
    before, after = declaration.annotation.split(" -> ")
    rows, words = [row.split(" ") for row in before.split(", ")], after.split(" ")
    if rows[0] != words:
        _need_room(declaration, rows, words)
        single = {bare(b) for a, b in zip(rows[0], words, strict=True) if a == "1" != b}
        rows = [[f"{bare(w)}^" if bare(w) in single else w for w in row] for row in rows]
    first_words, first = rows[0], " ".join(rows[0])
    dtype, result = (
        dtype_of(declaration.inputs[0]),
        declaration.dtypes[0] if declaration.dtypes else None,
    )
    if dtype is not None and result is not None and kind(result) > kind(dtype):
        raise errors.in_place_dtype(result, dtype)
    unused = {bare(word) for word in words} - {bare(word) for word in first_words}
    return replace(
        declaration,
        annotation=f"{', '.join(map(' '.join, rows))} -> {first}",
        arguments={k: v for k, v in declaration.arguments.items() if k not in unused},
        fresh=tuple(name for name in declaration.fresh if name not in unused),
        dtypes=(dtype,),
        mutates=(0,),
        # What is written to must be partial too, where partial sums are written.
        linear=tuple(inputs for inputs in declaration.linear if 0 in inputs),
    )


def _need_room(
    declaration: Declaration, rows: Sequence[Sequence[str]], words: Sequence[str]
) -> None:
    """What is written to the first tensor has its shape. Where a word of the result is another
    one, the result's length is that of the tensor that has the word, or of those that are broadcast
    together.
    """
    shapes = [dims_of(tensor) for tensor in declaration.inputs]
    if len(rows[0]) != len(words):
        raise errors.in_place_broadcast(shapes)
    known = {
        bare(word): length
        for row, shape in zip(rows, shapes, strict=True)
        for word, length in zip(row, shape, strict=False)
    }
    known |= declaration.arguments
    first, *others = shapes
    for place, (word, length) in enumerate(zip(words, first, strict=True)):
        result = known.get(bare(word))
        if bare(word) == bare(rows[0][place]) or length is None or result is None:
            continue
        if isinstance(length, int) and isinstance(result, int):
            raise errors.in_place_broadcast(shapes)
        beside = [shape[place - len(first)] for shape in others if len(first) - place <= len(shape)]
        if len(shapes) == 2 and bare(word) in declaration.arguments and beside[0] is not None:
            need_equal_or_one(beside[0], length, one=(beside[0],))
        else:
            need(*((result, EQ, length) if isinstance(length, int) else (length, EQ, result)))


_ANY = shapes("12 24", "12", "2 12 3 4")


def _within(low: float, high: float) -> tuple[Example, ...]:
    return (example(between(low, high, 12, 24)), example(between(low, high, 12)))


_POSITIVE, _UNIT, _OVER_ONE = _within(0.5, 3.0), _within(0.05, 0.95), _within(1.5, 4.0)
_STEPS = (example(constant(between(0.5, 3.0, 12, 24))),)
_WHOLE = (example(whole(9, 12, 24)), example(whole(9, 12)))

_ONE: dict[str, dict[tuple[Example, ...], str]] = {
    "real": {
        _ANY: "asinh atan cos cosh deg2rad erf erfc exp exp2 expm1 rad2deg sin sinc sinh tan tanh "
        "i0",
        _POSITIVE: "digamma lgamma log log10 log1p log2 reciprocal rsqrt sqrt",
        _UNIT: "acos asin atanh erfinv",
        _OVER_ONE: "acosh",
    },
    "same": {_ANY: "ceil conj_physical floor frac sgn sign square trunc"},
    "bool": {_ANY: "isfinite isinf isnan isneginf isposinf isreal logical_not signbit"},
}
"""Functions ``torch.NAME(input)`` by dtype rule and example."""

_SPECIAL = {
    _ANY: "entr erfcx expit i0e i1 i1e log_ndtr ndtr",
    _POSITIVE: "gammaln psi",
    _STEPS: "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 "
    "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 "
    "spherical_bessel_j0",
    _UNIT: "ndtri",
}
"""Functions ``torch.special.NAME(input)``: reals."""

_TWO = (*shapes("12 24, 12 24", "12 24, 24", "12 1 6, 4 6"), example(t(12, 24), 2.5))
_TWO_POSITIVE = (
    example(between(0.5, 2, 12, 24), between(0.5, 2, 12, 24)),
    example(between(0.5, 2, 12, 1, 6), between(0.5, 2, 4, 6)),
)
_TWO_STEPS = (
    example(constant(t(12, 24)), constant(between(0.5, 2, 12, 24))),
    example(constant(t(12, 1, 6)), constant(between(0.5, 2, 4, 6))),
)
_TWO_WHOLE = (
    example(whole(30, 12, 24, low=1), whole(5, 12, 24, low=1)),
    example(whole(30, 12, 24, low=1), whole(5, 24, low=1)),
)
_TWO_TENSORS = (_TWO[0], _TWO[1], _TWO[2])

_PAIRS: dict[tuple[str, str], dict[tuple[Example, ...], str]] = {
    ("same", "no"): {
        _TWO_TENSORS: "maximum minimum fmax fmin hypot logaddexp logaddexp2 nextafter",
        _TWO_POSITIVE: "fmod remainder",
        _TWO_STEPS: "floor_divide heaviside",
        _TWO_WHOLE: "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
        "gcd lcm",
    },
    ("real", "no"): {_TWO_TENSORS: "atan2 copysign", _TWO_POSITIVE: "xlogy"},
    ("bool", "no"): {_TWO: "eq ge gt le lt ne", _TWO_TENSORS: "logical_and logical_or logical_xor"},
}
"""Functions ``torch.NAME(input, other)`` by dtype rule, linearity and example."""


def divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Declaration:
    """Declares a division, which is linear in the dividend where nothing is rounded."""
    exact = rounding_mode is None
    form = Pointwise(("input", "other"), 2, "real" if exact else "same", "first" if exact else "no")
    return form(input, other)


def frexp(input: Any) -> Declaration:
    """Declares mantissas and exponents."""
    return Declaration("* -> *, *", (input,), dtypes=(dtype_of(input), "int32"), returns="tuple")


def _tables() -> list[Entry]:
    entries: list[Entry] = []
    for dtype, groups in _ONE.items():
        for examples, words in groups.items():
            form = Pointwise(("input",), dtype=dtype)
            entries += [entry(f"torch.{name}", form, *examples) for name in words.split()]
    for examples, words in _SPECIAL.items():
        form = Pointwise(("input",), dtype="real")
        entries += [entry(f"torch.special.{name}", form, *examples) for name in words.split()]
    for (dtype, linear), groups in _PAIRS.items():
        for examples, words in groups.items():
            form = Pointwise(("input", "other"), 2, dtype, linear)
            entries += [entry(f"torch.{name}", form, *examples) for name in words.split()]
    return entries


_POLYNOMIALS = """
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w
"""
"""Functions ``torch.special.NAME(input, n)``, in which torch has no gradient."""

_THREE = shapes("12 24, 12 24, 12 24", "12 24, 24, 12 1")

ENTRIES = (
    *_tables(),
    *entries(
        "torch. add sub rsub", Pointwise(("input", "other", "alpha"), 2, linear="together"), *_TWO
    ),
    entry("torch.mul", Pointwise(("input", "other"), 2, linear="each"), *_TWO),
    *(
        entry(
            f"torch.special.{name}",
            Pointwise(("input", "n"), 2, "real"),
            example(constant(between(0.1, 0.9, 12, 24)), whole(5, 24)),
        )
        for name in _POLYNOMIALS.split()
    ),
    *(
        entry(
            f"torch.{name}",
            Pointwise(("input", "other"), 2, "real"),
            example(constant(between(0.5, 3, 12, 24)), between(0.5, 3, 12, 24)),
            example(constant(between(0.5, 3, 12, 1)), between(0.5, 3, 24)),
        )
        for name in ("igamma", "igammac")
    ),
    entry(
        "torch.mvlgamma", Pointwise(("input", "p"), dtype="real"), example(between(2, 5, 12, 24), 3)
    ),
    entry("torch.frexp", frexp, example(constant(t(12, 24)))),
    entry("torch.float_power", Pointwise(("input", "exponent"), 2, "wide"), *_TWO_POSITIVE),
    entry(
        "torch.div",
        divide,
        *_TWO_POSITIVE,
        example(between(0.5, 2, 12, 24), 4),
        example(between(1, 9, 12, 24), 2.0, rounding_mode="floor"),
    ),
    entry(
        "torch.true_divide",
        Pointwise(("input", "other"), 2, "real", "first"),
        *_TWO_POSITIVE,
        example(between(0.5, 2, 12, 24), 4),
    ),
    entry(
        "torch.Tensor.polygamma",
        Pointwise(("input", "n"), 2, "real"),
        example(between(0.5, 3, 12, 24), 1),
    ),
    *entries("torch. neg positive", Pointwise(("input",), linear="first"), *_ANY),
    entry("torch.abs", Pointwise(("input",), dtype="abs"), *_ANY),
    entry(
        "torch.angle", Pointwise(("input",), dtype="abs"), example(t(12, 24, dtype="complex128"))
    ),
    *entries(
        "torch. conj resolve_conj",
        Pointwise(("input",), linear="first"),
        example(t(12, 24, dtype="complex128")),
    ),
    *entries(
        "torch. real imag",
        Pointwise(("input",), dtype="abs", linear="first"),
        example(t(12, 24, dtype="complex128")),
    ),
    entry("torch.bitwise_not", Pointwise(("input",)), *_WHOLE, example(mask(12, 24))),
    entry("torch.logit", Pointwise(("input", "eps"), dtype="real"), *_UNIT),
    entry("torch.special.xlog1py", Pointwise(("input", "other"), 2, "real"), *_TWO_POSITIVE),
    entry(
        "torch.special.zeta",
        Pointwise(("input", "other"), 2, "real"),
        example(constant(between(2, 4, 12, 24)), 2.0),
    ),
    entry(
        "torch.polygamma", Pointwise(("n", "input"), 2, "real"), example(1, between(0.5, 3, 12, 24))
    ),
    entry(
        "torch.ldexp", Pointwise(("input", "other"), 2, "real"), example(t(12, 24), whole(4, 24))
    ),
    entry(
        "torch.isclose",
        Pointwise(("input", "other", "rtol", "atol", "equal_nan"), 2, "bool"),
        example(whole(3, 12, 24, dtype="float64"), whole(3, 12, 24, dtype="float64")),
    ),
    entry(
        "torch.clamp",
        Pointwise(("input", "min", "max"), 3),
        example(t(12, 24), -0.5, 0.5),
        example(t(12, 24), min=t(24)),
        example(t(12, 24), between(-2, -1, 12, 1), between(1, 2, 24)),
    ),
    entry("torch.clamp_min", Pointwise(("input", "min"), 2), example(t(12, 24), 0.2)),
    entry("torch.clamp_max", Pointwise(("input", "max"), 2), example(t(12, 24), 0.2)),
    entry(
        "torch.lerp",
        Pointwise(("input", "end", "weight"), 3, linear="pair"),
        *_THREE,
        example(t(12, 24), t(12, 24), 0.3),
    ),
    entry(
        "torch.addcmul",
        Pointwise(("input", "tensor1", "tensor2", "value"), 3, linear="sum of product"),
        *_THREE,
    ),
    entry(
        "torch.addcdiv",
        Pointwise(("input", "tensor1", "tensor2", "value"), 3, linear="pair"),
        example(t(12, 24), t(12, 24), between(0.5, 2, 12, 24)),
        example(t(12, 24), t(24), between(0.5, 2, 12, 1)),
    ),
    entry(
        "torch.complex",
        Pointwise(("real", "imag"), 2, "complex", "together"),
        *shapes("12 24, 12 24"),
    ),
    entry(
        "torch.polar",
        Pointwise(("abs", "angle"), 2, "complex"),
        example(between(1, 2, 12, 24), t(12, 24)),
    ),
    entry("torch.round", Pointwise(("input", "decimals")), *_ANY, example(t(12, 24), decimals=1)),
    entry(
        "torch.nan_to_num",
        Pointwise(("input", "nan", "posinf", "neginf")),
        *_ANY,
        example(t(12, 24), nan=0.5),
    ),
    entry("torch.sigmoid", Pointwise(("input",), dtype="real"), *_ANY, example(whole(3, 12, 24))),
    entry(
        "torch.pow",
        Pointwise(("input", "exponent"), 2),
        *_TWO_POSITIVE,
        example(t(12, 24), 2),
        example(2.0, t(12, 24)),
    ),
)
