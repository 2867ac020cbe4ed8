"""Whether a model is the one that a plan was made for: its tensors, modules and hooks.

    plan of Wrapped with inner.weight (4, 4), given a Linear with weight (4, 4)
    PlanError: the plan is for another model: Linear has no parameter inner.weight

A plan's program is made of the graph alone, so what another model computes would be left out, and
so would a hook that tracing has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.errors import Problem
from dimsolve.ir.graph import Node
from dimsolve.ir.types import TensorType
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import PlanError
from dimsolve.solver.graphs.deduction import find_operator

from ..calls import Arguments
from ..capture.traced_model import TracedModule, refuse_backward_hooks, said_of, traced_model
from ..lowering.setting import LoweringError

_OTHER = Problem(
    PlanError,
    "other-model",
    "the plan is for another model",
    "{reason}",
    "plan the model that runs: dimsolve.plan(dimsolve.trace(model, ...), mesh)",
)
_GRADIENT_HOOK = Problem(
    LoweringError,
    "gradient-hook",
    "{name} has a hook on its gradient",
    "a part has parameters of its own, whose gradients are parts, and the hook was made for the "
    "whole",
    "remove the hook, and register one on the part's parameter",
)
_NEVER_CALLED = Problem(
    LoweringError,
    "module-hook",
    "a module inside a part takes no {what}",
    "a part runs the operators of its program and calls no module of its own, so the hook would "
    "never be called",
    "register it on the part itself, on a parameter, or on the model before it is traced",
)
_SET = Problem(
    LoweringError,
    "traced-attribute",
    "{name} of a part cannot be set",
    "{what}; a part runs the operators that were traced, and would go on with what it was then",
    "set it on the model, then trace, plan and parallelize the model again",
)
MODULE_CALL = Problem(
    LoweringError,
    "module-call",
    "a module inside a part cannot be called",
    "it holds this rank's parts of parameters, and the model, which tells what it does with them, "
    "cannot be copied",
    "call the part, or trace, plan and parallelize the module by itself",
)
_OTHER_HOOKS = Problem(
    LoweringError,
    "module-hook",
    "{name} has other forward hooks than when it was traced",
    "it has {now}, and had {before}; what hooks compute is traced, and a part runs what was traced",
    "trace the model with its hooks, or register them on the part",
)


def check_model(model: torch.nn.Module, graph: Any, stored: str = "") -> None:
    """Raises PlanError where a model is not the one whose graph was planned, LoweringError or
    TraceError where it has hooks that would be left out. stored: another dtype that parameters may
    have.
    """
    if not isinstance(model, torch.nn.Module):
        raise _OTHER(reason=f"a model is a torch.nn.Module, and this is {type(model).__name__}")
    _check_tensors(model, graph, stored)
    _refuse_gradient_hooks(model)
    refuse_backward_hooks(model)
    traced: Mapping[str, TracedModule] = graph.traced
    if traced:
        _check_modules(traced, traced_model(model))


def _check_tensors(model: torch.nn.Module, graph: Any, stored: str) -> None:
    held: dict[str, dict[str, Tensor]] = {
        "parameter": dict(model.named_parameters(remove_duplicate=False)),
        "buffer": dict(model.named_buffers(remove_duplicate=False)),
    }
    for entry in graph.inputs:
        if entry.kind not in held:
            continue
        found = held[entry.kind].get(entry.target)
        name, wanted = f"{entry.kind} {entry.target}", entry.value.type
        if found is None:
            names = ", ".join(list(held[entry.kind])[:3]) or "none"
            kind = type(model).__name__
            raise _OTHER(reason=f"{kind} has no {name}: {wanted}; its {entry.kind}s are {names}")
        if not isinstance(wanted, TensorType):
            continue
        dims = wanted.dims
        if dims is not None and tuple(found.shape) != tuple(dims) and _are_numbers(dims):
            shape = tuple(found.shape)
            raise _OTHER(reason=f"{name} is {shape}, and the traced model's is {tuple(dims)}")
        dtype = str(found.dtype).removeprefix("torch.")
        if wanted.dtype and dtype not in (
            wanted.dtype,
            stored if entry.kind == "parameter" else "",
        ):
            raise _OTHER(reason=f"{name} is {dtype}, and the traced model's is {wanted.dtype}")


def _are_numbers(dims: Any) -> bool:
    return all(isinstance(dim, int) for dim in dims)


def _check_modules(traced: Mapping[str, TracedModule], found: Mapping[str, TracedModule]) -> None:
    for path in [*traced, *(path for path in found if path not in traced)]:
        before, now = traced.get(path), found.get(path)
        name = path or "the model"
        for where, one, other in (("the traced model", before, now), ("this model", now, before)):
            if one is not None and other is None:
                reason = f"{where} has a module {name}, a {one.kind}, and the other has none"
                raise _OTHER(reason=reason)
        assert before is not None and now is not None
        if before.kind != now.kind:
            raise _OTHER(
                reason=f"{name} is a {now.kind}, and the traced model's is a {before.kind}"
            )
        if before.code != now.code:
            raise _OTHER(
                reason=f"the forward of {name}, a {now.kind}, is other code than the traced model's"
            )
        if before.settings != now.settings:
            raise _OTHER(
                reason=f"{name} is {now.kind}({now.settings}), traced as ({before.settings})"
            )
        if before.hooks != now.hooks:
            raise _OTHER_HOOKS(
                name=name,
                now=", ".join(now.hooks) or "none",
                before=", ".join(before.hooks) or "none",
            )


def _refuse_gradient_hooks(model: torch.nn.Module) -> None:
    """A hook on a gradient was made for the model's own parameter and for the whole gradient."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise _GRADIENT_HOOK(name=name)


