"""Images looked up at other places.

interpolate(x, scale_factor=2)       n c h w -> n c (h 2) (w 2)    nearest, a whole factor
interpolate(x, size=(9, 9), ...)     n c h^ w^ -> n c i^ j^
grid_sample(x, grid)                 n c h^ w^, n p q 2 -> n c p q
affine_grid(theta, (n, c, h, w))     n 2 3 -> n h^ w^ 2
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

from dimsolve.ir.operator import Declaration

from ...algebra.dims import floor_div
from ...algebra.poly import Dim, divide_exactly
from ..declare import errors
from ..declare.entry import Form, between, entries, entry, example, functional, t
from ..declare.forms import declared, moved
from ..declare.needs import EQ, GE, need
from ..declare.writing import Names, NotKnown, dims_of, is_dim, length_word, per_dim

_NEAREST = ("nearest", "nearest-exact")


def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Declaration:
    """Declares a resized image: only copies of whole elements leave a dimension free to be cut."""
    dims = dims_of(input)
    spatial = len(dims) - 2
    if spatial not in (1, 2, 3) or (size is None) == (scale_factor is None):
        raise errors.not_understood(
            "interpolate", f"an input with {len(dims)} dimensions, and one of size and scale_factor"
        )
    names, arguments = Names(), dict[str, Any]()
    leading = names.take(2)
    source, target = [], []
    for number, length in enumerate(dims[2:]):
        factor = _factor(length, number, size, scale_factor, spatial)
        if factor is not None and mode in _NEAREST and (size is None or factor == 1):
            word = names.one()
            source.append(word)
            target.append(word if factor == 1 else f"({word} {factor})")
            continue
        source.append("1" if length == 1 else names.one("^"))
        target.append(
            length_word(names, arguments, _length(length, number, size, scale_factor, spatial))
        )
    if size is not None and any("^" not in word for word in source):
        source, target, arguments = _whole(dims[2:], per_dim(size, spatial))
    return moved(input, [*leading, *source], [*leading, *target], arguments=arguments)


def upsample(mode: str) -> Form:
    """Declares upsample_nearest and upsample_bilinear: interpolate with one mode."""

    def declare(input: Any, size: Any = None, scale_factor: Any = None) -> Declaration:
        return interpolate(input, size, scale_factor, mode)

    return declare


def upsample_aa(
    input: Any,
    output_size: Any,
    align_corners: bool,
    scales_h: Any = None,
    scales_w: Any = None,
    *,
    scale_factors: Any = None,
) -> Declaration:
    """Declares a resized image whose scales are given beside its size, or in its place."""
    scale = scale_factors if output_size is None else None
    return interpolate(input, output_size, scale, "bilinear")


def _factor(length: Dim | None, number: int, size: Any, scale: Any, spatial: int) -> int | None:
    """The whole factor by which a dimension grows, None where there is none."""
    if size is not None:
        wanted = per_dim(size, spatial)[number]
        found = (
            None
            if length is None or not is_dim(wanted) or length == 0
            else divide_exactly(wanted, length)
        )
        return found if isinstance(found, int) else None
    factor = per_dim(scale, spatial)[number]
    if not isinstance(factor, int | float) or factor != int(factor) or factor < 1:
        return None
    # torch divides places by the factor in floating point, which is exact for powers of two only.
    return int(factor) if int(factor) & (int(factor) - 1) == 0 else None


def _length(length: Dim | None, number: int, size: Any, scale: Any, spatial: int) -> Dim:
    if size is not None:
        wanted: Dim = per_dim(size, spatial)[number]
        return _positive(wanted)
    factor = per_dim(scale, spatial)[number]
    if length is None or not isinstance(factor, int | float):
        raise NotKnown("a length of the resized image is not known")
    if isinstance(length, int):
        return _positive(floor(length * factor))
    # A float is a fraction; with a small denominator its product with a length is exact.
    exact = Fraction(factor)
    if exact.denominator > 1 << 20:
        raise NotKnown("a symbol times a factor that is rounded is no length")
    return _positive(floor_div(length * exact.numerator, exact.denominator))


def _positive(length: Dim) -> Dim:
    """A length of the resized image, which has elements."""
    need(length, GE, 1, errors.not_understood("interpolate", f"a length would be {length}"))
    return length


def _whole(lengths: Any, sizes: Any) -> tuple[list[str], list[str], dict[str, Any]]:
    names, arguments = Names({"a", "b"}), dict[str, Any]()
    source = ["1" if length == 1 else names.one("^") for length in lengths]
    return source, [length_word(names, arguments, size) for size in sizes], arguments


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: Any = None,
) -> Declaration:
    """Declares an image looked up at the places of a grid."""
    spatial = len(dims_of(input)) - 2
    if spatial not in (2, 3):
        raise errors.wrong_rank("grid_sample", "input", dims_of(input), "4 or 5 dimensions")
    names = Names({"n", "c"})
    image, places = names.take(spatial, "^"), names.take(spatial)
    return declared(
        (input, grid),
        [["n", "c", *image], ["n", *places, str(spatial)]],
        [["n", "c", *places]],
        linear=((0,),),
    )


def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Declaration:
    """Declares grid_sample as torch has it inside."""
    return grid_sample(input, grid)


def affine_grid(theta: Any, size: Any, align_corners: Any = None) -> Declaration:
    """Declares the places of an image under affine maps, one map per image."""
    spatial = len(size) - 2
    if not all(is_dim(length) for length in size):
        raise NotKnown("the lengths of the image are not known")
    count = dims_of(theta, "the maps")[0]
    if count is not None and is_dim(size[0]):
        need(count, EQ, size[0], errors.lengths_differ("the maps and the images", count, size[0]))
    for length in size[1:]:
        need(length, GE, 1, errors.not_understood("affine_grid", f"a length is {length}"))
    names, arguments = Names({"n"}), dict[str, Any]()
    image = [length_word(names, arguments, length) for length in size[2:]]
    rows = ["n", str(spatial), str(spatial + 1)]
    return moved(
        theta,
        rows,
        ["n", *image, str(spatial)],
        arguments=arguments,
        sizes={"size": " ".join(["n", *map(str, size[1:])])},
    )


ENTRIES = (
    functional(
        interpolate,
        example(t(2, 6, 4, 3), scale_factor=2),
        example(t(2, 6, 4, 3), size=(7, 5)),
        example(t(2, 6, 4, 3), scale_factor=1.5, mode="bilinear"),
        example(t(2, 6, 12), scale_factor=4, mode="nearest-exact"),
        example(t(2, 6, 4, 4), size=8, mode="bicubic"),
    ),
    entry(
        "torch.nn.functional.upsample_nearest",
        upsample("nearest"),
        example(t(2, 6, 4, 3), scale_factor=2),
        example(t(2, 6, 4, 3), (7, 5)),
    ),
    entry(
        "torch.nn.functional.upsample_bilinear",
        upsample("bilinear"),
        example(t(2, 6, 4, 3), scale_factor=2),
    ),
    entry(
        "torch.ops.aten._upsample_bilinear2d_aa", upsample_aa, example(t(2, 6, 4, 3), (7, 5), False)
    ),
    *entries(
        "torch.grid_sampler_2d",
        grid_sampler,
        example(t(2, 6, 4, 3), between(-1, 1, 2, 12, 6, 2), 0, 0, False),
    ),
    *entries(
        "torch.grid_sampler_3d",
        grid_sampler,
        example(t(2, 6, 4, 3, 2), between(-1, 1, 2, 4, 6, 2, 3), 0, 0, False),
    ),
    functional(grid_sample, example(t(2, 6, 4, 3), between(-1, 1, 2, 12, 6, 2))),
    functional(affine_grid, example(t(12, 2, 3), (12, 3, 4, 6))),
)
