"""What a plan relies on: conditions that say no more than they must, checked at real sizes.

batch % 2 == 0, batch*seq % 2 == 0              the second follows from the first
4096 % n == 0, 32 % n == 0, 8 % n == 0          the first two follow from the last
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_expression import read_relation
from dimsolve.solver.algebra.evaluation import names_of, predicate_of
from dimsolve.solver.proof.prove import prove

from .plan import Plan
from .plan_errors import plan_error


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


def check_conditions(plan: Plan, sizes: Mapping[str, int]) -> None:
    """Raises PlanError for the first condition that does not hold at these sizes.

    A condition on a symbol without a size is not checked.
    """
    for text in plan.conditions:
        relation = read_relation(text)
        names = names_of(relation.left) | names_of(relation.right)
        if names <= sizes.keys() and predicate_of(relation)(sizes) is not True:
            values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(names))
            raise plan_error(
                "broken-condition",
                "the plan does not hold at these sizes",
                f"it needs {text} ({plan.reasons.get(text, 'the graph')}), and {values}",
                f"the plan serves all sizes with {' and '.join(plan.conditions)}",
            )