DROPS = frozenset(
    {
        "dropout",
        "dropout_",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_alpha_dropout",
        "feature_dropout",
        "scaled_dot_product_attention",
    }
)
NORMALISES = frozenset({"batch_norm", "instance_norm", "rrelu", "rrelu_"})


def depends_on_mode(plan: Plan) -> str:
    """Returns the first operator of a plan's graph that depends on the mode, ``""`` for none."""
    graph = plan.planned
    for node in graph.nodes() if graph is not None else ():
        name = node.signature.rpartition(".")[2]
        if name in NORMALISES or (name in DROPS and _probability(node) != 0):
            return f"{node.id} ({node.signature})"
    return ""


def _probability(node: Node) -> object:
    """The share that is dropped, as it was called or by default."""
    operator = find_operator(node.signature)
    names = operator.parameters if operator is not None else ()
    values = Arguments(tuple(node.args), node.kwargs).parameters(names)
    if "dropout_p" in names:
        return values.get("dropout_p", 0.0)
    return values.get("p", 0.5)


class PartModule(torch.nn.Module):
    """A module of a part: it holds parameters and buffers under their names. A call of it is one of
    the part, which has programs for it.

    kind: the name of the model's class there. call: what is called with the arguments.
    """

    kind = "Module"
    call: Callable[..., Any] | None = None
    path = ""

    def __setattr__(self, name: str, value: Any) -> None:
        check_attribute(self, self.path, name, value)
        super().__setattr__(name, value)

    def _get_name(self) -> str:
        return self.kind

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the model's module returns; LoweringError where no program can be made."""
        if self.call is None:
            raise MODULE_CALL()
        return self.call(*args, **kwargs)


class PartList(PartModule):
    """A module of a part whose items are found by their places: of a list, or a sequence."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[torch.nn.Module | None]:
        return iter(self._modules.values())

    def __getitem__(self, place: int | slice) -> Any:
        return list(self._modules.values())[place]


class PartDict(PartModule):
    """A module of a part whose items are found by their names."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]


def traced_attributes(original: torch.nn.Module) -> dict[str, str | None]:
    """Returns what a module of a model has besides parameters and buffers, in words; None for what
    has none.
    """
    own = {n: said_of(v) for n, v in vars(original).items() if n not in _OF_ANY_MODULE}
    return {**own, **dict.fromkeys(original._modules)}


_OF_ANY_MODULE = frozenset(vars(torch.nn.Module())) | {"forward"}


def check_attribute(module: torch.nn.Module, path: str, name: str, value: object) -> None:
    """Raises LoweringError where an attribute of a part's module would be set that the model's has,
    to something else than it was when the part was made.
    """
    traced: Mapping[str, str | None] = module.__dict__.get("_traced", {})
    if name not in traced or (traced[name] is not None and traced[name] == said_of(value)):
        return
    before = traced[name]
    child = module._modules.get(name)
    if child is not None and child is value:
        return
    if child is not None:
        what = f"the model has a module there, a {getattr(child, 'kind', type(child).__name__)}"
    else:
        what = "the model has it" if before is None else f"the model has {before:.60} there"
    raise _SET(name=f"{path}.{name}" if path else name, what=what)


def part_module(original: torch.nn.Module, path: str = "") -> PartModule:
    """Returns a module of a part for one of the model, in the mode of that one. path: its name."""
    made = PartModule()
    if isinstance(original, torch.nn.ModuleList | torch.nn.Sequential):
        made = PartList()
    elif isinstance(original, torch.nn.ModuleDict):
        made = PartDict()
    made.__dict__.update(
        kind=type(original).__name__, path=path, _traced=traced_attributes(original)
    )
    made.training = original.training
    return made


def _refusing(what: str) -> Any:
    def register(self: PartModule, *args: Any, **kwargs: Any) -> Any:
        """Raises LoweringError: it would never be called."""
        raise _NEVER_CALLED(what=what)

    return register


for _name, _what in {
    "forward": "forward hook",
    "forward_pre": "forward pre-hook",
    "full_backward": "backward hook",
    "full_backward_pre": "backward pre-hook",
    "backward": "backward hook",
}.items():
    setattr(PartModule, f"register_{_name}_hook", _refusing(_what))
