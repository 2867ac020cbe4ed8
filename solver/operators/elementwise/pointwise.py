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
    torch_entry,
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
            raise NotKnown(f"the argument '{name}' is not supported")
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


def divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Declaration:
    """Declares a division, which is linear in the dividend where nothing is rounded."""
    exact = rounding_mode is None
    form = Pointwise(("input", "other"), 2, "real" if exact else "same", "first" if exact else "no")
    return form(input, other)


def fill(input: Any, value: Any) -> Declaration:
    """Declares one value everywhere, of the tensor's shape and dtype."""
    tensors = [input, value] if is_tensor(value) else [input]
    text = "*, () -> *" if len(tensors) > 1 else "* -> *"
    return Declaration(text, tuple(tensors), dtypes=(dtype_of(input),))


def frexp(input: Any) -> Declaration:
    """Declares mantissas and exponents."""
    return Declaration("* -> *, *", (input,), dtypes=(dtype_of(input), "int32"), returns="tuple")


_THREE = shapes("12 24, 12 24, 12 24", "12 24, 24, 12 1")
_COMPLEX = example(t(12, 24, dtype="complex128"))
_DIGITS = whole(3, 12, 24, dtype="float64")
_FRACTION, _RATIO = constant(between(0.1, 0.9, 12, 24)), between(0.5, 2, 12, 24)


def _rows(
    paths: str,
    parameters: str,
    *examples: Example,
    tensors: int = 1,
    dtype: str = "same",
    linear: str = "no",
) -> list[Entry]:
    """The entries of element-wise functions with the same parameters and rules."""
    return entries(paths, Pointwise(tuple(parameters.split()), tensors, dtype, linear), *examples)


def _pairs(
    paths: str, *examples: Example, parameters: str = "input other", **rules: str
) -> list[Entry]:
    """The entries of functions of two operands."""
    return _rows(paths, parameters, *examples, tensors=2, **rules)


_REAL = """
torch. asinh atan cos cosh deg2rad erf erfc exp exp2 expm1 rad2deg sin sinc sinh tan tanh i0
torch.special. entr erfcx expit i0e i1 i1e log_ndtr ndtr
"""
_POSITIVE_REAL = """
torch. digamma lgamma log log10 log1p log2 reciprocal rsqrt sqrt torch.special. gammaln psi
"""
_BESSEL = """
torch.special. airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
spherical_bessel_j0
"""
_POLYNOMIALS = """
torch.special. chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
"""
_BITS = "torch. bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm"

