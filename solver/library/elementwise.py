"""Element-wise functions of one tensor, and of tensors and numbers that are broadcast.

torch.cos     * -> *
torch.add     a b, 1 b -> a b          from the shapes (12, 24) and (1, 24)
torch.where   *, *, * -> *
"""

from __future__ import annotations

from typing import Any

from dimsolve.ir.operator import Declaration

from .dtypes import dtype_of
from .entry import Entry, entry
from .pointwise import Pointwise
from .samples import Example, between, constant, example, mask, t, whole

_ANY = (example(t(12, 24)), example(t(12)), example(t(2, 12, 3, 4)))


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

_TWO = (
    example(t(12, 24), t(12, 24)),
    example(t(12, 24), t(24)),
    example(t(12, 1, 6), t(4, 6)),
    example(t(12, 24), 2.5),
)
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
    ("real", "no"): {
        _TWO_TENSORS: "atan2 copysign",
        _TWO_POSITIVE: "xlogy",
    },
    ("bool", "no"): {
        _TWO: "eq ge gt le lt ne",
        _TWO_TENSORS: "logical_and logical_or logical_xor",
    },
}
"""Functions ``torch.NAME(input, other)`` by dtype rule, linearity and example."""


def divide(input: Any, other: Any, *, rounding_mode: str | None = None) -> Declaration:
    """Returns the declaration of a division, which is linear in the dividend where nothing is
    rounded.
    """
    exact = rounding_mode is None
    form = Pointwise(("input", "other"), 2, "real" if exact else "same", "first" if exact else "no")
    return form(input, other)


def frexp(input: Any) -> Declaration:
    """Returns the declaration of mantissas and exponents."""
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

_THREE = (
    example(t(12, 24), t(12, 24), t(12, 24)),
    example(t(12, 24), t(24), t(12, 1)),
)

ENTRIES = (
    *_tables(),
    entry("torch.add", Pointwise(("input", "other", "alpha"), 2, linear="together"), *_TWO),
    entry("torch.sub", Pointwise(("input", "other", "alpha"), 2, linear="together"), *_TWO),
    entry("torch.rsub", Pointwise(("input", "other", "alpha"), 2, linear="together"), *_TWO),
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
    entry("torch.neg", Pointwise(("input",), linear="first"), *_ANY),
    entry("torch.positive", Pointwise(("input",), linear="first"), *_ANY),
    entry("torch.abs", Pointwise(("input",), dtype="abs"), *_ANY),
    entry(
        "torch.angle", Pointwise(("input",), dtype="abs"), example(t(12, 24, dtype="complex128"))
    ),
    entry(
        "torch.conj", Pointwise(("input",), linear="first"), example(t(12, 24, dtype="complex128"))
    ),
    entry(
        "torch.resolve_conj",
        Pointwise(("input",), linear="first"),
        example(t(12, 24, dtype="complex128")),
    ),
    entry(
        "torch.real",
        Pointwise(("input",), dtype="abs", linear="first"),
        example(t(12, 24, dtype="complex128")),
    ),
    entry(
        "torch.imag",
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
        example(t(12, 24), t(12, 24)),
    ),
    entry(
        "torch.polar",
        Pointwise(("abs", "angle"), 2, "complex"),
        example(between(1, 2, 12, 24), t(12, 24)),
    ),
    entry(
        "torch.round",
        Pointwise(("input", "decimals")),
        *_ANY,
        example(t(12, 24), decimals=1),
    ),
    entry(
        "torch.nan_to_num",
        Pointwise(("input", "nan", "posinf", "neginf")),
        *_ANY,
        example(t(12, 24), nan=0.5),
    ),
    entry(
        "torch.sigmoid",
        Pointwise(("input",), dtype="real"),
        *_ANY,
        example(whole(3, 12, 24)),
    ),
    entry(
        "torch.pow",
        Pointwise(("input", "exponent"), 2),
        *_TWO_POSITIVE,
        example(t(12, 24), 2),
        example(2.0, t(12, 24)),
    ),
)
