"""What torch had to decide about sizes while it captured a model, as conditions of the graph.

A line such as ``if x.shape[1] > 1`` is taken one way in a capture. torch records the decision and
the line as a guard; the graph holds for the sizes that go the same way, and says so: ``seq >= 2``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dimsolve.ir.errors import Diagnostic, ShapeError
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.graphs.graph_problems import claim_contradicts
from dimsolve.solver.graphs.system import Contradiction, System

from .capture_errors import TraceError
from .torch_dims import NotExpressible, TorchDims

KERNELS = (
    "_dynamo/utils.py",
    "_subclasses/",
    "_meta_registrations.py",
    "_prims",
    "_refs/",
    "_decomp/",
)
"""Files of torch in which a kernel's stand-in decides how it lays out memory."""


class Guards:
    """The guards of one capture. ``of_torch`` are those that only torch's own kernels made.

    A kernel compares sizes to choose strides: ``batch < 16`` for a convolution. What it computes
    does not depend on that, so these count only where shapes are torch's and not our own. Equations
    always count.
    """

    def __init__(self, nodes: list[Any], dims: TorchDims, system: System) -> None:
        self.dims = dims
        self.system = system
        guards = list(getattr(_shape_environment(nodes), "guards", ()))
        self.of_torch = [guard for guard in guards if _of_a_kernel(guard)]
        self.of_the_model = [guard for guard in guards if not _of_a_kernel(guard)]

    def require(self, guards: list[Any]) -> None:
        """Adds guards to what is known.

        Raises ShapeError where they contradict each other, TraceError for one that is no condition
        on lengths.
        """
        for guard in guards:
            origin = _guard_origin(guard)
            try:
                claims = self.dims.claims(guard.expr)
            except NotExpressible as error:
                raise _inexpressible(guard.expr, origin) from error
            for claim in claims:
                try:
                    self.system.require(claim, origin)
                except Contradiction as contradiction:
                    raise claim_contradicts(contradiction) from None


def _of_a_kernel(guard: Any) -> bool:
    frame = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    filename = str(getattr(frame, "filename", "")).partition("/torch/")[2]
    equation = type(guard.expr).__name__ in ("Equality", "Or", "And")
    return not equation and filename.startswith(KERNELS)


def _shape_environment(nodes: list[Any]) -> Any:
    """torch's record of symbolic sizes, which every fake tensor knows."""
    for node in nodes:
        mode = getattr(node.meta.get("example_value"), "fake_mode", None)
        if mode is not None:
            return mode.shape_env
    return None


def _guard_origin(guard: Any) -> str:
    """The line of the model that made torch decide, as torch's record of it says."""
    location = str(getattr(getattr(guard, "sloc", None), "maybe_user_loc", "") or "")
    code, _, place = location.partition("  # ")
    if not place:
        return "torch's capture"
    filename, _, line = place.partition(" in ")[0].rpartition(":")
    if not any((Path(home) / filename).is_file() for home in sys.path):
        filename = Path(filename).name  # torch has cut off its beginning
    return f"{filename}:{line}: {code.strip()}"


def specialised(name: str, index: int, dim: Dim, size: Any) -> ShapeError:
    """A dimension was to be dynamic, and the model fixes it: says where."""
    node = getattr(size, "node", None)
    symbol = getattr(node, "_expr", None)
    guards = getattr(getattr(node, "shape_env", None), "guards", ())
    lines = [_guard_origin(guard) for guard in guards if symbol in guard.expr.free_symbols]
    return ShapeError(
        Diagnostic(
            code="specialised",
            title=f"{name} dim {index} cannot be dynamic in this model",
            reason="\n  ".join([f"it was to be {dim}, and its capture fixes it at {size}", *lines]),
            hint="leave the dimension out of dynamic, or change the line that fixes its size",
        )
    )


def _inexpressible(expression: Any, origin: str) -> TraceError:
    return TraceError(
        Diagnostic(
            code="guard",
            title="torch's capture depends on sizes in a way that is no condition on lengths",
            reason=f"{expression} ({origin})",
        )
    )
