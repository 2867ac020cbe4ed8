"""Which dimensions of a model's inputs are dynamic, by the names that the user gives them.

    dynamic={"input_ids": {0: "batch", 1: "seq"}}           by the argument's name
    dynamic={0: {0: "batch"}, 1: ("batch", None)}           by its position, names in order
    dynamic={"x": {0: "8*s"}}                               a dimension that is a multiple
    dynamic={"past_key_values": {2: "past"}}                all tensors of an object, or of one
    dynamic={"past_key_values.layers.0": {2: "past"}}       part of it, that have the dimension

Each symbol gets a size for the capture. The user's own sizes are kept where they tell all symbols
apart and none is 1; otherwise primes are taken, because two equal sizes, or a 1, would be captured
as a coincidence of this call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from dimsolve.ir.checks import as_whole, without_numpy
from dimsolve.ir.errors import AnnotationError, ShapeError, problems
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.match import Mismatch, match
from dimsolve.solver.shapes import to_dim

from .argument_objects import Place, place_name, walk

_REFUSED = problems(
    AnnotationError,
    """
    no-argument: dynamic names an argument that the call has not
      '{key}' is none of {names}
    no-tensor: only tensors have dynamic dimensions
      '{name}' is a {kind}
    no-dimension: dynamic names a dimension that the tensor has not
      '{name}' has {rank} dimensions, dim {index} is named
    no-name: a name makes a dimension dynamic, and {number} is a number
      dim {index} of '{name}' has {size} in the example
      hint: write dynamic={{"{name}": {{{likely}: "batch"}}}}
    no-dimension (inside): dynamic names a dimension that the tensor has not
      no tensor in '{name}' has dim {index}
    dynamic: dynamic names dimensions by argument
      {dynamic!r} is a {kind}
      hint: write dynamic={{"x": {{0: "batch"}}}}
    dynamic (of one): the dimensions of {name} are named by place
      {spec!r} is no mapping of numbers to names and no sequence of names
      hint: write {{"{name}": {{0: "batch"}}}} or {{"{name}": ("batch", None)}}
    """,
)

_CONTRADICTED = problems(
    ShapeError,
    """
    example-size: the example does not fit what dynamic says of {name} dim {index}
      it is to be {dim}, and no positive integers make that {size}
    example-size (two): {name} has two sizes in the example
      {first} ({there}), but {second} ({here})
      hint: give dimensions that may differ two names
    """,
)

Dynamic = Mapping[Any, Any]
PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of the call's arguments: its name (``input_ids``, ``mask.0``,
    ``cache.layers.0.keys``), its value, its dynamic dimensions, and where it is in ``(args,
    kwargs)``.

    place: the keys that its name is made of. whole: it is a container or an object, whose parts are
    leaves of their own.
    """

    name: str
    value: Any
    dims: Mapping[int, Dim]
    path: tuple[Any, ...] = ()
    place: Place = ()
    whole: bool = False


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Returns the names of the first positional parameters of a function or module."""
    forward = getattr(function, "forward", function)
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in kinds]
    return [names[i] if i < len(names) else f"arg{i}" for i in range(count)]


def leaves_of(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: Dynamic | None,
) -> list[Leaf]:
    """Returns the leaves of a call's arguments, in the order of the call. Objects are not among
    them, only what they hold.

    Raises AnnotationError where ``dynamic`` names an argument that the call has not, or a dimension
    that the tensor has not.
    """
    return [leaf for leaf in parts_and_leaves(function, args, kwargs, dynamic) if not leaf.whole]


def parts_and_leaves(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: Dynamic | None,
) -> list[Leaf]:
    """Returns the leaves and, before those that they hold, the containers and objects."""
    names = parameter_names(function, len(args))
    given: list[tuple[tuple[Any, ...], str, Any]] = [
        ((0, number), names[number], value) for number, value in enumerate(args)
    ]
    given += [((1, name), name, value) for name, value in kwargs.items()]
    found: dict[str, Leaf] = {}
    met: dict[int, Place] = {}
    for path, head, value in given:
        for place, item, whole in walk((head,), value, met):
            name = place_name(place)
            found[name] = Leaf(name, without_numpy(item), {}, (*path, *place[1:]), place, whole)
    dims = _dims_by_leaf(dynamic or {}, names, found)
    return [
        replace(leaf, dims=dims[name]) if name in dims else leaf for name, leaf in found.items()
    ]


def _dims_by_leaf(
    dynamic: Dynamic, names: Sequence[str], found: Mapping[str, Leaf]
) -> dict[str, dict[int, Dim]]:
    if not isinstance(dynamic, Mapping):
        raise _REFUSED["dynamic"](dynamic=dynamic, kind=type(dynamic).__name__)
    dims: dict[str, dict[int, Dim]] = {}
    for key, spec in dynamic.items():
        name = names[key] if isinstance(key, int) and key < len(names) else str(key)
        for leaf, own in _leaf_specs(name, spec, found):
            shape = getattr(found[leaf].value, "shape", None)
            if shape is None:
                raise _REFUSED["no-tensor"](name=leaf, kind=type(found[leaf].value).__name__)
            dims[leaf] = _dims_of_spec(leaf, own, shape)
    return dims


def _leaf_specs(name: str, spec: Any, found: Mapping[str, Leaf]) -> Iterator[tuple[str, Any]]:
    """What is said of each tensor of an argument: a container's parts are said part by part, or
    all of its tensors at once.
    """
    if name in found and not found[name].whole:
        yield name, spec
    elif name in found and _says_all(name, spec, found):
        yield from _specs_of_all(name, spec, found)
    elif name in found and isinstance(spec, Mapping | list | tuple):
        for key, part in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
            if part is not None:
                yield from _leaf_specs(f"{name}.{key}", part, found)
    else:
        known = ", ".join(n for n, leaf in found.items() if not leaf.whole)
        raise _REFUSED["no-argument"](key=name, names=known)


def _says_all(name: str, spec: Any, found: Mapping[str, Leaf]) -> bool:
    """Whether a spec names dimensions, by number, of all tensors inside: a container's parts of
    these numbers are not tensors themselves.
    """
    if not isinstance(spec, Mapping) or not spec:
        return False
    words = all(isinstance(key, int) and not _is_spec(word) for key, word in spec.items())
    parts = [found.get(f"{name}.{key}") for key in spec]
    return words and not all(part is not None and not part.whole for part in parts)


def _is_spec(word: Any) -> bool:
    return isinstance(word, Mapping | list | tuple)


def _specs_of_all(
    name: str, spec: Mapping[int, Any], found: Mapping[str, Leaf]
) -> Iterator[tuple[str, Any]]:
    """The dimensions that each tensor inside has of those that are named."""
    said: set[int] = set()
    for leaf in found.values():
        shape = getattr(leaf.value, "shape", None)
        if leaf.whole or shape is None or not leaf.name.startswith(f"{name}."):
            continue
        own = {dim: word for dim, word in spec.items() if -len(shape) <= dim < len(shape)}
        said |= own.keys()
        if own:
            yield leaf.name, own
    missing = [dim for dim in spec if dim not in said]
    if missing:
        raise _REFUSED["no-dimension (inside)"](name=name, index=missing[0])


def _dims_of_spec(name: str, spec: Any, shape: Sequence[int]) -> dict[int, Dim]:
    rank = len(shape)
    if isinstance(spec, str):
        spec = [part.strip() for part in spec.split(",")]
    if not isinstance(spec, Mapping | list | tuple | None):
        raise _REFUSED["dynamic (of one)"](name=name, spec=spec)
    pairs = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
    dims: dict[int, Dim] = {}
    for place, word in pairs:
        if word is None:
            continue
        index = as_whole(place)
        if index is None:
            raise _REFUSED["dynamic (of one)"](name=name, spec=spec)
        if not -rank <= index < rank:
            raise _REFUSED["no-dimension"](name=name, index=index, rank=rank)
        dim = to_dim(getattr(word, "__name__", word))
        if not isinstance(dim, int):
            dims[index % rank] = dim
        elif dim != int(shape[index]):
            place = index % rank
            likely = dim if not isinstance(spec, Mapping) and 0 <= dim < rank else place
            size = int(shape[index])
            raise _REFUSED["no-name"](name=name, number=dim, index=place, size=size, likely=likely)
    return dims


def size_choices(leaves: Sequence[Leaf]) -> list[dict[str, int]]:
    """Returns the sizes to capture with, the better ones first: a size for every symbol.

    The given tensors' sizes, where they are all different and more than 1: nothing is then equal by
    chance. Else primes; then multiples of what was given, which may be too large where primes are
    too small; at last what was given, where a model needs two dimensions to be equal.
    """
    given = given_sizes(leaves)
    if given is not None and len(set(given.values())) == len(given) and 1 not in given.values():
        return [given]
    names = dict.fromkeys(
        n for leaf in leaves for d in leaf.dims.values() for n in sorted(symbols_of(d))
    )
    taken = set(_static_sizes(leaves))
    primes = (prime for prime in PRIMES if prime not in taken)
    distinct = {name: next(primes) for name in names}
    return [distinct] if given is None else [distinct, _multiples(given), given]


def _multiples(given: Mapping[str, int]) -> dict[str, int]:
    """Different sizes, each a multiple of what was given: 64 and 64 are captured as 64 and 128."""
    found: dict[str, int] = {}
    for name, size in given.items():
        step = max(size, 1)
        found[name] = next(n for n in count(step, step) if n > 1 and n not in found.values())
    return found


def given_sizes(leaves: Sequence[Leaf]) -> dict[str, int] | None:
    """The sizes that the given tensors have; None where they do not tell one for every symbol.
    Raises ShapeError where a tensor has a size that its dimension cannot have.
    """
    found: dict[str, int] = {}
    seen: dict[str, str] = {}
    names: set[str] = set()
    for leaf in leaves:
        for index, dim in leaf.dims.items():
            names |= symbols_of(dim)
            place = f"{leaf.name} dim {index}"
            for name, value in _bindings(leaf, index, dim):
                first, there = found.setdefault(name, value), seen.get(name, place)
                if first != value:
                    raise _CONTRADICTED["example-size (two)"](
                        name=name, first=first, there=there, second=value, here=place
                    )
                seen.setdefault(name, place)
    return found if found.keys() == names else None


def _bindings(leaf: Leaf, index: int, dim: Dim) -> Iterator[tuple[str, int]]:
    """What the size that a tensor has says of the symbols of its dimension."""
    size = int(leaf.value.shape[index])
    try:
        bindings = match([dim], [size], symbols_of(dim)).bindings
    except Mismatch:
        wrong = _CONTRADICTED["example-size"]
        raise wrong(name=leaf.name, index=index, dim=dim, size=size) from None
    for name, value in bindings.items():
        assert isinstance(value, int)
        yield name, value


def _static_sizes(leaves: Sequence[Leaf]) -> list[int]:
    return [
        int(size)
        for leaf in leaves
        for index, size in enumerate(getattr(leaf.value, "shape", ()))
        if index not in leaf.dims
    ]


def captured_shape(leaf: Leaf, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape with which a tensor is captured."""
    return tuple(
        evaluate(leaf.dims[index], sizes) if index in leaf.dims else int(size)
        for index, size in enumerate(leaf.value.shape)
    )