ENTRIES = (
    *_rows(_REAL, "input", *_ANY, dtype="real"),
    *_rows(_POSITIVE_REAL, "input", *_POSITIVE, dtype="real"),
    *_rows("torch. acos asin atanh erfinv torch.special. ndtri", "input", *_UNIT, dtype="real"),
    *_rows("torch.acosh", "input", *_OVER_ONE, dtype="real"),
    *_rows(_BESSEL, "input", *_STEPS, dtype="real"),
    *_rows("torch. ceil conj_physical floor frac sgn sign square trunc", "input", *_ANY),
    *_rows(
        "torch. isfinite isinf isnan isneginf isposinf isreal logical_not signbit",
        "input",
        *_ANY,
        dtype="bool",
    ),
    *_rows("torch. neg positive", "input", *_ANY, linear="first"),
    *_rows("torch.abs", "input", *_ANY, dtype="abs"),
    *_rows("torch.angle", "input", _COMPLEX, dtype="abs"),
    *_rows("torch. conj resolve_conj", "input", _COMPLEX, linear="first"),
    *_rows("torch. real imag", "input", _COMPLEX, dtype="abs", linear="first"),
    *_rows("torch.bitwise_not", "input", *_WHOLE, example(mask(12, 24))),
    *_rows("torch.logit", "input eps", *_UNIT, dtype="real"),
    *_rows("torch.sigmoid", "input", *_ANY, example(whole(3, 12, 24)), dtype="real"),
    *_rows("torch.mvlgamma", "input p", example(between(2, 5, 12, 24), 3), dtype="real"),
    *_rows("torch.round", "input decimals", *_ANY, example(t(12, 24), decimals=1)),
    *_rows("torch.nan_to_num", "input nan posinf neginf", *_ANY, example(t(12, 24), nan=0.5)),
    torch_entry(fill, example(t(12, 24), 2.0), *shapes("12 24, ()")),
    torch_entry(frexp, example(constant(t(12, 24)))),
    *_pairs("torch. add sub rsub", *_TWO, parameters="input other alpha", linear="together"),
    *_pairs("torch.mul", *_TWO, linear="each"),
    *_pairs("torch. maximum minimum fmax fmin hypot logaddexp logaddexp2 nextafter", *_TWO[:3]),
    *_pairs("torch. fmod remainder", *_TWO_POSITIVE),
    *_pairs("torch. floor_divide heaviside", *_TWO_STEPS),
    *_pairs(_BITS, *_TWO_WHOLE),
    *_pairs("torch. atan2 copysign", *_TWO[:3], dtype="real"),
    *_pairs("torch. xlogy torch.special. xlog1py", *_TWO_POSITIVE, dtype="real"),
    *_pairs("torch. eq ge gt le lt ne", *_TWO, dtype="bool"),
    *_pairs("torch. logical_and logical_or logical_xor", *_TWO[:3], dtype="bool"),
    *_pairs(_POLYNOMIALS, example(_FRACTION, whole(5, 24)), parameters="input n", dtype="real"),
    *_pairs(
        "torch. igamma igammac",
        example(constant(between(0.5, 3, 12, 24)), between(0.5, 3, 12, 24)),
        example(constant(between(0.5, 3, 12, 1)), between(0.5, 3, 24)),
        dtype="real",
    ),
    *_pairs("torch.float_power", *_TWO_POSITIVE, parameters="input exponent", dtype="wide"),
    entry(
        "torch.div",
        divide,
        *_TWO_POSITIVE,
        example(_RATIO, 4),
        example(between(1, 9, 12, 24), 2.0, rounding_mode="floor"),
    ),
    *_pairs("torch.true_divide", *_TWO_POSITIVE, example(_RATIO, 4), dtype="real", linear="first"),
    *_pairs(
        "torch.Tensor.polygamma",
        example(between(0.5, 3, 12, 24), 1),
        parameters="input n",
        dtype="real",
    ),
    *_pairs(
        "torch.polygamma", example(1, between(0.5, 3, 12, 24)), parameters="n input", dtype="real"
    ),
    *_pairs("torch.special.zeta", example(constant(between(2, 4, 12, 24)), 2.0), dtype="real"),
    *_pairs("torch.ldexp", example(t(12, 24), whole(4, 24)), dtype="real"),
    *_pairs(
        "torch.isclose",
        example(_DIGITS, whole(3, 12, 24, dtype="float64")),
        parameters="input other rtol atol equal_nan",
        dtype="bool",
    ),
    *_pairs("torch.clamp_min", example(t(12, 24), 0.2), parameters="input min"),
    *_pairs("torch.clamp_max", example(t(12, 24), 0.2), parameters="input max"),
    *_pairs(
        "torch.complex",
        *shapes("12 24, 12 24"),
        parameters="real imag",
        dtype="complex",
        linear="together",
    ),
    *_pairs(
        "torch.polar",
        example(between(1, 2, 12, 24), t(12, 24)),
        parameters="abs angle",
        dtype="complex",
    ),
    *_pairs(
        "torch.pow",
        *_TWO_POSITIVE,
        example(t(12, 24), 2),
        example(2.0, t(12, 24)),
        parameters="input exponent",
    ),
    *_rows(
        "torch.clamp",
        "input min max",
        example(t(12, 24), -0.5, 0.5),
        example(t(12, 24), min=t(24)),
        example(t(12, 24), between(-2, -1, 12, 1), between(1, 2, 24)),
        tensors=3,
    ),
    *_rows(
        "torch.lerp",
        "input end weight",
        *_THREE,
        example(t(12, 24), t(12, 24), 0.3),
        tensors=3,
        linear="pair",
    ),
    *_rows(
        "torch.addcmul", "input tensor1 tensor2 value", *_THREE, tensors=3, linear="sum of product"
    ),
    *_rows(
        "torch.addcdiv",
        "input tensor1 tensor2 value",
        example(t(12, 24), t(12, 24), _RATIO),
        example(t(12, 24), t(24), between(0.5, 2, 12, 1)),
        tensors=3,
        linear="pair",
    ),
)
