"""How results look: pictures (SVG), typeset mathematics (LaTeX) and text for terminals.

    renderer(Annotation, "svg")      `dimsolve.show.annotation.annotation_svg`
    renderer(Solution, "latex")      `dimsolve.show.solution.solution_tex`

One table says what renders which class; `dimsolve.ir.display` looks here when something is shown.
Classes stand by name, so that nothing is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

RENDERERS: dict[str, dict[str, str]] = {
    "dimsolve.exec.engines.audit.Audit": {
        "svg": "audit:audit_svg",
    },
    "dimsolve.exec.verification.verification.Verification": {
        "svg": "verification:verification_svg",
    },
    "dimsolve.ir.annotation.Annotation": {
        "rich": "terminal:annotation_text",
        "svg": "annotation:annotation_svg",
    },
    "dimsolve.ir.graph.Graph": {
        "pretty": "graph:graph_line",
        "rich": "graph:graph_view",
        "svg": "graph:graph_svg",
        "text": "graph:graph_text",
    },
    "dimsolve.partition.break_even.BreakEven": {
        "svg": "break_even:break_even_svg",
    },
    "dimsolve.partition.cost.Cost": {
        "pretty": "cost:cost_text",
        "svg": "cost:cost_svg",
        "text": "cost:cost_text",
    },
    "dimsolve.partition.layout.Held": {
        "pretty": "placement:held_lines",
        "rich": "placement:held_view",
        "svg": "placement:held_svg",
    },
    "dimsolve.partition.legality.LegalParts": {
        "rich": "terminal:legal_parts_view",
        "svg": "legality:legal_parts_svg",
    },
    "dimsolve.partition.legality.Legality": {
        "rich": "terminal:legality_view",
        "svg": "legality:legality_svg",
    },
    "dimsolve.partition.placement.Partial": {
        "svg": "placement:placement_svg",
    },
    "dimsolve.partition.placement.Replicate": {
        "svg": "placement:placement_svg",
    },
    "dimsolve.partition.placement.Shard": {
        "svg": "placement:placement_svg",
    },
    "dimsolve.partition.plan.Plan": {
        "pretty": "plan:summary",
        "rich": "plan:plan_view",
        "svg": "plan:plan_svg",
        "text": "plan:explain",
    },
    "dimsolve.partition.rules.rule.Rule": {
        "svg": "placement:rule_svg",
    },
    "dimsolve.partition.rules.rule.TransformRule": {
        "svg": "placement:transform_svg",
    },
    "dimsolve.solver.proof.verdict.Proof": {
        "rich": "terminal:proof_view",
        "svg": "solution:proof_svg",
    },
    "dimsolve.solver.solution.Solution": {
        "latex": "solution:solution_tex",
        "rich": "terminal:solution_view",
        "svg": "solution:solution_svg",
    },
}
"""By the class's path: the form, and ``module:function`` in this package."""


@lru_cache(maxsize=256)
def renderer(cls: type, form: str) -> Callable[[Any], Any] | None:
    """Returns the function that renders a class's values in one form, None where there is none.

    A subclass looks like its nearest base that is in the table.

    >>> from dimsolve.partition.placement import Shard
    >>> renderer(Shard, "svg").__name__
    'placement_svg'
    """
    for base in cls.__mro__:
        forms = RENDERERS.get(f"{base.__module__}.{base.__qualname__}")
        if forms is not None:
            if form not in forms:
                return None
            module, _, name = forms[form].partition(":")
            function: Callable[[Any], Any] = getattr(import_module(f"{__name__}.{module}"), name)
            return function
    return None
