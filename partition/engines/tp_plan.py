"""A ``tp_plan``: the format in which transformers, vLLM and SGLang say how a model is cut.

    {"layers.*.self_attn.q_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise"}

A key is the name of a module or of a parameter, every number between dots written ``*``. A style
says where the module's parameters lie and what happens at its boundary, in the words of
transformers 5.23:

    style        weight, bias          input                     output
    colwise      S(out), S(0)          R, gradient all-reduced   S(-1), as it is
    rowwise      S(in), R              S(-1), as it is           all-reduced, then the bias

Between two such modules every rank runs the model's own code on what it has. Whether that is the
same as one device is asked in `dimsolve.exec.engines`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dimsolve.ir.errors import DimsolveError, Problem

from ..placement import Placement, Replicate, Shard

Entry: TypeAlias = Literal["", "share", "slice", "experts", "divide"]
Exit: TypeAlias = Literal["", "gather", "sum", "rope"]
Kind: TypeAlias = Literal["", "linear", "dtensor", "local"]
Cut: TypeAlias = Literal["", "out", "in", "rows", "columns", "out in 2", "in in 2", "first"]


@dataclass(frozen=True, slots=True)
class Style:
    """What a style does to one module.

    cut: which dimension of its parameters is cut. entry: what happens to its first input:
    ``share`` (all-reduce of the gradient), ``slice``, ``experts`` (shares the tokens and their
    weights), ``divide`` (by the number of ranks). exit: what happens to its output: ``gather``,
    ``sum``, or ``rope`` (the gradient of its last part is summed). summed: the gradients of its own
    parameters are summed over the ranks. needs: an attribute that the module must have. kind: what
    the module's code sees: its parameters' ``local`` parts; DTensors, the input too (``dtensor``;
    ``linear``: not so in a linear layer that records no gradients); else the parameters as they
    are.
    """

    cut: Cut = ""
    entry: Entry = ""
    exit: Exit = ""
    summed: bool = False
    needs: str = ""
    kind: Kind = ""

    def placement(self, name: str, ndim: int) -> Placement:
        """Returns where a parameter of this name lies: of a matrix, or of a stack of matrices."""
        last = ndim - 1
        match self.cut:
            case "out":
                return Shard(max(ndim - 2, 0))
            case "in":
                return Replicate() if name == "bias" else Shard(last)
            case "rows" | "first":
                return Shard(0)
            case "columns":
                return Shard(1)
            case "out in 2":
                return Shard(0) if ndim == 1 else Shard(ndim - 2, 2)
            case "in in 2":
                return Replicate() if ndim == 1 else Shard(last, 2)
            case _:
                return Replicate()


_GATHERED = Style("out", "share", "gather", needs="out_features", kind="linear")
_SLICED = Style("in", "slice", "sum", needs="in_features", kind="linear")

STYLES: Mapping[str, Style] = {
    "colwise": Style("out", "share", needs="out_features", kind="linear"),
    "colwise_gather_output": _GATHERED,
    "colwise_rep": _GATHERED,
    "rowwise": Style("in", "", "sum", needs="in_features", kind="linear"),
    "rowwise_split_input": _SLICED,
    "rowwise_rep": _SLICED,
    "embedding_rowwise": Style("rows", "", "sum", kind="dtensor"),
    "embedding_colwise": Style("columns", "", "gather", kind="dtensor"),
    "packed_colwise": Style("out in 2", "share", kind="local"),
    "packed_rowwise": Style("in in 2"),
    "sequence_parallel": Style(summed=True, kind="dtensor"),
    "replicated_with_grad_allreduce": Style(summed=True),
    "mla_kv_a_proj": Style("", "", "rope"),
    "all_reduce": Style("", "", "sum"),
    "moe_tp_experts": Style("", "experts", "sum", kind="local"),
    "moe_identity_expert": Style("", "divide"),
    "local_params": Style(kind="local"),
    "replicate": Style(),
}
"""The tensor-parallel styles of transformers 5.23, its aliases among them."""

EXPERT_STYLES: Mapping[str, Style] = {
    "grouped_gemm": Style("first"),
    "ep_dispatch_experts": Style("", "experts", "sum", kind="local"),
}
"""Styles of an ``ep_plan``: whole experts are dealt out, and tokens travel."""

ALL_STYLES: Mapping[str, Style] = {**STYLES, **EXPERT_STYLES}

RETIRED: Mapping[str, str] = {
    "local_colwise": "colwise",
    "local_rowwise": "rowwise",
    "local_packed_rowwise": "packed_rowwise",
    "local": "local_params",
    "gather": "all_reduce",
    "isolated": "replicate",
    "ep_router": "replicate",
    "sequence_parallel_rep": "sequence_parallel",
}
"""Styles that transformers had, and what says the same today."""


class TpPlanError(DimsolveError):
    """A ``tp_plan`` that cannot be read."""


NOT_A_TP_PLAN = Problem(
    TpPlanError,
    "not-a-tp-plan",
    "this is not a tp_plan",
    "{reason}",
    "{hint}",
)
_WRITE = (
    'write {"layers.*.self_attn.q_proj": "colwise"}: names of modules or parameters, and styles'
)
_INSIDE = 'give what stands at "{name}" alone'
_OURS = "it is a plan of dimsolve: plan.to_tp_plan() writes it in this format"


def read_tp_plan(plan: Any) -> dict[str, str]:
    """Returns the plan as a dict of texts. Raises TpPlanError for anything else.

    >>> read_tp_plan({"layers.*.mlp.up_proj": "colwise"})
    {'layers.*.mlp.up_proj': 'colwise'}
    """
    if not isinstance(plan, Mapping):
        raise NOT_A_TP_PLAN(reason=f"{plan!r:.60} is a {type(plan).__name__}", hint=_WRITE)
    for name, style in plan.items():
        if not isinstance(name, str) or not isinstance(style, str):
            hint = _WRITE
            if isinstance(style, Mapping) and name in ("tp_plan", "base_model_tp_plan", "ep_plan"):
                hint = _INSIDE.format(name=name)
            elif {"version", "mesh", "operators"} <= set(plan):
                hint = _OURS
            raise NOT_A_TP_PLAN(
                reason=f"{name!r:.60}: {style!r:.60} is no pair of texts", hint=hint
            )
    return dict(plan)


def with_experts(tp_plan: Mapping[str, str], ep_plan: Mapping[str, str]) -> dict[str, str]:
    """Returns the rules of both: one for experts drops those for the same module, and inside of it.

    >>> with_experts({"mlp.experts": "moe_tp_experts", "q": "colwise"}, {"mlp.experts": "x"})
    {'q': 'colwise', 'mlp.experts': 'x'}
    """
    left = {
        name: style
        for name, style in tp_plan.items()
        if not any(name == key or name.startswith(f"{key}.") for key in ep_plan)
    }
    return {**left, **ep_plan}


def read_tp_plan_file(path: Path) -> dict[str, str]:
    """Returns the plan in a file of JSON. Raises TpPlanError where it cannot be read."""
    try:
        return read_tp_plan(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        raise NOT_A_TP_PLAN(reason=reason, hint="give a file of JSON") from error
    except ValueError as error:
        raise NOT_A_TP_PLAN(reason=f"{path} is no JSON: {error}", hint=_WRITE) from error


def generic(name: str) -> str:
    """Returns a name with every number between dots written ``*``.

    >>> generic("layers.11.mlp.w1.weight"), generic("experts.0")
    ('layers.*.mlp.w1.weight', 'experts.*')
    """
    return re.sub(r"\.\d+(?=\.|$)", ".*", name)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A plan with the names of one model. ``modules``, ``parameters``: their styles by name;
    ``unused``: the keys that name nothing.
    """

    modules: dict[str, str]
    parameters: dict[str, str]
    unused: tuple[str, ...]


