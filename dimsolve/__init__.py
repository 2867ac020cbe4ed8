"""Symbolic shapes and provably legal partitions from one line of operator annotation.

    >>> import dimsolve as ds
    >>> ds.infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 8}).outputs
    ((8, s, k),)
    >>> ds.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8).conditions
    ('k % 8 == 0',)

The public names are loaded when they are first used: importing dimsolve loads neither torch nor
SymPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dimsolve.api.client import Client, ServiceError
    from dimsolve.exec.capture.errors import TraceError
    from dimsolve.exec.capture.trace import trace
    from dimsolve.exec.engines.audit import Audit, audit
    from dimsolve.exec.graph import Graph
    from dimsolve.exec.parallel.parallelize import parallelize
    from dimsolve.exec.parallel.whole_steps import steps_on_wholes
    from dimsolve.exec.registration.register import register_op
    from dimsolve.exec.verification.verification import Verification
    from dimsolve.exec.verification.verify import verify
    from dimsolve.ir.annotation import Annotation
    from dimsolve.ir.errors import (
        AnnotationError,
        Diagnostic,
        DimsolveError,
        GraphError,
        OperatorError,
        ShapeError,
    )
    from dimsolve.ir.read_annotation import read_annotation as parse
    from dimsolve.partition.break_even import BestRegion, BreakEven, best_region, break_even
    from dimsolve.partition.engines.operators import to_register_sharding, to_shardy
    from dimsolve.partition.layout import Held, held
    from dimsolve.partition.legality import (
        Legality,
        LegalParts,
        MeshLegality,
        check,
        check_mesh,
        legal_parts,
    )
    from dimsolve.partition.machine import Machine, MachineError
    from dimsolve.partition.mesh import MeshError
    from dimsolve.partition.plan import Plan, plan
    from dimsolve.partition.plan_data import PlanError
    from dimsolve.partition.rules.rule import Message, TransformRule
    from dimsolve.solver.calls import infer
    from dimsolve.solver.proof.prove import prove
    from dimsolve.solver.proof.verdict import Proof
    from dimsolve.solver.solution import Solution
    from dimsolve.widget.explore import explore


__all__ = [
    "Annotation",
    "AnnotationError",
    "Audit",
    "BestRegion",
    "BreakEven",
    "Client",
    "Diagnostic",
    "DimsolveError",
    "Graph",
    "GraphError",
    "Held",
    "LegalParts",
    "Legality",
    "Machine",
    "MachineError",
    "MeshError",
    "MeshLegality",
    "Message",
    "OperatorError",
    "Plan",
    "PlanError",
    "Proof",
    "ServiceError",
    "ShapeError",
    "Solution",
    "TraceError",
    "TransformRule",
    "Verification",
    "audit",
    "best_region",
    "break_even",
    "check",
    "check_mesh",
    "explore",
    "held",
    "infer",
    "legal_parts",
    "parallelize",
    "parse",
    "plan",
    "prove",
    "register_op",
    "steps_on_wholes",
    "to_register_sharding",
    "to_shardy",
    "trace",
    "verify",
]

_HOMES = {
    "Annotation": ("dimsolve.ir.annotation", "Annotation"),
    "AnnotationError": ("dimsolve.ir.errors", "AnnotationError"),
    "Audit": ("dimsolve.exec.engines.audit", "Audit"),
    "BestRegion": ("dimsolve.partition.break_even", "BestRegion"),
    "BreakEven": ("dimsolve.partition.break_even", "BreakEven"),
    "Client": ("dimsolve.api.client", "Client"),
    "Diagnostic": ("dimsolve.ir.errors", "Diagnostic"),
    "DimsolveError": ("dimsolve.ir.errors", "DimsolveError"),
    "Graph": ("dimsolve.exec.graph", "Graph"),
    "GraphError": ("dimsolve.ir.errors", "GraphError"),
    "Held": ("dimsolve.partition.layout", "Held"),
    "LegalParts": ("dimsolve.partition.legality", "LegalParts"),
    "Legality": ("dimsolve.partition.legality", "Legality"),
    "Message": ("dimsolve.partition.rules.rule", "Message"),
    "MeshLegality": ("dimsolve.partition.legality", "MeshLegality"),
    "Machine": ("dimsolve.partition.machine", "Machine"),
    "MachineError": ("dimsolve.partition.machine", "MachineError"),
    "MeshError": ("dimsolve.partition.mesh", "MeshError"),
    "OperatorError": ("dimsolve.ir.errors", "OperatorError"),
    "Plan": ("dimsolve.partition.plan", "Plan"),
    "PlanError": ("dimsolve.partition.plan_data", "PlanError"),
    "Proof": ("dimsolve.solver.proof.verdict", "Proof"),
    "ServiceError": ("dimsolve.api.client", "ServiceError"),
    "ShapeError": ("dimsolve.ir.errors", "ShapeError"),
    "Solution": ("dimsolve.solver.solution", "Solution"),
    "TraceError": ("dimsolve.exec.capture.errors", "TraceError"),
    "TransformRule": ("dimsolve.partition.rules.rule", "TransformRule"),
    "Verification": ("dimsolve.exec.verification.verification", "Verification"),
    "audit": ("dimsolve.exec.engines.audit", "audit"),
    "best_region": ("dimsolve.partition.break_even", "best_region"),
    "break_even": ("dimsolve.partition.break_even", "break_even"),
    "check_mesh": ("dimsolve.partition.legality", "check_mesh"),
    "check": ("dimsolve.partition.legality", "check"),
    "explore": ("dimsolve.widget.explore", "explore"),
    "held": ("dimsolve.partition.layout", "held"),
    "infer": ("dimsolve.solver.calls", "infer"),
    "legal_parts": ("dimsolve.partition.legality", "legal_parts"),
    "parallelize": ("dimsolve.exec.parallel.parallelize", "parallelize"),
    "parse": ("dimsolve.ir.read_annotation", "read_annotation"),
    "plan": ("dimsolve.partition.plan", "plan"),
    "prove": ("dimsolve.solver.proof.prove", "prove"),
    "register_op": ("dimsolve.exec.registration.register", "register_op"),
    "steps_on_wholes": ("dimsolve.exec.parallel.whole_steps", "steps_on_wholes"),
    "to_register_sharding": ("dimsolve.partition.engines.operators", "to_register_sharding"),
    "to_shardy": ("dimsolve.partition.engines.operators", "to_shardy"),
    "verify": ("dimsolve.exec.verification.verify", "verify"),
    "trace": ("dimsolve.exec.capture.trace", "trace"),
}
"""Public name -> the module it lives in and its name there."""


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used (PEP 562); then it is an ordinary attribute."""
    if name == "__version__":
        from importlib.metadata import version

        return version("dimsolve")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
