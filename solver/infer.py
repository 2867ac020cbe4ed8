"""`infer`: from an annotation and shapes to the lengths of identifiers and the shapes of outputs.

    infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 8})     h=8, t=s, k=k -> (8, s, k)

Three ways to the same answer. A question asked before is looked up. The usual question (every
length is given, or follows by one exact division) is solved by `_solve_quickly`, which keeps no
reasons and costs a few microseconds. Everything else, and every error and explanation, goes through
`dimsolve.solver.question`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dimsolve.ir.annotation import Annotation, Tensor
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_annotation import read_annotation

from . import problems
from .algebra.dims import surely_positive, symbols_of
from .algebra.poly import Dim, Poly, TooLarge, divide_exactly
from .layout import Layout, layout_of, names_in, star_position
from .proof.facts import NO_FACTS, read_facts, refuse_slips, to_facts
from .question import Question
from .shapes import (
    Shape,
    ShapeLike,
    to_arguments,
    to_dim,
    to_inputs,
    to_shape,
)
from .solution import Solution

Inputs = Sequence[ShapeLike] | None


def infer(
    annotation: str | Annotation,
    inputs: Inputs = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
) -> Solution:
    """Returns the output shapes of an operator, the lengths of its identifiers, and conditions.

    inputs: one shape per annotated input (see `dimsolve.solver.shapes`), or None to explore the
    operator with its identifiers as symbols. arguments: lengths of identifiers (of the arguments of
    a call, `same_named` returns these). facts: what is known of the symbols. Raises AnnotationError
    for what cannot be read, for an argument that no identifier is named as and a fact whose name is
    a slip for one of the question (`dimsolve.solver.shapes`), and ShapeError where the inputs
    can never match.

    Identifiers are positive integers. An expression that is 0 or negative for some values of its
    symbols, such as ``n - 5``, ``n//2`` or ``max(0, n - 5)``, is a length only for the others, and
    a condition says for which. An empty dimension is a case of its own: it is written 0, and
    matches an identifier that stands alone.

    >>> infer("m k+, k+ n -> m n", ["4*s, k", "k, 16"]).outputs
    ((4*s, 16),)
    >>> infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 3}).conditions
    ('s % 3 == 0',)
    >>> infer("a -> a", ["n - 5"]).conditions
    ('n >= 6',)
    """
    return infer_for(annotation, inputs, arguments, facts)


def infer_for(
    annotation: str | Annotation,
    inputs: Inputs,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    names: Collection[str] = (),
) -> Solution:
    """Returns what `infer` returns, for a question that has more names than its shapes have."""
    if facts.__class__ is tuple and not facts:
        return _asked(annotation, inputs, arguments, (), False)
    known = to_facts(facts)
    solution = _asked(annotation, inputs, arguments, known, False)
    if known:
        asked = set(names)
        for value in (arguments or {}).values():
            with suppress(DimsolveError):
                asked |= symbols_of(to_dim(value))
        refuse_slips_of(solution, known, asked)
    return solution


def refuse_slips_of(
    solution: Solution, facts: Iterable[str | Relation], names: Collection[str]
) -> None:
    """Raises AnnotationError for a fact whose name is a slip for one of the question: for a symbol
    of its shapes, an identifier, or one of ``names``.
    """
    asked = set(names).union(solution.layout.marks, *(symbols_of(d) for d in _dims(solution)))
    refuse_slips(read_facts(to_facts(facts)), asked)


def _dims(solution: Solution) -> Iterator[Dim]:
    for shape in solution.inputs:
        yield from (dim for dim in shape or () if dim is not None)


def same_named(annotation: str | Annotation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those arguments of a call that are lengths of identifiers.

    >>> same_named("(h t) -> h t", {"h": 8, "dim": -1})
    {'h': 8}
    """
    names = names_in(_text_of(annotation))
    return {name: value for name, value in arguments.items() if name in names}