def resolve(plan: Mapping[str, str], modules: Iterable[tuple[str, Iterable[str]]]) -> Resolved:
    """Returns the style of every module and parameter that a plan names.

    modules: the name of every module with those of its own parameters. A parameter has the style of
    its own key, else that of its module's; a module has that of its own key only.

    >>> found = resolve({"a.*": "colwise", "b": "rowwise"}, [("a.0", ["weight"]), ("c", [])])
    >>> found.modules, found.parameters, found.unused
    ({'a.0': 'colwise'}, {'a.0.weight': 'colwise'}, ('b',))
    """
    found = Resolved({}, {}, ())
    used: set[str] = set()
    for module, own in modules:
        key = generic(module)
        if key in plan:
            found.modules[module] = plan[key]
            used.add(key)
        for parameter in own:
            name = f"{module}.{parameter}" if module else parameter
            exact = generic(name)
            above = exact.rpartition(".")[0]
            style = exact if exact in plan else above
            if style and style in plan:
                found.parameters[name] = plan[style]
                used.add(style)
    unused = tuple(name for name in plan if name not in used)
    return Resolved(found.modules, found.parameters, unused)


def fused_of(name: str, names: Iterable[str]) -> list[str]:
    """Returns the names that a fused one stands for, as vLLM and SGLang write them: beside it, with
    its ending, and one after another what it begins with. [] where there are none.

    >>> fused_of("a.qkv_proj", ["a.q_proj", "a.k_proj", "a.v_proj", "a.o_proj", "b.q_proj"])
    ['a.q_proj', 'a.k_proj', 'a.v_proj']
    >>> fused_of("a.gate_up_proj.weight", ["a.gate_proj.weight", "a.up_proj.weight"])
    ['a.gate_proj.weight', 'a.up_proj.weight']
    """
    found = re.fullmatch(
        r"(?P<home>(?:.*\.)?)(?P<begin>\w+)(?P<end>_[^_.]+(?:\.(?:weight|bias))?)", name
    )
    if found is None:
        return []
    beside = {
        each.removeprefix(found["home"]).removesuffix(found["end"]): each
        for each in names
        if each.startswith(found["home"]) and each.endswith(found["end"])
    }

    def parts(left: str) -> list[str] | None:
        if not left:
            return []
        for begin, each in beside.items():
            if begin and left.startswith(begin):
                more = parts(left.removeprefix(begin).removeprefix("_"))
                if more is not None:
                    return [each, *more]
        return None

    made = parts(found["begin"]) or []
    return made if len(made) > 1 else []
