"""`infer`: from an annotation and shapes to the lengths of identifiers and the shapes of outputs.

Three ways to the same answer. A question asked before is looked up. The usual question (every
length is given, or follows by one exact division) is solved by `_solve_quickly`, which keeps no
reasons and costs a few microseconds. Everything else, and every error and explanation, goes through
`dimsolve.solver.unify`.

    infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 8})     h=8, t=s, k=k -> (8, s, k)

Names in shapes, arguments and facts are the caller's symbols; identifiers belong to the annotation:

    h t -> (h t)   beside   8*s, k      h = 8*s, t = k; the output is 8*k*s
    h t -> (h t)   beside   t, h        h = t, t = h: the caller's t is not the identifier's
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from dimsolve.ir.annotation import Annotation, Tensor
from dimsolve.ir.errors import DimsolveError, ShapeError, Span
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_annotation import read_annotation

from . import problems
from .algebra.dims import surely_positive, symbols_of
from .algebra.poly import Dim, Poly, TooLarge, divide_exactly, symbol
from .choices import Choices, Search
from .equations import Equation, Step
from .identifier_facts import IdentifierFacts
from .layout import Layout, Pattern, identifiers_of, layout_of, star_position
from .proof.facts import NO_FACTS, Facts, read_facts, refuse_slips, to_facts
from .proof.prove import decide
from .proof.verdict import Always, Never
from .shapes import (
    Shape,
    ShapeLike,
    to_arguments,
    to_dim,
    to_inputs,
    to_shape,
)
from .solution import Solution
from .unify import Unifier


@dataclass(frozen=True)
class Question:
    """An annotation laid beside shapes. ``explore``: no shapes at all, the identifiers are the
    symbols. ``sized``: the shapes are those of tensors that exist; lengths may be 0.
    """

    annotation: Annotation
    layout: Layout
    shapes: Sequence[Shape | None]
    arguments: Mapping[str, Any]
    facts: Facts
    explore: bool = False
    sized: bool = False

    @cached_property
    def _spans(self) -> dict[str, Span]:
        spans = {
            name: identifier.span for name, identifier in identifiers_of(self.annotation).items()
        }
        for operand in self.layout.inputs:
            spans.update(
                {p.names[0]: p.span for p in operand or () if p.names and p.names[0] not in spans}
            )
        return spans

    @cached_property
    def _lengths(self) -> dict[str, Dim]:
        """The same-named arguments as Dims; ShapeError for one that is no positive integer."""
        lengths: dict[str, Dim] = {}
        for name, value in self.arguments.items():
            if name not in self.layout.marks:
                continue
            dim = _positive_dim(value)
            if dim is None:
                raise problems.bad_argument(
                    self.annotation.text, self._spans[name], name, value, self._given(name)
                )
            lengths[name] = dim
        return lengths

    def _given(self, name: str) -> str:
        """Says what the inputs give for a name that stands alone in one of them."""
        for operand, dim, single in self.layout.singles:
            shape = self.shapes[operand]
            if single == name and shape is not None and shape[dim] is not None:
                return f", {shape[dim]} at input {operand}, dim {dim}"
        return ""

    @cached_property
    def _callers(self) -> frozenset[str]:
        """The caller's symbols: those of the shapes and arguments."""
        dims = [dim for shape in self.shapes for dim in shape or () if isinstance(dim, Poly)]
        return frozenset().union(*map(symbols_of, [*dims, *self._lengths.values()]))

    @cached_property
    def _identifier_facts(self) -> IdentifierFacts:
        """The facts, beside the identifiers that are written in the annotation; where the caller
        has a symbol of that name, they speak of the symbol.
        """
        ours = self.layout.marks.keys() - self._callers - set(self.layout.star)
        return IdentifierFacts(self.facts, frozenset(ours))

    def _symbol_of(self, name: str) -> Dim:
        invented = name in self.layout.star and name in self.facts.symbols
        if name not in self._callers and not invented:
            return symbol(name)
        taken = self._callers | self.layout.marks.keys() | self.facts.symbols
        return symbol(
            next(f"{name}_{i}" for i in range(1, len(taken) + 2) if f"{name}_{i}" not in taken)
        )

    def _equations(self) -> list[Equation]:
        equations = [
            self._equation(pattern, given, f"input {number}, dim {position}")
            for number, (patterns, shape) in enumerate(
                zip(self.layout.inputs, self.shapes, strict=True)
            )
            if patterns is not None and shape is not None
            for position, (pattern, given) in enumerate(zip(patterns, shape, strict=True))
            if given is not None
        ]
        # An empty dimension is known before anything is said of lengths, in any order of inputs.
        equations.sort(key=lambda equation: equation.given != 0)
        return equations + self._identifier_facts.equations(self._spans)

    def _equation(self, pattern: Pattern, given: Dim, origin: str) -> Equation:
        if given == 0 and len(pattern.atoms) > 1:
            text = self.annotation.text
            raise problems.CONTRADICTIONS["zero-product"](
                text, pattern.span, pattern=pattern, origin=origin
            )
        places = {name: pattern.span_of(name) for name in pattern.names}
        return Equation(pattern.names, pattern.constant, given, pattern.span, origin, places)

    def _solved(self) -> Unifier:
        facts = self._identifier_facts
        unifier = Unifier(
            self.annotation.text,
            facts.about_symbols,
            self._symbol_of,
            admits=facts.admits,
            admission=facts.admission,
        )
        unifier.steps.extend(self._steps_of_namesakes())
        for name, value in self._lengths.items():
            unifier.bind(name, value, f"argument {name}", self._spans[name])
            unifier.need_argument(name, value)
        equations = self._equations()
        for equation in equations:
            if isinstance(equation.given, Poly):
                unifier.need_value(equation)
        unifier.solve(equations)
        self._leave_others_free(unifier)
        return unifier

    def _steps_of_namesakes(self) -> Iterator[Step]:
        """Says of which facts that name a symbol and an identifier it is the symbol."""
        for fact in self._identifier_facts.listed:
            both = fact.names & self._callers & self.layout.marks.keys()
            if both and not fact.about:
                named = ", ".join(sorted(both))
                yield Step(
                    f"fact {fact.relation.text}",
                    f"speaks of the caller's {named}, not of the identifier",
                )

    def _leave_others_free(self, unifier: Unifier) -> None:
        """Leaves free what no equation names; ShapeError for an output's that nothing gives."""
        for name, span in self._spans.items():
            if name in unifier.bindings:
                continue
            is_known = name in self.layout.input_names or self._in_unknown_input(name)
            if not is_known and not self.explore:
                raise problems.UNANSWERABLE["unbound-output"](self.annotation.text, span, name=name)
            unifier.leave_free(name, span)

    def _in_unknown_input(self, name: str) -> bool:
        return any(
            patterns is not None and any(name in pattern.names for pattern in patterns)
            for patterns in self.layout.inputs
        )

    def steps(self) -> tuple[Step, ...]:
        """Returns the reasons, one per step."""
        return tuple(self._solved().steps)

    def solution(self) -> Solution:
        """Solves; raises ShapeError where the inputs, arguments and facts contradict each other."""
        unifier = self._solved()
        facts = self._identifier_facts
        values = {
            name: unifier.bindings[name].value
            for name in self.layout.marks
            if name in unifier.bindings
        }
        facts.check(values, self.annotation.text)
        if not self.sized:
            self._require_lengths(unifier, values)
        free = tuple(name for name in values if name in unifier.free)
        return Solution(
            text=self.annotation.text,
            layout=self.layout,
            inputs=tuple(self.shapes),
            values=values,
            conditions=tuple(unifier.conditions),
            free=free,
            facts=facts.of(values),
            trace=lambda: tuple(unifier.steps),
            choices=partial(_choices, unifier.open, values, free, facts),
        )

    def _require_lengths(self, unifier: Unifier, values: Mapping[str, Dim]) -> None:
        """Keeps the conditions under which all lengths are positive; ShapeError: never."""
        if not unifier.needs:
            return
        text = self.annotation.text
        try:
            known = read_facts([*self._identifier_facts.of(values).relations, *unifier.conditions])
        except ShapeError as error:
            raise problems.conditions_exclude(text, unifier.conditions) from error
        for need in unifier.needs:
            claim = need.claim
            decision = decide(claim.left, claim.comparison, claim.right, known)
            match decision:
                case Always():
                    continue
                case Never():
                    facts = " and ".join(str(relation) for relation in known.relations)
                    where = f" where {facts}" if facts else ""
                    words = {"name": need.name, "why": need.why, "claim": claim, "where": where}
                    raise problems.CONTRADICTIONS["no-positive-length"](text, need.span, **words)
            needed = decision.conditions or (str(claim),)
            unifier.require(needed, f"{need.name} is a positive integer: {need.why}")
            try:
                known = read_facts([*known.relations, *needed])
            except ShapeError as error:
                raise problems.conditions_exclude(text, unifier.conditions) from error