def infer_sizes(
    annotation: str | Annotation,
    inputs: Inputs,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
) -> Solution:
    """Returns what `infer` returns, for the sizes of tensors that exist.

    They are lengths already, and may be 0 (``seq//2``, the rest of a slice): no condition asks that
    they be positive. A graph is deduced with this.

    >>> infer_sizes("a b -> b a", ["n//2, 3"]).conditions
    ()
    """
    return _asked(annotation, inputs, arguments, facts, True)


def solve_quickly(
    annotation: str | Annotation, inputs: Inputs, arguments: Mapping[str, Any] | None = None
) -> Mapping[str, Dim] | None:
    """Returns the lengths of all identifiers where each is given or follows by one exact division.

    None where the general solver has to be asked, whose work is bounded but much more. Here it
    grows with the annotation and not with the numbers: a service may do it while others wait.
    Raises what `infer` raises for inputs that cannot be read or have the wrong rank.

    >>> solve_quickly("(h t) k -> h t k", ["8*s, k"], {"h": 8})
    {'h': 8, 't': Poly(s), 'k': Poly(k)}
    >>> solve_quickly("(h t) -> h t", ["8*s"]) is None
    True
    """
    text = _text_of(annotation)
    if inputs is None:
        return None
    shapes = _shapes_of(to_inputs(inputs))
    layout = layout_of(text, _star_rank(read_annotation(text), shapes))
    return _solve_quickly(layout, shapes, tuple(to_arguments(arguments).items()), False)


def _text_of(annotation: Any) -> str:
    if isinstance(annotation, Annotation):
        return annotation.text or str(annotation)
    return read_annotation(annotation).text


def _shapes_of(inputs: Sequence[ShapeLike]) -> list[Shape | None]:
    try:
        return [to_shape(shape) for shape in inputs]
    except DimsolveError as error:
        failed = error
    for number, shape in enumerate(inputs):
        to_shape(shape, f"input {number}")  # says of the wrong one which it is
    raise failed


def _asked(annotation: Any, inputs: Any, arguments: Any, facts: Any, sized: bool) -> Solution:
    """Looks the question up; ``True`` and ``1.0`` are not the 1 that they equal."""
    text = annotation if annotation.__class__ is str else _text_of(annotation)
    shapes = None if inputs is None else _as_key(inputs)
    named: tuple[tuple[str, Any], ...] = ()
    kinds: tuple[Any, ...] = ()
    if arguments is not None and (arguments.__class__ is not dict or arguments):
        named = tuple(to_arguments(arguments).items())
        kinds = tuple([value.__class__ for _, value in named])
    known = facts if facts.__class__ is tuple and not facts else to_facts(facts)
    if known:  # equal relations may be spelled in two ways, and an answer quotes what was asked
        kinds += tuple([(f.text, f.span) for f in known if isinstance(f, Relation)])
    try:
        with suppress(TypeError):  # an argument is not hashable: answer without memory
            return _cached(text, shapes, named, known, sized, kinds)
        return _infer(text, shapes, named, known, sized)
    except TooLarge:
        raise problems.UNANSWERABLE["too-large"](text) from None


_PLAIN = frozenset({int, str, type(None), Poly})


def _as_key(inputs: Any) -> tuple[Any, ...]:
    """The inputs as a tuple by which the answer can be kept: what is not plain is read already."""
    rows: list[Any] = []
    if inputs.__class__ is not list and inputs.__class__ is not tuple:
        inputs = to_inputs(inputs)
    for number, shape in enumerate(inputs):
        kind = shape.__class__
        if kind is str or shape is None:
            rows.append(shape)
        elif (kind is tuple or kind is list) and _PLAIN.issuperset(map(type, shape)):
            rows.append(tuple(shape))
        else:
            rows.append(to_shape(shape, f"input {number}"))
    return tuple(rows)


