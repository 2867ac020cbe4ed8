"""Whether a model is the one that a plan was made for: its tensors, modules and hooks.

    plan of Wrapped with inner.weight (4, 4), given a Linear with weight (4, 4)
    PlanError: the plan is for another model: Linear has no parameter inner.weight

A plan's program is made of the graph alone, so what another model computes would be left out, and
so would a hook that tracing has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _NormBase

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
_REMOVED = Problem(
    LoweringError,
    "traced-attribute",
    "{name} of a part cannot be removed",
    "{what}, and the program that was traced takes it; parametrizations, weight_norm, "
    "spectral_norm and pruning put something else in its place",
    "put them on the model, then trace, plan and parallelize it",
)
_WRAPPED = Problem(
    LoweringError,
    "traced-attribute",
    "{name} of a part cannot be made of {other}",
    "a hook would compute it before each call, and a part runs the operators that were traced",
    "put weight_norm, spectral_norm or pruning on the model, then trace, plan and parallelize it",
)
_OTHER_PART = Problem(
    LoweringError,
    "other-shape",
    "{name} of a part cannot be replaced by a parameter of shape {given}",
    "this rank holds {shape} of it, as the plan cuts it",
    "load the whole, part.load_state_dict({{...}}, strict=False), or copy this rank's part into it "
    "under torch.no_grad()",
)
_GONE = Problem(
    LoweringError,
    "not-held",
    "the part no longer holds {kind} {name}",
    "the program that was traced takes it, and the module there is {now}",
    "change the model, then trace, plan and parallelize it",
)
_REPLACED = Problem(
    LoweringError,
    "traced-attribute",
    "{name} of a part has been replaced",
    "{now} is there now, where the model had {before} when it was traced; a part runs the "
    "operators that were traced, and would not call it",
    "replace it in the model (as peft.get_peft_model does), then trace, plan and parallelize it",
)


_UNTIED = Problem(
    LoweringError,
    "traced-attribute",
    "{name} and {first} of a part are no longer one parameter",
    "they were when the model was traced, and the program takes {first} for both",
    "untie them in the model, then trace, plan and parallelize it",
)
APPLIED = Problem(
    LoweringError,
    "applied",
    "a part takes no apply",
    "its modules hold this rank's parts and are of no class of the model's, so a function that "
    "asks for isinstance(module, torch.nn.Linear) would do nothing",
    "apply it to the model before it is parallelized, or go by part.named_parameters()",
)


class PartAttributeError(LoweringError, AttributeError):
    """What a module of the model has, and a module of a part has not: hasattr says no."""


SETTINGS = frozenset(
    {"stride", "padding", "dilation", "kernel_size", "padding_mode", "eps", "momentum", "p"}
    | {"main_input_name"}
)
"""Attributes of modules that say how they compute, or are called, and nothing of how large they
are: transformers counts what Whisper's convolutions leave of a sound by their strides, and asks
encoders for the name of their input.
"""

_METHOD = Problem(
    PartAttributeError,
    "no-such-method",
    "{name}, a {kind} inside of a part, has no {attribute}",
    "it holds this rank's parts of parameters, and nothing else of the model's module: what is "
    "changed there, or made of parts, would be wrong without a word",
    "ask the model before it is traced, or a whole model that has loaded part.state_dict(){more}",
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

    kind: the name of the model's class there; of: returns the model's module, without bytes, where
    there is one. call: what is called with the arguments.
    """

    kind = "Module"
    call: Callable[..., Any] | None = None
    path = ""
    of: Callable[[], torch.nn.Module | None] = staticmethod(lambda: None)

    def __setattr__(self, name: str, value: Any) -> None:
        check_attribute(self, self.path, name, value)
        if name == "forward" and self.path:
            raise _SET(name=_at(self.path, name), what="a part calls no module of its model")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        check_removed(self, self.path, name)
        super().__delattr__(name)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            original = self.of()
            if name.startswith("__") or not hasattr(original, name):
                raise
            if name in SETTINGS:
                return getattr(original, name)
            of_peft = type(original).__module__.startswith("peft.")
            more = "; part.save_pretrained(folder) writes adapters of peft" if of_peft else ""
            error = _METHOD(name=self.path, kind=self.kind, attribute=name, more=more)
            raise error from None

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *settings: Any
    ) -> None:
        """As torch: a state of a batch norm that has no count keeps the count that there is."""
        held, key = self._buffers.get("num_batches_tracked"), f"{prefix}num_batches_tracked"
        old = (local_metadata.get("version") or 0) < 2
        if old and held is not None and isinstance(self.of(), _NormBase):
            state_dict.setdefault(key, held.detach())
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *settings)

    def apply(self, fn: Callable[[torch.nn.Module], None]) -> Self:
        """Raises LoweringError: it would find modules of no class that it knows."""
        raise APPLIED()

    def register_parameter(self, name: str, param: torch.nn.Parameter | None) -> None:
        """Adds a parameter of another name than the model's. Raises LoweringError for what torch's
        older ways to make a weight of others add.
        """
        whole, _, kind = name.rpartition("_")
        state = self.__dict__.get("_state", ())
        if kind in ("orig", "g", "v") and name not in state and whole in state:
            raise _WRAPPED(name=_at(self.path, whole), other=name)
        super().register_parameter(name, param)

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


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def note_state(module: torch.nn.Module) -> None:
    """Notes, at each module of a part that is made, which tensors and modules it has."""
    for each in module.modules():
        names = (*each._parameters, *each._buffers)
        each.__dict__["_state"] = frozenset(names)
        each.__dict__["_inside"] = dict(each._modules)
    module.__dict__["_ties"] = tied_names(module)