def _choices(
    equations: Sequence[Equation],
    values: Mapping[str, Dim],
    free: Sequence[str],
    facts: IdentifierFacts,
    limit: int,
) -> Choices | None:
    """The first values of the free names; None where they are not finitely many for sure."""
    if not free:
        return Choices([{}])
    known = {name: value for name, value in values.items() if name not in free}
    rows = [equation.exponents_of(free, known) for equation in equations]
    numbers = [(exponents, left) for exponents, left in rows if isinstance(left, int)]
    bounds = facts.bounds()
    if set(free) - {name for exponents, _ in numbers for name in exponents} - bounds.keys():
        return None

    def admits(case: Mapping[str, Dim]) -> bool:
        return facts.admits({**known, **case})

    return Search(numbers, admits, facts.admission, free, bounds).first(limit)


def _positive_dim(value: Any) -> Dim | None:
    if isinstance(value, bool):
        return None
    try:
        dim = to_dim(value)
    except DimsolveError:
        if isinstance(value, str):
            raise
        return None
    return None if isinstance(dim, int) and dim < 1 else dim


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
    return infer_for(annotation, inputs, arguments=arguments, facts=facts)


def infer_for(
    annotation: str | Annotation,
    inputs: Inputs,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    names: Collection[str] = (),
) -> Solution:
    """Returns what `infer` returns, for a question that has more names than its shapes have."""
    known: Any = facts if facts.__class__ is tuple and not facts else to_facts(facts)
    solution = _asked(annotation, inputs, arguments, known, False)
    if known:
        asked = set(names).union(solution.layout.marks, *(symbols_of(d) for d in _dims(solution)))
        for value in (arguments or {}).values():
            with suppress(DimsolveError):
                asked |= symbols_of(to_dim(value))
        refuse_slips(read_facts(known), asked)
    return solution


def _dims(solution: Solution) -> Iterator[Dim]:
    for shape in solution.inputs:
        yield from (dim for dim in shape or () if dim is not None)


def same_named(annotation: str | Annotation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those arguments of a call that are lengths of identifiers.

    >>> same_named("(h t) -> h t", {"h": 8, "dim": -1})
    {'h': 8}
    """
    names = identifiers_of(read_annotation(_text_of(annotation)))
    return {name: value for name, value in arguments.items() if name in names}


def infer_sizes(
    annotation: str | Annotation,
    inputs: Inputs,
    *,
    arguments: Mapping[str, Any] | None = None,
) -> Solution:
    """Returns what `infer` returns, for the sizes of tensors that exist.

    They are lengths already, and may be 0 (``seq//2``, the rest of a slice): no condition asks that
    they be positive. A graph is deduced with this.

    >>> infer_sizes("a b -> b a", ["n//2, 3"]).conditions
    ()
    """
    return _asked(annotation, inputs, arguments, (), True)


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
        names = identifiers_of(annotation)
        for name, _ in arguments:
            if name not in names:
                raise problems.unknown_argument(text, name, list(names))
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
