"""`trace`: from a PyTorch model, or a function, to a graph in which every value has its symbolic
shape.

    names = {"input_ids": {0: "batch", 1: "seq"}}
    graph = ds.trace(model, kwargs={"input_ids": ids}, dynamic=names)
    graph.values["logits"].type        float32[batch, seq, 32000]

torch captures the calls (`dimsolve.exec.capture.capture`); their shapes come from our own solver,
and are compared with what torch's fake tensors say. A function without an annotation has torch's
shape, and one that is refuted by torch is taken for having none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..graph import Graph
from .capture import capture
from .dynamic import Dynamic
from .reader import Reader


def trace(
    model: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Dynamic | None = None,
) -> Graph:
    """Returns the graph of the torch functions that a call of the model makes, with symbolic
    shapes.

    args, kwargs: an example call; only shapes and dtypes of tensors matter. dynamic: the names of
    dynamic dimensions, by argument (`dimsolve.exec.capture.dynamic`); all others are fixed.
    Parameters may be on the meta device. Raises TraceError where the model is not one graph (what
    it does depends on data), with the line; ShapeError where its shapes contradict.
    """
    args = (args,) if _is_tensor(args) else tuple(args)
    captured = capture(model, args, kwargs or {}, dynamic)
    reader = Reader(captured, model)
    graph = reader.graph(_name_of(model))
    if reader.unannotated:
        _warn(reader.unannotated)
    return graph


def _is_tensor(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _name_of(model: Any) -> str:
    name = getattr(model, "__name__", None) or type(model).__name__
    return name if name.isidentifier() else "main"


def _warn(unannotated: Mapping[str, str]) -> None:
    listed = "; ".join(f"{path} ({why})" for path, why in sorted(unannotated.items()))
    warnings.warn(
        f"no annotation, so these are only ever replicated: {listed}. "
        "dimsolve.register_op gives a function of yours an annotation",
        stacklevel=3,
    )
