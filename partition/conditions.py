"""What a plan relies on: conditions that say no more than they must, checked at real sizes.

batch % 2 == 0, batch*seq % 2 == 0              the second follows from the first
4096 % n == 0, 32 % n == 0, 8 % n == 0          the first two follow from the last
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.excerpt import shown
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.algebra.evaluation import names_of, predicate_of
from dimsolve.solver.proof.prove import prove

from .plan import Plan
from .plan_errors import PlanError, plan_error

TRIES = 4096
"""So many sizes are tried for an example."""


def essential(conditions: Iterable[str], facts: Iterable[str | Relation] = ()) -> list[str]:
    """Returns the conditions without those that follow from the others and the facts.

    >>> essential(["batch*seq % 2 == 0", "batch % 2 == 0"])
    ['batch % 2 == 0']
    """
    kept = list(dict.fromkeys(conditions))
    given = list(facts)
    for claim in sorted(kept, key=lambda text: (-len(text), text)):
        others = [each for each in kept if each != claim]
        if _follows(claim, [*given, *others]):
            kept = others
    return kept


def _follows(claim: str, facts: list[str | Relation]) -> bool:
    try:
        return prove(claim, facts=facts).verdict == "proved"
    except DimsolveError:
        # Facts that contradict each other prove nothing here; a run refuses the first that fails.
        return False


def check_conditions(
    plan: Plan, sizes: Mapping[str, int], method: str = "check", *, complete: bool = True
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
                raise _broken(plan, text, reason, {name: sizes[name] for name in sorted(names)})
        elif complete and names <= set(plan.symbols):
            raise missing_size(plan, text, names - sizes.keys(), sizes, method)


def missing_size(
    plan: Plan, text: str, missing: Iterable[str], given: Mapping[str, int], method: str
) -> PlanError:
    """Returns the error for an expression of the plan that has no value without some sizes."""
    symbols = ", ".join(plan.symbols) or "none"
    return plan_error(
        "no-size",
        "a size is missing",
        f"{shown(text, 120)} needs a size for {', '.join(sorted(missing))}; the symbols of the "
        f"plan are {symbols}",
        f"write {example_call(plan, given, method)}",
    )


def example_call(plan: Plan, given: Mapping[str, int], method: str) -> str:
    """Returns a call of a method that works: with sizes for all symbols of the plan, those that are
    given and the smallest others that its conditions allow.

    method: the name of one that takes sizes, such as ``memory``.
    """
    tests = [predicate_of(read_relation(text)) for text, _ in _claims(plan)]
    names = [name for name in plan.symbols if name not in given]
    choices = (dict(zip(names, each, strict=True)) for each in _small(len(names)))
    for chosen in islice(choices, TRIES):
        sizes = {name: given.get(name, chosen.get(name, 1)) for name in plan.symbols}
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
        # It speaks of a symbol that is known only when it runs.
        return True


def _claims(plan: Plan) -> Iterator[tuple[str, str]]:
    """The conditions with their reasons, and the facts."""
    for text in plan.conditions:
        yield text, plan.reasons.get(text, "the graph")
    for text in plan.facts:
        yield text, "a fact of the graph"


def _broken(plan: Plan, text: str, reason: str, values: Mapping[str, int]) -> PlanError:
    listed = ", ".join(f"{name} = {size}" for name, size in values.items()) or "it never holds"
    every = dict.fromkeys([*plan.conditions, *plan.facts])
    return plan_error(
        "broken-condition",
        "the plan does not hold at these sizes",
        f"it needs {shown(text, 120)} ({shown(reason, 120)}), and {listed}",
        f"the plan serves all sizes with {' and '.join(every)}",
    )