def _infer(
    text: str,
    inputs: tuple[Any, ...] | None,
    arguments: tuple[tuple[str, Any], ...],
    facts: tuple[str | Relation, ...],
    sized: bool,
    kinds: tuple[Any, ...] = (),
) -> Solution:
    shapes = None if inputs is None else _shapes_of(inputs)
    known = read_facts(facts) if facts else NO_FACTS
    annotation = read_annotation(text)
    if arguments and not sized:
        names = names_in(text)
        for name, _ in arguments:
            if name not in names:
                raise problems.unknown_argument(text, name, names)
    if shapes is None:
        layout = layout_of(text, None)
        unknown = [None] * len(annotation.inputs)
        question = Question(annotation, layout, unknown, dict(arguments), known, explore=True)
        return replace(question.solution(), explored=True)
    layout = layout_of(text, _star_rank(annotation, shapes))
    question = Question(annotation, layout, shapes, dict(arguments), known, sized=sized)
    written = layout.marks.keys() - set(layout.star)
    if not facts or _are_of_caller(known.symbols & written, shapes):
        values = _solve_quickly(layout, shapes, arguments, sized)
        if values is not None:
            return Solution(text, layout, tuple(shapes), values, facts=known, trace=question.steps)
    return question.solution()


_cached = lru_cache(maxsize=16384)(_infer)


def _are_of_caller(names: frozenset[str], shapes: Sequence[Shape | None]) -> bool:
    """Whether names that facts and identifiers share are symbols of the shapes."""
    if not names:
        return True
    dims = [dim for shape in shapes for dim in shape or () if isinstance(dim, Poly)]
    return names <= frozenset[str]().union(*map(symbols_of, dims))


def _star_rank(annotation: Annotation, shapes: Sequence[Shape | None]) -> int | None:
    """Returns how many dimensions ``*`` stands for, None where unknown; checks all ranks."""
    if len(shapes) != len(annotation.inputs):
        raise problems.wrong_count(annotation.text, len(annotation.inputs), len(shapes))
    found: tuple[int, int] | None = None
    for number, (operand, dims) in enumerate(zip(annotation.inputs, shapes, strict=True)):
        if dims is None or not isinstance(operand, Tensor):
            continue
        star = star_position(operand)
        rank = len(dims) - len(operand.dims) + (star is not None)
        if rank < 0 or (rank and star is None):
            minimum = len(operand.dims) - (star is not None)
            raise problems.wrong_rank(
                annotation.text, operand.span, number, str(operand), minimum, dims
            )
        if star is None:
            continue
        if found is not None and found[1] != rank:
            spans = (annotation.inputs[found[0]].span, operand.span)
            raise problems.star_ranks(annotation.text, spans, found, (number, rank))
        found = found or (number, rank)
    return None if found is None else found[1]


def _solve_quickly(
    layout: Layout,
    shapes: Sequence[Shape | None],
    arguments: tuple[tuple[str, Any], ...],
    sized: bool,
) -> dict[str, Dim] | None:
    """Returns all lengths where nothing is doubtful, else None. ``sized``: 0 is a length."""
    values: dict[str, Dim] = {}
    for name, value in arguments:
        if name in layout.marks:
            if value.__class__ is not int or value < 1:
                return None
            values[name] = value
    for operand, dim, name in layout.singles:
        shape = shapes[operand]
        given = None if shape is None else shape[dim]
        if given is None or values.setdefault(name, given) != given:
            return None
    for operand, dim, number in layout.numbers:
        shape = shapes[operand]
        if shape is None or shape[dim] != number:
            return None
    pending = layout.products
    while pending:
        waiting = [row for row in pending if not _divide_quickly(row, shapes, values)]
        if len(waiting) == len(pending):
            return None
        pending = tuple(waiting)
    if len(values) < len(layout.marks):
        return None
    if not sized:
        for value in values.values():
            if value.__class__ is not int and not surely_positive(value):
                return None
    return {name: values[name] for name in layout.marks}


def _divide_quickly(
    row: tuple[int, int, tuple[str, ...], int],
    shapes: Sequence[Shape | None],
    values: dict[str, Dim],
) -> bool:
    operand, dim, names, divisor = row
    shape = shapes[operand]
    given = None if shape is None else shape[dim]
    unknown = None
    known: Dim = divisor
    for name in names:
        value = values.get(name)
        if value is not None:
            known = known * value
        elif unknown is None:
            unknown = name
        else:
            return False
    if not given or not known:
        return False
    if unknown is None:
        return known == given
    quotient = divide_exactly(given, known)
    if quotient is None:
        return False
    values[unknown] = quotient
    return True
