"""Plans that cannot be made, or do not fit: refused before anything runs, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from dimsolve.ir.errors import Diagnostic, DimsolveError
from dimsolve.ir.excerpt import shown

from .legality import Legality

PLAN_AGAIN = "make the plan anew: dimsolve.plan(graph, mesh, policy)"


class PlanError(DimsolveError):
    """A plan that cannot be made, read or used. ``legality``: the answer that forbids it, where a
    split is to blame.
    """

    __module__ = "dimsolve"

    legality: Legality | None = None


def plan_error(
    code: str,
    title: str,
    reason: str,
    hint: str = "",
    *,
    text: str = "",
    legality: Legality | None = None,
) -> PlanError:
    """Returns the error with its diagnostic."""
    error = PlanError(Diagnostic(code, title, text=text, reason=reason, hint=hint))
    error.legality = legality
    return error


def follows_not(reason: str) -> PlanError:
    """Returns the error for a plan that says something else than what follows from its graph."""
    return plan_error("not-derived", "the plan does not follow from its graph", reason, PLAN_AGAIN)


def not_a_plan(reason: str, place: Sequence[str | int] = ()) -> PlanError:
    """Returns the error for data that are no plan. place: where in them, as keys and indices."""
    where = ".".join(shown(str(part)) for part in place)
    reason = f"at {where}: {reason}" if where else reason
    return plan_error("not-a-plan", "this is not a plan", reason, "Plan.to_json writes one")


def no_plan(value: object) -> PlanError:
    """Returns the error for a value of another type where a plan is wanted."""
    return plan_error(
        "not-a-plan",
        "this is not a plan",
        f"{value!r:.60} is a {type(value).__name__}",
        "dimsolve.plan(graph, mesh, policy) makes one, Plan.from_json reads one",
    )
