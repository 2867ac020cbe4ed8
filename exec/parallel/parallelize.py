"""`parallelize`: the model as one rank runs it, a module with this rank's parts of the parameters.

    part = ds.parallelize(model, plan)            q_proj.weight (64, 64) -> (32, 64) at tp = 2
    loss = part(input_ids=ids, labels=ids).loss   whole batches in, what the model returns out
    loss.backward(); optimizer.step()             .grad is this rank's part of the gradient

The parameters have the model's qualified names, tied ones stay tied, and the model itself is left
as it is. Every rank of the mesh calls this, and then the module, with the same arguments.

Whether a graph computes something else in training than in evaluation.

dropout(x, 0.1, True)     drops in training only
dropout(x, 0.0, True)     the same in both
batch_norm(...)           normalises by the batch in training, by what it has learnt otherwise

From the tree that a program returns to what the model returns, and what it leaves of its
arguments.

{"loss": ..., "logits": ...}       transformers' CausalLMOutput(loss=..., logits=...)
a cache that the caller gave       the same object, with the keys and values that the model leaves
a cache that the model made        a new object of its class, with its attributes

From a call's arguments to the tensors that a program takes, in its order.

    module(ids, labels=labels, use_cache=False)      [ids, labels]; use_cache is as it was traced

What was no tensor when the model was traced is part of the program: the same value may be given
again, or nothing, and another one is an error that names it. Which argument goes where is worked
out once for each way of calling.

What happens when a step fails: the exception says where, and the other ranks are told.

    ValueError: boom
      rank 1 (tp=1) failed in my_op (node my_op_2)
        model.py:33: out = my_op(x)
        x: float32 (4, 16, 32)

The exception keeps its type and its traceback and gains these lines as a note. An exception that
comes from another rank's failure is not told on.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError, GraphError
from dimsolve.ir.graph import Constant, Device, Left, Made, Node, Place
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import no_plan
from dimsolve.solver.graphs.deduction import find_operator

from ..calls import Arguments, resolve
from ..capture.argument_objects import (
    Place as Argument_ObjectsPlace,
)
from ..capture.argument_objects import (
    class_path,
    fill,
    is_plain_container,
    setting_of,
)
from ..capture.dynamic import parts_and_leaves
from ..distributed.agreement import Agreement, AgreementError
from ..distributed.communicator import CollectiveError, Communicator
from ..distributed.failures import Failure, RankFailure, Stopped, failure_of, watch
from ..distributed.mesh import MeshEnds, mesh_ends
from ..lowering.lower import lower
from ..lowering.program import Program
from ..lowering.setting import LoweringError, mesh_sizes, placement_of
from .optimizers import mark_parameters, watch_gradients, watch_optimizers
from .state import Held, add_state, copied, give_state, not_pickled, refuse_hooks, take_state

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


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


class Rebuilder:
    """Puts together what a program hands out. container: the import path of the class that is
    returned, ``""`` for none; left, objects: see `dimsolve.ir.graph.Graph`. device: of the rank.
    """

    def __init__(
        self,
        container: str,
        left: Mapping[Place, Left],
        objects: Mapping[Place, Made],
        device: Any,
    ) -> None:
        self._whole = _maker(container)
        self._left = dict(left)
        self._objects = dict(objects)
        self._device = device
        self._found = {
            place: _class(made.name) if made.kind == "class" else resolve(made.name)
            for place, made in objects.items()
            if made.kind in ("class", "constant")
        }
        self.takes_objects = bool(left) or any(m.kind == "argument" for m in objects.values())

    def __call__(self, tree: Any, given: Mapping[Place, Any]) -> Any:
        """Returns what the model returns; changes what it changes. given: the objects and
        containers of the call's arguments, by their places, where `takes_objects`.
        """
        if not self._left and not self._objects:
            return self._whole(tree)
        made: dict[Place, Any] = {}
        returned = tree["returned"] if self._left else tree
        result = self._made(returned, ("returned",), given, made)
        changed = [
            (place, left, self._parts(tree["left"][number], ("left", number), given, made))
            for number, (place, left) in enumerate(self._left.items())
        ]
        for place, left, parts in changed:
            fill(given[place], parts, left.removed)
        return result if ("returned",) in self._objects else self._whole(result)

    def _parts(
        self, tree: Mapping[Any, Any], place: Place, given: Mapping[Place, Any], made: Any
    ) -> dict[Any, Any]:
        return {key: self._made(item, (*place, key), given, made) for key, item in tree.items()}

    def _made(
        self, tree: Any, place: Place, given: Mapping[Place, Any], made: dict[Place, Any]
    ) -> Any:
        noted = self._objects.get(place)
        match None if noted is None else noted.kind:
            case "argument":
                return given[noted.place]  # type: ignore[union-attr]
            case "same":
                return made[noted.place]  # type: ignore[union-attr]
            case "constant":
                return self._found[place]
            case "device":
                return self._device
            case "class":
                return self._object(self._found[place], tree, place, given, made)
        if isinstance(tree, list):
            items: list[Any] = []
            made[place] = items
            items += [self._made(x, (*place, n), given, made) for n, x in enumerate(tree)]
            return items
        if isinstance(tree, tuple):
            return tuple([self._made(x, (*place, n), given, made) for n, x in enumerate(tree)])
        if isinstance(tree, Mapping):
            found: dict[Any, Any] = {}
            made[place] = found
            found.update(self._parts(tree, place, given, made))
            return found
        return tree

    def _object(
        self, cls: Any, tree: Any, place: Place, given: Mapping[Place, Any], made: dict[Place, Any]
    ) -> Any:
        """An object of a class: a dict, a list or a tuple by its items, others by attributes."""
        if issubclass(cls, tuple):
            items = [self._made(x, (*place, n), given, made) for n, x in enumerate(tree)]
            return cls(*items) if hasattr(cls, "_fields") else cls(items)
        if issubclass(cls, list):
            made[place] = cls(self._made(x, (*place, n), given, made) for n, x in enumerate(tree))
            return made[place]
        if issubclass(cls, dict):
            parts = self._parts(tree, place, given, made)
            make: Callable[..., Any] = cls
            made[place] = make(**parts) if is_dataclass(cls) else make(parts)
            return made[place]
        made[place] = object.__new__(cls)
        fill(made[place], self._parts(tree, place, given, made))
        return made[place]


def _class(path: str) -> type:
    """The class of an import path; GraphError where there is something else."""
    found = resolve(path)
    if not isinstance(found, type):
        raise GraphError(
            Diagnostic(
                code="no-class",
                title="the graph returns an object of what is no class",
                reason=f"{path} is a {type(found).__name__}",
                hint="trace the model again",
            )
        )
    return found


def _maker(path: str) -> Callable[[Any], Any]:
    """Returns what makes the container of an import path: a dict, a tuple or a dataclass of a class
    of its own. ``""``, and whatever is none of these, leaves trees as they are.
    """
    if not path:
        return lambda tree: tree
    container: Any = resolve(path)
    if not isinstance(container, type) or not (
        issubclass(container, tuple | dict) or is_dataclass(container)
    ):
        return lambda tree: tree
    if hasattr(container, "_fields"):
        return lambda tree: container(*tree)

    make: Callable[..., Any] = container

    def rebuild(tree: Any) -> Any:
        return make(**tree) if isinstance(tree, Mapping) else make(tree)

    return rebuild


_FLAT = (Tensor, int, float, str, bool, type(None))


class CallError(DimsolveError):
    """A call that the program was not made for."""

    __module__ = "dimsolve"


class CallInputs:
    """``names``: the inputs in the program's order. settings: the other arguments as traced, and
    the classes of objects. device: of the rank.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        names: Sequence[str],
        settings: Mapping[str, Any],
        device: Any = None,
    ) -> None:
        self.device = device
        self.forward = forward
        self.names = tuple(names)
        self.settings = dict(settings)
        self.defaults = _defaults(forward)
        self._ways: dict[Any, list[int]] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the tensors; CallError where the call has other arguments than the program."""
        given = [*args, *kwargs.values()]
        if not all(isinstance(value, _FLAT) for value in given):
            found = self._read(args, kwargs)
            return [found[name] for name in self.names]
        kinds = [Tensor if isinstance(v, Tensor) else (v.__class__, v) for v in given]
        way = (len(args), *kwargs, *kinds)
        places = self._ways.get(way)
        if places is None:
            order = list(self._read(args, kwargs))
            places = self._ways[way] = [order.index(name) for name in self.names]
        return [given[place] for place in places]

    def objects(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[Argument_ObjectsPlace, Any]:
        """Returns the objects and containers of a call's arguments, by their places."""
        parts = parts_and_leaves(self.forward, args, kwargs, None)
        return {part.place: part.value for part in parts if part.whole}

    def _read(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The leaves of the arguments by name, in order, once they are known to fit."""
        parts = parts_and_leaves(self.forward, args, kwargs, None)
        given = {part.name for part in parts}
        for part in parts:
            if part.whole:
                self._check_class(part.name, part.value)
            elif part.name not in self.names:
                self._check(part.name, part.value)
        for name in self.settings:
            argument = name.partition(".")[0]
            if name not in given and argument in given:
                self._check_left_out(name, given)
            elif argument not in given and argument != name and argument in self.settings:
                raise _absent([argument], "an object")
        found = {part.name: part.value for part in parts if not part.whole}
        missing = [name for name in self.names if found.get(name) is None]
        if missing:
            raise _absent(missing)
        return found

    def _check(self, name: str, value: Any) -> None:
        """An argument that the program does not take must say what it was traced with."""
        if isinstance(value, Tensor):
            raise _new_tensor(name, self.names)
        known = name in self.settings or name in self.defaults
        traced = self.settings[name] if name in self.settings else self.defaults.get(name)
        given = setting_of(value)
        if isinstance(given, Device) and isinstance(traced, Device) and value == self.device:
            return
        if not known or type(traced) is not type(given) or traced != given:
            raise _other_setting(name, _shown(given), _shown(traced) if known else None)

    def _check_class(self, name: str, value: Any) -> None:
        """An object must be of the class with which the model was traced."""
        traced = self.settings.get(name)
        given = None if is_plain_container(value) else Constant(class_path(type(value)))
        if traced != given or (name in self.settings and traced is None):
            raise _other_class(name, type(value).__name__, traced, name in self.settings)

    def _check_left_out(self, name: str, given: AbstractSet[str]) -> None:
        """What an argument held when the model was traced, it must hold still."""
        if self.settings[name] is None:
            return
        above = name.rpartition(".")[0]
        while above not in given:
            above = above.rpartition(".")[0]
        raise _left_out(name, above, _shown(self.settings[name]))


def _defaults(forward: Callable[..., Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _shown(setting: Any) -> str:
    return str(setting) if isinstance(setting, Constant | Device) else f"{setting!r:.60}"


def _other_class(name: str, given: str, traced: Any, known: bool) -> CallError:
    if isinstance(traced, Constant):
        was = f"a {traced.path.rpartition('.')[2]}"
    else:
        was = f"{traced!r:.60}" if known else "no object of a class there"
    return CallError(
        Diagnostic(
            code="other-class",
            title=f"{name} is a {given}, and the model was traced with {was}",
            reason="what a model does with an object is part of the program",
            hint="trace the model with an object of this class",
        )
    )


def _left_out(name: str, above: str, traced: str) -> CallError:
    return CallError(
        Diagnostic(
            code="left-out",
            title=f"{above} holds no {name.removeprefix(above + '.')}, which was {traced} when the "
            "model was traced",
            reason="what an argument holds is part of the program",
            hint="trace the model with this argument",
        )
    )


def _absent(missing: Sequence[str], what: str = "a tensor") -> CallError:
    return CallError(
        Diagnostic(
            code="no-argument",
            title=f"the call lacks {', '.join(missing)}",
            reason=f"the model was traced with {what} there",
            hint=f"give {what}, or trace the model without it",
        )
    )


def _new_tensor(name: str, names: Sequence[str]) -> CallError:
    return CallError(
        Diagnostic(
            code="new-tensor",
            title=f"the program takes no tensor named {name}",
            reason=f"the model was traced with {', '.join(names) or 'no tensors'}",
            hint=f"trace the model with {name} in the example call",
        )
    )


def _other_setting(name: str, value: Any, traced: Any) -> CallError:
    return CallError(
        Diagnostic(
            code="other-setting",
            title=f"{name} is {value}, and the model was traced with {traced}",
            reason="what is no tensor is part of the program",
            hint="trace the model with this value",
        )
    )


_TOLD = "__dimsolve_failure__"
_STOPS = (("torch.utils.checkpoint", "_StopRecomputationError"), ("torch._dynamo", ""))
"""Where torch has exceptions that end a call early and are no errors: a recomputation that has what
it was begun for, a compiler that begins anew.
"""


def is_failure(error: BaseException) -> bool:
    """Whether an exception is an error of the step, and not torch's way to leave a call."""
    kind = type(error)
    return not any(
        kind.__module__.startswith(module) and kind.__name__.startswith(name)
        for module, name in _STOPS
    )


def explain(error: BaseException, program: Program | None, ends: MeshEnds) -> Failure:
    """Adds to an exception where it came from, tells the other ranks, and returns it as data."""
    known: Failure | None = getattr(error, _TOLD, None)
    if known is not None:
        return known
    if isinstance(error, RankFailure):
        return error.failure
    failure = failure_of(error, ends.rank, ends.place, program)
    note = str(replace(failure, reason=""))
    error.add_note("\n".join(line for line in note.splitlines() if line.strip()))
    setattr(error, _TOLD, failure)
    guard = watch()
    if guard is not None and not isinstance(error, AgreementError | CallError | CollectiveError):
        guard.report(failure)
    return failure


def explain_run(error: BaseException, rank: int) -> Failure:
    """Returns what ended this rank's run as data, and tells the other ranks."""
    known: Failure | None = getattr(error, _TOLD, None)
    guard = watch()
    if known is not None:
        failure = known
    elif isinstance(error, RankFailure):
        return error.failure
    elif isinstance(error, Stopped):
        blamed = None if guard is None else guard.blame()
        return blamed or Failure(rank, f"rank {rank}", "it was stopped by the launcher")
    else:
        failure = failure_of(error, rank, f"rank {rank}", None)
    if guard is not None:
        guard.report(failure)
        told = guard.failure
        return told if told is not None and not isinstance(error, AgreementError) else failure
    return failure


def parallelize(
    model: torch.nn.Module, plan: Plan, device_mesh: DeviceMesh | None = None
) -> ParallelModule:
    """Returns this rank's part of a model, an ``nn.Module``.

    plan: made by `dimsolve.plan` of a graph of this model; one that was read is given its graph by
    ``plan.for_graph(graph)``. device_mesh: has the plan's axes by name, and may have others; None:
    a mesh of all ranks, or this process alone, on the model's device, where the plan is for one
    rank. Parameters on the meta device are made here, module by module. Raises PlanError,
    LoweringError and AgreementError where model, plan and ranks do not fit, on every rank alike.
    """
    if not isinstance(plan, Plan):
        raise no_plan(plan)
    graph = plan.planned
    if graph is None:
        raise _no_graph()
    refuse_hooks(model)
    agreement = Agreement(plan, device_mesh)
    agreement.agree_on_plan()
    ends = mesh_ends(plan, device_mesh, alone_on=_device_of(model))
    agreement.agree_on_weights(model)
    program = lower(graph, plan, ends.communicators, device=ends.device)
    return ParallelModule(model, plan, program, ends, agreement)


class ParallelModule(torch.nn.Module):
    """One rank's part of a model. Made by `parallelize`."""

    def __init__(
        self,
        model: torch.nn.Module,
        plan: Plan,
        program: Program,
        ends: MeshEnds,
        agreement: Agreement,
    ) -> None:
        super().__init__()
        self.training = model.training
        self.plan = plan
        self.program = program
        self.ends = ends
        self._agreement = agreement
        self._held = held_by(plan, ends.communicators)
        self._traced_in_training = model.training
        self._depends_on_mode = depends_on_mode(plan)
        self._mesh_sizes = mesh_sizes(plan, ends.communicators)
        add_state(self, model, self._held, ends)
        self._know_parameters()
        watch_optimizers()
        names = [slot.target for slot in program.slots if slot.kind == "input"]
        graph = plan.planned
        self._rebuild = Rebuilder(program.container, program.left, program.objects, ends.device)
        self._arguments = CallInputs(
            model.forward, names, getattr(graph, "settings", {}), ends.device
        )
        self._admitted: set[Any] = set()
        hooks: Any = self
        hooks.register_state_dict_post_hook(give_state)
        hooks.register_load_state_dict_pre_hook(take_state)
        hooks.register_load_state_dict_post_hook(_loaded)
        if program.absent:
            _warn_absent(program.absent)

    def _know_parameters(self) -> None:
        """Notes where the program finds its tensors, and at each parameter that it is a part."""
        mark_parameters(self)
        watch_gradients(self)
        state = [slot for slot in self.program.slots if slot.kind != "input"]
        self._places = [_place_of(self, slot.kind, slot.target, self.program) for slot in state]

    def __deepcopy__(self, memo: dict[int, Any]) -> ParallelModule:
        made: ParallelModule = copied(self, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise not_pickled()

    @property
    def device_mesh(self) -> DeviceMesh | None:
        """The mesh of the plan's axes; None where one process runs alone."""
        return self.ends.mesh

    def source(self) -> str:
        """Returns the program of this rank as the text of a Python module."""
        from ..lowering.emit import emit

        mesh = ", ".join(f"{axis}={size}" for axis, size in self.plan.mesh.items())
        title = f"{self.plan.graph.name} over {mesh}: the program of one rank."
        return emit(self.program, title=title, rank=self.ends.rank, ranks=self.ends.count)

    def held(self, name: str) -> Held:
        """Returns how a parameter or buffer is cut, by its qualified name."""
        return self._held[name]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the model returns for these arguments, which are the model's own."""
        inputs = self._arguments(args, kwargs)
        given = self._arguments.objects(args, kwargs) if self._rebuild.takes_objects else {}
        if torch.compiler.is_compiling():
            self._admit_compiled(inputs)
        else:
            self._admit(inputs)
        try:
            result = self.program.run([*inputs, *[owner[key] for owner, key in self._places]])
        except Exception as error:
            if is_failure(error):
                explain(error, self.program, self.ends)
            raise
        return self._rebuild(result, given)

    def _admit(self, inputs: list[Tensor]) -> None:
        """Checks sizes that were not seen before, with all ranks."""
        agreement, names = self._agreement, self._arguments.names
        agreement.calls += 1
        if self.training is not self._traced_in_training and self._depends_on_mode:
            raise _other_mode(self._traced_in_training, self._depends_on_mode)
        key = tuple([(value.shape, value.dtype) for value in inputs])
        if key in self._admitted:
            agreement.note((names, key))
            return
        shapes = {name: tuple(v.shape) for name, v in zip(names, inputs, strict=True)}
        dtypes = {name: v.dtype for name, v in zip(names, inputs, strict=True)}
        agreement.agree_on_sizes(self.program.inputs, shapes, dtypes, self._mesh_sizes)
        self._admitted.add(key)

    @torch.compiler.disable
    def _admit_compiled(self, inputs: list[Tensor]) -> None:
        self._admit(inputs)


def _loaded(module: ParallelModule, keys: Any) -> None:
    """A hook of ``load_state_dict``, which may have put other parameters in place of the parts."""
    mark_parameters(module)


def held_by(plan: Plan, communicators: Mapping[str, Communicator]) -> dict[str, Held]:
    """Returns how each parameter and buffer of the plan is cut, by its qualified name."""
    sizes = tuple(mesh_sizes(plan, communicators).items())
    ends = tuple(communicators[axis] for axis in plan.mesh)
    return {
        entry.name: Held(tuple(placement_of(text, sizes) for text in entry.placements), ends)
        for entry in plan.inputs
        if entry.kind in ("parameter", "buffer")
    }


def _device_of(model: torch.nn.Module) -> torch.device | None:
    """Where a model is; None where it has no parameters, or has them on the meta device."""
    first = next(iter(model.parameters()), None)
    return None if first is None or first.is_meta else first.device


def _place_of(module: torch.nn.Module, kind: str, target: str, program: Program) -> tuple[Any, Any]:
    """Where a tensor is looked up when the program runs: a dictionary and a key."""
    if kind == "constant":
        return program.constants, target
    path, _, name = target.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if kind == "parameter" else owner._buffers), name


def _no_graph() -> LoweringError:
    return LoweringError(
        Diagnostic(
            code="no-graph",
            title="the plan has no graph",
            reason="it was read from JSON and has not been given the graph it is for",
            hint="plan = plan.for_graph(dimsolve.trace(model, ...))",
        )
    )


def _other_mode(training: bool, reason: str) -> CallError:
    modes = ("training", "evaluation") if training else ("evaluation", "training")
    return CallError(
        Diagnostic(
            code="other-mode",
            title=f"the model was traced in {modes[0]} mode and is called in {modes[1]} mode",
            reason=f"{reason} computes something else there",
            hint=f"trace and parallelize the model once more, in {modes[1]} mode",
        )
    )


def _warn_absent(classes: tuple[str, ...]) -> None:
    listed = ", ".join(dict.fromkeys(classes))
    warnings.warn(
        f"the model returns objects that no program can return; they are None here: {listed}",
        stacklevel=4,
    )