def tied_names(module: torch.nn.Module) -> tuple[tuple[str, ...], ...]:
    """Returns the names of each parameter that has several."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(same) for same in names.values() if len(same) > 1)


def tie_again(module: torch.nn.Module) -> None:
    """Makes names that were of one parameter be so again: ``load_state_dict(assign=True)`` gives
    each one of its own.
    """
    for first, *others in module.__dict__.get("_ties", ()):
        parameter = module.get_parameter(first)
        for name in others:
            path, _, last = name.rpartition(".")
            module.get_submodule(path)._parameters[last] = parameter


def check_removed(module: torch.nn.Module, path: str, name: str) -> None:
    """Raises LoweringError where a tensor or a module of the model would be removed of a part."""
    inside = module.__dict__.get("_inside", {})
    if name in module.__dict__.get("_state", ()):
        raise _REMOVED(name=_at(path, name), what="it is the model's parameter or buffer")
    if name in inside:
        raise _REMOVED(name=_at(path, name), what="the model has a module there")


def check_structure(module: torch.nn.Module) -> None:
    """Raises LoweringError where a module of a part is another one than when it was made."""
    for path, each in list(module.named_modules()):
        for name, before in each.__dict__.get("_inside", {}).items():
            now = each._modules.get(name)
            if now is not before:
                kind = getattr(before, "kind", type(before).__name__)
                found = "nothing" if now is None else type(now).__name__
                raise _REPLACED(name=_at(path, name), now=found, before=kind)
    held = dict(module.named_parameters(remove_duplicate=False))
    for first, *others in module.__dict__.get("_ties", ()):
        for name in others:
            if first in held and held.get(name) is not held[first]:
                raise _UNTIED(name=name, first=first)


def missing(module: torch.nn.Module, kind: str, target: str) -> LoweringError:
    """Returns the error of a call whose program takes a tensor that the part no longer has."""
    path = target.rpartition(".")[0]
    owner = next((each for at, each in module.named_modules() if at == path), None)
    held = [*owner._parameters, *owner._buffers] if owner is not None else []
    listed = "gone" if owner is None else f"of {', '.join(held) or 'no tensors'}"
    error: LoweringError = _GONE(kind=kind, name=target, now=listed)
    return error


def check_attribute(module: torch.nn.Module, path: str, name: str, value: object) -> None:
    """Raises LoweringError where an attribute of a part's module would be set that the model's has,
    to something else than it was when the part was made.
    """
    held = module._parameters.get(name) if "_parameters" in module.__dict__ else None
    if isinstance(value, Tensor) and held is not None and value.shape != held.shape:
        given, shape = tuple(value.shape), tuple(held.shape)
        raise _OTHER_PART(name=_at(path, name), given=given, shape=shape)
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
    raise _SET(name=_at(path, name), what=what)


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
