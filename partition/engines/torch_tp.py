"""A plan for torch's ``parallelize_module``: as Python text, and as the objects themselves.

    parallelize_module(
        model,
        mesh["tp"],
        {
            "model.layers.*.self_attn.q_proj": ColwiseParallel(),
            "model.layers.*.self_attn.o_proj": RowwiseParallel(),
            "lm_head": ColwiseParallel(output_layouts=Replicate()),
        },
    )

A table says what each style of a ``tp_plan`` is there; what has no entry is refused. Of a weight
that two modules share `parallelize_module` makes two, each with its own gradient: they are tied
again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..plan_data import PlanData
from .write import CANNOT_SAY, write

ARGUMENTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "colwise": ("ColwiseParallel", {}),
    "colwise_gather_output": ("ColwiseParallel", {"output_layouts": "Replicate"}),
    "rowwise": ("RowwiseParallel", {}),
    "rowwise_split_input": ("RowwiseParallel", {"input_layouts": "Replicate"}),
    "embedding_rowwise": ("RowwiseParallel", {"input_layouts": "Replicate"}),
    "embedding_colwise": ("ColwiseParallel", {"output_layouts": "Replicate"}),
}
"""The class and its arguments, by style."""


@dataclass(frozen=True, slots=True)
class ParallelizeModule:
    """What `parallelize_module` takes. ``styles``: of a ``tp_plan``, by the names of modules;
    ``axis``: of the mesh; ``ties``: parameters that are another's, by their names.
    """

    styles: Mapping[str, str]
    axis: str = "tp"
    ties: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """A call of `parallelize_module` as Python text."""
        used = sorted({ARGUMENTS[style][0] for style in self.styles.values()})
        layouts = any(ARGUMENTS[style][1] for style in self.styles.values())
        lines = ["from torch.distributed.tensor import Replicate"] if layouts else []
        lines.append("from torch.distributed.tensor.parallel import (")
        lines += [f"    {name}," for name in (*used, "parallelize_module")]
        lines += [
            ")",
            "",
            "parallelize_module(",
            "    model,",
            f'    mesh["{self.axis}"],',
            "    {",
        ]
        for name, style in self.styles.items():
            cls, arguments = ARGUMENTS[style]
            given = ", ".join(f"{key}={value}()" for key, value in arguments.items())
            lines.append(f'        "{name}": {cls}({given}),')
        lines += ["    },", ")"]
        for name, other in self.ties.items():
            (to, short), (source, own) = _place(name), _place(other)
            lines.append(f"{to}.{short} = {source}.{own}  # one again: two were made of it")
        return "\n".join([*lines, ""])

    def apply(self, model: Any, mesh: Any) -> Any:
        """Returns the model with its parameters cut over a mesh of this axis."""
        from torch.distributed.tensor.parallel import parallelize_module

        cut = parallelize_module(model, mesh, self._objects())
        for name, other in self.ties.items():
            (to, _, short), (source, _, own) = name.rpartition("."), other.rpartition(".")
            setattr(cut.get_submodule(to), short, getattr(cut.get_submodule(source), own))
        return cut

    def objects(self) -> dict[str, Any]:
        """Returns the styles as objects of torch, by the names of modules. Raises PlanError where
        parameters are tied, which these do not say.
        """
        for name, other in self.ties.items():
            reason = f"it is {other}, and parallelize_module makes two of it: use .apply or .text"
            raise CANNOT_SAY(format="objects alone", operator=name, reason=reason)
        return self._objects()

    def _objects(self) -> dict[str, Any]:
        import torch.distributed.tensor as dt
        from torch.distributed.tensor import parallel

        found: dict[str, Any] = {}
        for name, style in self.styles.items():
            cls, arguments = ARGUMENTS[style]
            given = {key: getattr(dt, value)() for key, value in arguments.items()}
            found[name] = getattr(parallel, cls)(**given)
        return found

    def __str__(self) -> str:
        return self.text


def _place(name: str) -> tuple[str, str]:
    """A parameter's module, as Python text, and its name there."""
    module, _, short = name.rpartition(".")
    return f'model.get_submodule("{module}")', short


def to_parallelize_module(plan: PlanData, axis: str | None = None) -> ParallelizeModule:
    """Returns what `parallelize_module` takes. Raises PlanError for what it cannot say."""
    found = write(plan, axis)
    for refused in found.refused:
        raise CANNOT_SAY(
            format="parallelize_module", operator=refused.operator, reason=refused.reason
        )
    for name, style in found.styles.items():
        if style not in ARGUMENTS:
            reason = f"torch.distributed.tensor.parallel has no style for {style}"
            raise CANNOT_SAY(format="parallelize_module", operator=name, reason=reason)
    return ParallelizeModule(found.styles, axis or next(iter(plan.mesh)), found.ties)
