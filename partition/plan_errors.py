"""Plans that cannot be made, or do not fit: refused before anything runs, with the reason."""

from __future__ import annotations

from dimsolve.ir.errors import Diagnostic, DimsolveError

from .legality import Legality


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
