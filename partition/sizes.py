"""Sizes of a plan's symbols, given by a caller: checked against its conditions, and put in.

    plan over dp=2 with batch, seq; needs batch % 2 == 0
    {"batch": 4, "seq": 3}      (batch//2, seq, 64)  is  (2, 3, 64)
    {"batch": 3, "seq": 3}      PlanError: it needs batch % 2 == 0
    {"batch": 4}                PlanError: ... write plan.memory({"batch": 4, "seq": 1})

The conditions of a plan say no more than they must (`essential`):

    batch % 2 == 0, batch*seq % 2 == 0              the second follows from the first
    4096 % n == 0, 32 % n == 0, 8 % n == 0          the first two follow from the last
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from operator import index
from typing import Any

from dimsolve.ir.characters import shown
from dimsolve.ir.checks import nearest
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.algebra.dims import evaluate, symbols_of
from dimsolve.solver.algebra.evaluation import names_of, predicate_of
from dimsolve.solver.algebra.poly import Dim, TooLarge
from dimsolve.solver.proof.facts import read_facts
from dimsolve.solver.proof.prove import prove
from dimsolve.solver.shapes import dim_of_text

from .mesh import part_symbol
from .plan_data import Axis, PlanData, PlanError, problem
from .reshard import item_bytes

TRIES = 4096
"""So many sizes are tried for an example."""

MISSING = problem(
    "no-size",
    "a size is missing",
    "{claim} needs a size for {missing}; the symbols of the plan are {symbols}",
    "write {call}",
)
FOUND = problem(
    "no-size",
    "a length is known only when the model runs",
    "no size is given for {missing}, which the values of a tensor decide",
    "say how long it is, {call}",
)
BROKEN = problem(
    "broken-condition",
    "the plan does not hold at these sizes",
    "it needs {claim} ({reason}), and {values}",
    "the plan serves all sizes with {conditions}",
)
NOT_SIZES = problem(
    "not-sizes",
    "these are no sizes",
    "{given:.60} is a {kind}, not a mapping from symbols to sizes",
    "write {call}",
)
TWICE = problem(
    "size-twice", "a size is given twice", "'{name}' is in the mapping and a keyword too"
)
UNKNOWN = problem(
    "no-such-symbol",
    "the plan has no such symbol",
    "'{name}' is none; its symbols are {symbols}",
    "{hint}",
)
NO_SIZE = problem(
    "not-a-size",
    "this is not a size",
    "{name} = {size:.60}",
    "a size is a whole number, {least} or more",
)
NO_VALUE = problem("no-value", "the plan has no value at these sizes", "{claim} has none{at}")


def essential(conditions: Iterable[str], facts: Iterable[str | Relation] = ()) -> list[str]:
    """Returns the conditions without those that follow from the others and the facts.

    >>> essential(["batch*seq % 2 == 0", "batch % 2 == 0"])
    ['batch % 2 == 0']
    """
    kept = list(dict.fromkeys(conditions))
    given = list(facts)
    for claim in sorted(kept, key=lambda text: (-len(text), text)):
        others = [each for each in kept if each != claim]
        try:
            if prove(claim, facts=read_facts([*given, *others])).verdict == "proved":
                kept = others
        except DimsolveError:
            # Facts that contradict each other prove nothing; a run refuses the first that fails.
            continue
    return kept


def check_conditions(
    plan: PlanData, sizes: Mapping[str, int], method: str = "check", *, complete: bool = True
) -> None:
    """Raises PlanError for the first condition of the plan, or fact that it was made under, that
    does not hold at these sizes.

    method: which of the plan's is called, for errors. complete: whether a size that a condition
    needs may not be missing. Symbols that no caller gives are known when it runs, and not before.
    """
    for text, reason in _claims(plan):
        relation = read_relation(text)
        names = names_of(relation.left) | names_of(relation.right)
        if names <= sizes.keys():
            if predicate_of(relation)(sizes) is not True:
                values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(names))
                raise BROKEN(
                    claim=shown(text, 120),
                    reason=shown(reason, 120),
                    values=values or "it never holds",
                    conditions=" and ".join(dict.fromkeys([*plan.conditions, *plan.facts])),
                )
        elif complete and names <= set(plan.symbols):
            raise _missing(plan, text, names - sizes.keys(), sizes, method)


def _claims(plan: PlanData) -> Iterator[tuple[str, str]]:
    """The conditions with their reasons, and the facts."""
    for text in plan.conditions:
        yield text, plan.reasons.get(text, "the graph")
    for text in plan.facts:
        yield text, "a fact of the graph"


def _missing(
    plan: PlanData, text: str, names: Iterable[str], given: Mapping[str, int], method: str
) -> PlanError:
    claim, missing = shown(text, 120), ", ".join(sorted(names))
    found = sorted(set(names) - set(plan.symbols))
    if found:
        known = {**given, **dict.fromkeys(found, 1)}
        return FOUND(missing=missing, call=example_call(plan, known, method))
    call = example_call(plan, given, method)
    return MISSING(
        claim=claim, missing=missing, symbols=", ".join(plan.symbols) or "none", call=call
    )


def found_symbols(plan: PlanData) -> list[str]:
    """Returns the lengths that are known only when the model runs, as values of tensors decide
    them: how many elements of a mask are true.
    """
    texts = {
        text
        for operator in plan.operators
        for value in operator.outputs
        for text in value.shape or ()
        if text is not None
    }
    ranks = {part_symbol(axis) for axis in plan.mesh}
    used = {name for text in texts for name in symbols_of(dim_of_text(text))}
    return sorted(used - ranks - set(plan.symbols))


def example_call(plan: PlanData, given: Mapping[str, int], method: str) -> str:
    """Returns a call of a method that works: with sizes for all symbols of the plan, those that are
    given and the smallest others that its conditions allow.

    method: the name of one that takes sizes, such as ``memory``.
    """
    tests = [predicate_of(read_relation(text)) for text, _ in _claims(plan)]
    names = [name for name in plan.symbols if name not in given]
    choices = (dict(zip(names, each, strict=True)) for each in _small(len(names)))
    for chosen in islice(choices, TRIES):
        sizes = {**given, **{name: given.get(name, chosen.get(name, 1)) for name in plan.symbols}}
        if all(_holds(test, sizes) for test in tests):
            listed = ", ".join(f'"{name}": {size}' for name, size in sizes.items())
            return f"plan.{method}({{{listed}}})"
    return f"plan.{method}({{...}}) with sizes for {', '.join(plan.symbols)}"


def _small(count: int) -> Iterator[tuple[int, ...]]:
    """Tuples of small sizes, the smaller first."""
    yield from product(range(1, 9), repeat=count) if count <= 3 else ()
    for size in range(1, TRIES):
        yield (size,) * count


def _holds(test: Callable[[Mapping[str, int]], bool | None], sizes: Mapping[str, int]) -> bool:
    try:
        return test(sizes) is True
    except KeyError:
        return True  # a symbol in it is known only when it runs


def read_sizes(plan: PlanData, sizes: Any, named: Mapping[str, Any], method: str) -> dict[str, int]:
    """Returns the sizes of symbols from a mapping, from keywords, or from both.

    method: which of the plan's is called, for errors. Raises PlanError for what is no mapping, for
    symbols that the plan has not, and for what is no size.
    """
    given = {} if sizes is None else sizes
    if not isinstance(given, Mapping):
        call = example_call(plan, {}, method)
        raise NOT_SIZES(given=repr(given), kind=type(given).__name__, call=call)
    twice = next((name for name in named if name in given), None)
    if twice is not None:
        raise TWICE(name=shown(twice))
    sizes, symbols = {**given, **named}, plan.symbols
    if not sizes.keys() <= set(symbols):
        symbols = [*symbols, *found_symbols(plan)]
    return read_sizes_of(symbols, sizes)


def read_sizes_of(symbols: Collection[str], sizes: Mapping[str, Any]) -> dict[str, int]:
    """Returns the sizes of symbols. Raises PlanError for other symbols, and for what is no size."""
    return {name: _read(symbols, name, size) for name, size in sizes.items()}


def _read(symbols: Collection[str], name: str, size: Any) -> int:
    if name not in symbols:
        close = nearest(name, symbols) if isinstance(name, str) else None
        hint = f"did you mean '{close}'?" if close else ""
        raise UNKNOWN(name=shown(str(name)), symbols=", ".join(symbols) or "none", hint=hint)
    return read_size(name, size)


def read_size(name: str, size: Any, least: int = 0) -> int:
    """Returns a size. Raises PlanError for what is no whole number, or less than the least.

    >>> read_size("batch", 4)
    4
    """
    try:
        number = index(size)
    except TypeError:
        raise NO_SIZE(name=name, size=repr(size), least=least) from None
    if isinstance(size, bool) or number < least:
        raise NO_SIZE(name=name, size=repr(size), least=least)
    return number


class Sizes:
    """Evaluates the expressions of one plan, each once. ``mesh``: the sizes of its axes.

    given, named: as the caller gives them to ``method``. Raises PlanError where they cannot be
    read, or break a condition of the plan.
    """

    def __init__(self, plan: PlanData, given: Any, named: Mapping[str, Any], method: str) -> None:
        self.plan = plan
        self.sizes = read_sizes(plan, given, named, method)
        self.method = method
        check_conditions(plan, self.sizes, method)
        self._known: dict[str, int] = {}
        # Of unequal parts the first is the longest: what is said is true of all ranks, from above.
        self._first = {part_symbol(axis): 1 for axis in plan.mesh}
        self.mesh: dict[Axis, int] = {axis: self.of(size) for axis, size in plan.mesh.items()}

    def of(self, text: str) -> int:
        """Returns the value of an expression; PlanError for a symbol without a size."""
        if text not in self._known:
            dim: Dim = dim_of_text(text)
            missing = symbols_of(dim) - self.sizes.keys() - self._first.keys()
            if missing:
                raise _missing(self.plan, text, missing, self.sizes, self.method)
            try:
                self._known[text] = evaluate(dim, {**self._first, **self.sizes})
            except (ZeroDivisionError, TooLarge):
                at = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
                raise NO_VALUE(claim=shown(text), at=f" at {at}" if at else "") from None
        return self._known[text]

    def bytes(self, shape: Sequence[str | None] | None, dtype: str | None) -> int:
        """Returns the bytes of a tensor; 0 where its shape is not known."""
        if shape is None or None in shape:
            return 0
        return prod(self.of(text) for text in shape if text is not None) * item_bytes(dtype)
