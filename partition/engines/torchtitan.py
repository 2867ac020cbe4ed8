"""A plan as torchtitan's ``ShardingConfig``s: how a module's parameters lie, and what is converted
at its boundary.

    q_proj      weight S(0)      input I -> R (its gradient is summed)      output S(-1)
    o_proj      weight S(1)      input as it comes                          output P -> I
    norm        weight I

I: the same on every rank, and so is its gradient; R: the same, and the gradient is a sum over the
ranks. torchtitan (0.3, ``spmd_backend="spmd_types"``) runs the model's own code on what a rank has,
converts where a configuration says so, and asks a placement for every parameter, also for one that
is whole. It has one placement for a tensor and axis: no blocks, no segments; a bias is added before
a sum, and its embedding looks up parts of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..plan_data import PlanData
from .tp_plan import generic
from .write import CANNOT_SAY, write

WEIGHTS: Mapping[str, Mapping[str, str]] = {
    "colwise": {"weight": "S(0)", "bias": "S(0)"},
    "colwise_gather_output": {"weight": "S(0)", "bias": "S(0)"},
    "rowwise": {"weight": "S(1)"},
    "rowwise_split_input": {"weight": "S(1)"},
    "embedding_rowwise": {"weight": "S(0)"},
}
"""Where parameters lie, by style; all others are I."""

_COLUMNS = {"in_src_shardings": "I", "in_dst_shardings": "R", "out_src_shardings": "S(-1)"}
_SUM = {"out_src_shardings": "P", "out_dst_shardings": "I"}
BOUNDARIES: Mapping[str, Mapping[str, str]] = {
    "colwise": _COLUMNS,
    "colwise_gather_output": {**_COLUMNS, "out_dst_shardings": "I"},
    "rowwise": _SUM,
    "rowwise_split_input": {"in_src_shardings": "I", "in_dst_shardings": "S(-1)", **_SUM},
    "embedding_rowwise": {"in_src_shardings": "R", "in_dst_shardings": "R", **_SUM},
}
"""What enters and leaves, by style."""

NO_WORD: Mapping[str, str] = {
    "packed_colwise": "a rank has one part of a tensor there, and packed_colwise has two",
    "embedding_colwise": "torchtitan's embedding looks up parts of rows, and it is cut in columns",
    "replicated_with_grad_allreduce": "nothing sums the gradient of what is whole",
}


@dataclass(frozen=True, slots=True)
class TorchTitan:
    """What torchtitan's modules take. states: placements of all parameters, by the names of modules
    and parameters; boundaries: of inputs (``input``) and outputs, by the names of modules. All are
    along torchtitan's axis ``tp``.
    """

    states: Mapping[str, Mapping[str, str]]
    boundaries: Mapping[str, Mapping[str, str]]

    @property
    def text(self) -> str:
        """The configurations as Python text, by the names of modules."""
        lines = [
            "import spmd_types as spmd",
            "from torchtitan.distributed.parallel_dims import MeshAxisName, SpmdLayout",
            "from torchtitan.protocols.sharding import ShardingConfig",
            "",
            "TP = MeshAxisName.TP",
            "CONFIGS = {",
        ]
        for module, states in self.states.items():
            lines.append(f'    "{module}": ShardingConfig(')
            own = ", ".join(f'"{name}": {_layout(word)}' for name, word in states.items())
            lines.append(f"        state_shardings={{{own}}},")
            for key, word in self.boundaries.get(module, {}).items():
                given = f'{{"input": {_layout(word)}}}' if key.startswith("in_") else _layout(word)
                lines.append(f"        {key}={given},")
            lines.append("    ),")
        return "\n".join([*lines, "}", ""])

    def objects(self) -> dict[str, Any]:
        """Returns torchtitan's ``ShardingConfig`` by the names of modules, ``*`` for a number.
        torchtitan must be installed.
        """
        from importlib import import_module

        spmd = import_module("spmd_types")
        dims = import_module("torchtitan.distributed.parallel_dims")
        config = import_module("torchtitan.protocols.sharding").ShardingConfig
        axis = dims.MeshAxisName.TP
        words = {
            "I": spmd.I,
            "R": spmd.R,
            "P": spmd.P,
            "S(0)": spmd.S(0),
            "S(1)": spmd.S(1),
            "S(-1)": spmd.S(-1),
        }
        found: dict[str, Any] = {}
        for module, states in self.states.items():
            given: dict[str, Any] = {
                "state_shardings": {n: dims.SpmdLayout({axis: words[w]}) for n, w in states.items()}
            }
            for key, word in self.boundaries.get(module, {}).items():
                layout = dims.SpmdLayout({axis: words[word]})
                given[key] = {"input": layout} if key.startswith("in_") else layout
            found[module] = config(**given)
        return found

    def apply(self, model: Any) -> Any:
        """Returns the model, of torchtitan's modules, with the configurations set on them;
        ``model.parallelize(parallel_dims)`` cuts it then. Raises PlanError for a module that is
        none of torchtitan's, and for a buffer, which a plan does not place.
        """
        configs = self.objects()
        for name, module in model.named_modules():
            config = configs.get(generic(name))
            if config is None:
                continue
            if not hasattr(type(module), "parallelize"):
                kind = type(module).__name__
                reason = f"it is of type {kind}, and only torchtitan's Module has a configuration"
                raise CANNOT_SAY(format="ShardingConfigs", operator=name, reason=reason)
            buffers = [short for short, _ in module.named_buffers(recurse=False)]
            if buffers:
                reason = f"it has the buffer {buffers[0]}, which a plan does not place"
                raise CANNOT_SAY(format="ShardingConfigs", operator=name, reason=reason)
            module._sharding_config = config
        return model

    def __str__(self) -> str:
        return self.text


def _layout(word: str) -> str:
    return f"SpmdLayout({{TP: spmd.{word}}})"


def to_torchtitan(plan: PlanData, axis: str | None = None) -> TorchTitan:
    """Returns torchtitan's configurations of a plan. Raises PlanError for what they cannot say."""
    found = write(plan, axis)
    for refused in found.refused:
        raise CANNOT_SAY(format="ShardingConfigs", operator=refused.operator, reason=refused.reason)
    for name, other in found.ties.items():
        reason = f"it is {other}, and torchtitan makes two parameters of it"
        raise CANNOT_SAY(format="ShardingConfigs", operator=name, reason=reason)
    own = [each.name for each in plan.parameters]
    for name, style in found.styles.items():
        reason = NO_WORD.get(style, "")
        if style.startswith("rowwise") and f"{name}.bias" in map(generic, own):
            reason = "its bias would be added by every rank, before the sum"
        if reason:
            raise CANNOT_SAY(format="ShardingConfigs", operator=name, reason=reason)
    states: dict[str, dict[str, str]] = {}
    for name in own:
        module, _, short = generic(name).rpartition(".")
        words = WEIGHTS.get(found.styles.get(module, ""), {})
        states.setdefault(module, {})[short] = words.get(short, "I")
    boundaries = {name: BOUNDARIES[style] for name, style in found.styles.items()}
    return TorchTitan(states, boundaries)
