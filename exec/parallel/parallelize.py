"""`parallelize`: the model as one rank runs it, a module with this rank's parts of the parameters.

    part = ds.parallelize(model, plan)            q_proj.weight (64, 64) -> (32, 64) at tp = 2
    loss = part(input_ids=ids, labels=ids).loss   whole batches in, what the model returns out
    loss.backward(); optimizer.step()             .grad is this rank's part of the gradient

The parameters have the model's qualified names, tied ones stay tied, and the model itself is left
as it is. Every rank of the mesh calls this, and then the module. Which data each rank gives is said
by ``inputs``:

    inputs="whole"    the whole batch on every rank; each cuts its part
    inputs="local"    its own part of the batch, as a DistributedSampler draws it

Either way the loss and the gradients are those of the whole batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import lru_cache, partial
from inspect import signature
from pathlib import Path
from types import FunctionType, new_class
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from weakref import ref

import torch
from torch import Tensor
from torch.autograd import forward_ad

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.partition.layout import Layout
from dimsolve.partition.placement import Replicate
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import no_plan

from ..distributed.communicator import Communicator
from ..lowering.program import Program
from ..lowering.setting import LoweringError, Returned, mesh_sizes, other_mesh, placement_of
from .agreement import Agreement
from .files import load_safetensors
from .given_inputs import (
    Form,
    GivenInputs,
    Randomness,
    Way,
    is_dtensor,
    local_parts,
    lower_for,
)
from .hugging_face import methods_of
from .initialising import watch_init
from .mesh import RankMesh, rank_mesh
from .on_demand import Names, OnDemand
from .optimizers import mark_parameters, watch_gradients, watch_optimizers, watch_originals
from .own_methods import guarded, unguarded
from .programs import Entry, Programs
from .same_model import (
    APPLIED,
    MODULE_CALL,
    PartModule,
    check_attribute,
    check_model,
    check_removed,
    missing,
    note_state,
    tie_again,
    traced_attributes,
)
from .state import NOT_PICKLED, Held, add_state, copied, give_state, take_state
from .wrapped import OTHER_TRAINER, watch_wrappers

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Outputs: TypeAlias = str | Mapping[str, str] | Sequence[str]

_NOT_HELD = Problem(
    LoweringError,
    "not-held",
    "the part has no parameter or buffer named {name}",
    "{reason}",
    "names are as in model.named_parameters() and model.named_buffers()",
)
_CONVERTED = Problem(
    LoweringError,
    "part-converted",
    "a part cannot be converted to {now}",
    "it was planned with {name} of {before}, and its program and its inputs are of that",
    "convert the model before it is traced: model.to({now}); or plan with precision=...",
)
_TRANSFORMED = Problem(
    LoweringError,
    "part-transformed",
    "a part cannot be called inside of torch.func.grad, torch.vmap and their kin",
    "they go through each step of a function, and ranks send and wait between the steps",
    "write torch.autograd.grad, which takes create_graph=True; or apply them inside of the model",
)
_NOT_A_PART = Problem(
    LoweringError,
    "not-a-part",
    "{name} is of the shape {given}, and this rank holds {held} of it",
    "a part runs with parts of the weights, also those that torch.func.functional_call gives it",
    "give it weights made of dict(part.named_parameters()); or load whole ones into it: "
    "part.load_state_dict(weights)",
)
_A_PART = Problem(
    LoweringError,
    "a-part",
    "this is a part already",
    "parallelize was given what it returned",
    "call the part; or parallelize the model again, for another plan",
)
_NO_GRAPH = Problem(
    LoweringError,
    "no-graph",
    "the plan has no graph",
    "it was read from JSON and has not been given the graph it is for",
    "plan = plan.for_graph(dimsolve.trace(model, ...))",
)
_NO_WAY = Problem(
    LoweringError,
    "no-such-inputs",
    "there is no such way to give inputs",
    "inputs is {inputs!r:.60}",
    'write "whole", the whole batch on every rank, or "local", its own part',
)
_NO_SUCH_KEPT = Problem(
    LoweringError,
    "no-such-outputs",
    "there is no such way to hand out outputs",
    "outputs says {kept!r:.60}",
    'write "whole", "placed", {{"logits": "placed", "hidden_states*": "none"}}, or ["loss"]',
)
_NO_RANDOMNESS = Problem(
    LoweringError,
    "no-such-randomness",
    "there is no such randomness",
    "randomness is {randomness!r:.60}",
    'write "ranks", or "one-device"',
)
_NO_OUTPUT = Problem(
    LoweringError,
    "no-such-output",
    "the plan has no output named {name}",
    "it has {listed}",
    "plan.outputs lists them",
)
_NO_DATA_AXIS = Problem(
    LoweringError,
    "no-data-axis",
    'inputs="local" needs a plan that cuts data',
    "along {axes} this one cuts no input, or parameters too: all ranks work on the same batch",
    'give the same batch on all ranks, inputs="whole", or plan for a data axis as well, '
    "such as {{'dp': 2, 'tp': 2}}",
)


def parallelize(
    model: torch.nn.Module,
    plan: Plan,
    device_mesh: DeviceMesh | None = None,
    *,
    inputs: Way = "whole",
    outputs: Outputs = "whole",
    randomness: Randomness = "ranks",
) -> ParallelModule:
    """Returns this rank's part of a model, an ``nn.Module``.

    plan: made by `dimsolve.plan` of a graph of this model; one that was read is given its graph by
    ``plan.for_graph(graph)``. device_mesh: has the plan's axes by name, and may have others; None:
    a mesh of all ranks, or this process alone, on the model's device, where the plan is for one
    rank. Ranks wait for each other as long as the process group was told to. The part is called,
    and takes hooks, as the model does; a module inside of it is not called. Parameters on the meta
    device are made here, module by module. Raises PlanError, TraceError, LoweringError and
    AgreementError where model, plan and ranks do not fit, on every rank alike.

    inputs: what every rank gives when it calls the module.

    ``"whole"``: the whole batch, the same on all ranks. Outputs are whole.

    ``"local"``: its own part of each input that the plan cuts along a data axis
    (``plan.data_axes``), of one length on all ranks. The whole batch is the ranks' parts one after
    the other, in blocks where the plan cuts blocks. Ranks that differ along other axes only give
    the same parts, and what is not cut is the same on all ranks. An output that is made in parts
    along a data axis is this rank's part, everything else is whole, so a loss that the model
    returns is the whole batch's. A loss that is computed from such parts outside of the model is a
    summand: gradients are those of the sum over the data axes, so divide a mean by the number of
    ranks there.

    A DTensor on the mesh of the plan (or on some of its axes: it is the same along the others) is
    taken as the whole that it stands for, and converted where its placements are not the plan's.

    outputs: what of the model's outputs every rank is handed, by the names that the plan lists.
    ``"whole"``: all of each, as above. ``"placed"``: DTensors, of which a rank has the part that it
    has made, so that nothing is gathered. A mapping from patterns to ``"whole"``, ``"placed"`` or
    ``"none"``, which leaves out: ``{"logits": "placed"}``; the first pattern that fits counts, and
    what none fits is whole. A list of patterns: these whole, and nothing else: ``["loss"]``.

    randomness: what dropout draws, and whatever else draws. ``"ranks"``: numbers of the part's own,
    from a seed that the first rank draws in each call; they are not one device's, are the same
    where ranks hold the same, and differ where they hold parts. ``"one-device"``: what one device
    draws from torch's generator, which must be in one state on all ranks; every rank draws the
    whole mask and takes its part. LoweringError for an operator whose numbers cannot be drawn so.

    Inputs that must be equal are compared between ranks, by a digest of the contents, in the first
    4 calls, in calls whose number is a power of two or a multiple of 1024, and with sizes that were
    not seen before. Other calls send nothing for it, and never wait. AgreementError on all ranks
    names the inputs that differ, and the ranks.
    """
    if not isinstance(plan, Plan):
        raise no_plan(plan)
    graph = plan.planned
    if graph is None:
        raise _NO_GRAPH()
    if inputs not in ("whole", "local"):
        raise _NO_WAY(inputs=inputs)
    problem: DimsolveError | None = None
    try:
        if isinstance(model, ParallelModule):
            raise _A_PART()
        check_model(model, graph, "" if plan.precision is None else plan.precision.stored)
    except DimsolveError as error:
        problem = error
    agreement = Agreement(plan, device_mesh, way=inputs)
    agreement.agree_on_plan("" if problem is None else str(problem))
    if problem is not None:
        raise problem
    ends = rank_mesh(plan, device_mesh, alone_on=_device_of(model))
    agreement.agree_on_weights(model)
    given = GivenInputs.of(plan, ends.communicators, inputs)
    if inputs == "local" and not plan.data_axes and 1 not in given.mesh.values():
        raise _NO_DATA_AXIS(axes=" and ".join(plan.mesh))
    if given.unusual():
        warnings.warn(_unusual(given), stacklevel=2)
    returned = returned_as(outputs, ends, [output.name for output in plan.outputs])
    if randomness not in ("ranks", "one-device"):
        raise _NO_RANDOMNESS(randomness=randomness)
    program = lower_for(plan, ends, given, returned=returned, randomness=randomness)
    on_demand = OnDemand(model, plan, given)
    kind: Any = type(model)
    make: type[ParallelModule] = class_of(kind)
    return make(model, plan, program, ends, agreement, given, on_demand, returned, randomness)


class ParallelModule(torch.nn.Module):
    """One rank's part of a model. Made by `parallelize`. ``trained_by``: a Trainer that is made."""

    trained_by: Any = None
    _loads = 0
    _steps = 0

    def __init__(
        self,
        model: torch.nn.Module,
        plan: Plan,
        program: Program,
        ends: RankMesh,
        agreement: Agreement,
        given: GivenInputs | None = None,
        on_demand: OnDemand | None = None,
        returned: Returned | None = None,
        randomness: Randomness = "ranks",
    ) -> None:
        torch.nn.Module.__init__(self)
        self.training = model.training
        self.plan = plan
        self.program = program
        self.ends = ends
        self._held = held_by(plan, ends.communicators)
        precision = plan.precision
        stored = None if precision is None else getattr(torch, precision.stored)
        add_state(self, model, self._held, ends, stored)
        self._know_parameters()
        watch_optimizers()
        watch_wrappers()
        watch_init()
        given = given or GivenInputs.of(plan, ends.communicators, "whole")
        forward = signature_of(model)
        self._returned = self._usual = returned or Returned()
        self._randomness = randomness
        first = Entry(
            plan,
            given,
            agreement,
            ends,
            forward,
            self._usual,
            randomness=randomness,
            program=program,
        )
        self._programs = Programs(forward, [first], on_demand, self._add)
        self._inner: dict[str, Programs] = {}
        hooks: Any = self
        hooks.register_state_dict_post_hook(give_state)
        hooks.register_load_state_dict_pre_hook(take_state)
        hooks.register_load_state_dict_post_hook(_loaded)
        own = frozenset(vars(self)) | {"_loads", "_steps", "trained_by"}
        if on_demand is not None and on_demand.model is not None:
            _give_attributes(self, on_demand.model)
        if program.absent:
            _warn_absent(program.absent)
        watch_originals(model)
        traced = traced_attributes(model)
        self._traced = {name: said for name, said in traced.items() if name not in own}

    def __setattr__(self, name: str, value: Any) -> None:
        check_attribute(self, "", name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        check_removed(self, "", name)
        super().__delattr__(name)

    def apply(self, fn: Callable[[torch.nn.Module], None]) -> Self:
        """Raises LoweringError: it would find modules of no class that it knows."""
        raise APPLIED()

    def _know_parameters(self) -> None:
        """Notes where programs find their tensors, and at each parameter that it is a part."""
        mark_parameters(self)
        note_state(self)
        watch_gradients(self)
        self._places: dict[Program, list[tuple[Any, Any]]] = {}
        self._shapes = {
            (id(held), name): (path, ref(tensor), tensor.shape)
            for path, module in self.named_modules()
            for held in (module._parameters, module._buffers)
            for name, tensor in held.items()
            if tensor is not None
        }
        self._moded = {path: vars(module) for path, module in self.named_modules()}
        own = ref(self)
        for path, module in self.named_modules():
            if isinstance(module, PartModule):
                module.__dict__["call"] = partial(_called_inside, own, path)

    def _in_parts(self) -> dict[str, Tensor]:
        """Returns the parameters and buffers of which this rank has a part only."""
        return {
            name: tensor
            for name, tensor in (*self.named_parameters(), *self.named_buffers())
            if not self._held[name].whole
        }

    def tensors_of(self, program: Program) -> list[Any]:
        """The model's tensors that a program takes, as they are now."""
        places = self._places.get(program)
        if places is None:
            state = [slot for slot in program.slots if slot.kind != "input"]
            places = [_place_of(self, slot.kind, slot.target, program) for slot in state]
            self._places[program] = places
        try:
            found = [owner[key] for owner, key in places]
        except KeyError:
            held = [slot for slot in program.slots if slot.kind != "input"]
            gone = next(s for s, (owner, key) in zip(held, places, strict=True) if key not in owner)
            raise missing(self, gone.kind, gone.target) from None
        if not torch.compiler.is_compiling():
            for (home, key), tensor in zip(places, found, strict=True):
                path, own, shape = self._shapes.get((id(home), key), ("", None, None))
                if own is not None and own() is not tensor and tensor.shape != shape:
                    name = f"{path}.{key}" if path else key
                    shapes = tuple(tensor.shape), tuple(shape or ())
                    raise _NOT_A_PART(name=name, given=shapes[0], held=shapes[1])
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> ParallelModule:
        made: ParallelModule = copied(self, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NOT_PICKLED()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ParallelModule:
        """What ``to``, ``half`` and their kin call: a part is moved, and its dtypes are planned."""
        for name, parameter in self.named_parameters():
            probe = torch.empty(0, dtype=parameter.dtype)
            try:
                dtype = fn(probe).dtype
            except Exception:  # a function of no empty tensor converts none
                continue
            if dtype != parameter.dtype:
                raise _CONVERTED(name=name, before=parameter.dtype, now=dtype)
        made: Any = super()._apply
        found: ParallelModule = made(fn, recurse)
        return found

    @property
    def device_mesh(self) -> DeviceMesh | None:
        """The mesh of the plan's axes; None where one process runs alone."""
        return self.ends.mesh

    @property
    def programs(self) -> tuple[Entry, ...]:
        """The programs that there are by now, that of the plan first."""
        return tuple(self._programs.entries)

    def source(self) -> str:
        """Returns the program of this rank as the text of a Python module."""
        from ..lowering.emit import emit

        mesh = ", ".join(f"{axis}={size}" for axis, size in self.plan.mesh.items())
        title = f"{self.plan.graph.name} over {mesh}: the program of one rank."
        return emit(self.program, title=title, rank=self.ends.rank, ranks=self.ends.count)

    def held(self, name: str) -> Held:
        """Returns how a parameter or buffer is cut, by its qualified name. Raises LoweringError
        where there is none of that name.
        """
        found = self._held.get(name)
        if found is None:
            names = tuple(self._held)
            listed = ", ".join(get_close_matches(str(name), names) or names[:5])
            reason = f"it has {len(names)} of other names, among them {listed}"
            raise _NOT_HELD(name=name, reason=reason if names else "it is empty")
        return found

    def load_safetensors(self, path: str | Path, *, strict: bool = True) -> None:
        """Reads this rank's parts, and nothing else, of a file of safetensors or of a folder as
        ``save_pretrained`` writes it; see `dimsolve.exec.parallel.files.load_safetensors`.
        """
        load_safetensors(self, path, strict=strict)

    @property
    def is_distributed_loading_by_transformers(self) -> bool:
        """What every Trainer of transformers asks a model when it is made. One that does not know
        parts is refused here: it would scale the loss. Parts are not of that loading's kind.
        """
        if self.trained_by is None:
            raise OTHER_TRAINER()
        return False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the model returns for these arguments, which are the model's own."""
        return self._called(self._programs, args, kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Changes nothing: each backward pass of a part adds whole gradients, as accumulation wants
        them. It is here for loops that were written for DistributedDataParallel.
        """
        yield

    def _goes_forward(self) -> bool:
        """Whether torch computes derivatives forward, where ranks communicate."""
        several = any(end.size > 1 for end in self.ends.communicators.values())
        return several and forward_ad._current_level >= 0

    def _called(self, programs: Programs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.compiler.is_compiling():
            return self._run(programs, args, kwargs)
        if _is_transformed() or self._goes_forward():
            raise _TRANSFORMED()
        with unguarded():
            return self._run(programs, args, kwargs)

    def _run(self, programs: Programs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        modes = {path: held["training"] for path, held in self._moded.items()}
        entry, inputs, objects = programs.find(args, kwargs, modes)
        form = entry.first
        if self._returned is not self._usual or any(map(_is_placed, inputs)):
            inputs, form = self._placed(entry, inputs)
        if not entry.fits(inputs, form):
            entry, inputs, objects = programs.made_wider(entry, args, kwargs, modes)
            inputs, form = self._placed(entry, inputs)
        if torch.compiler.is_compiling():
            _admit_compiled(entry, inputs, form, self)
        else:
            entry.admit(inputs, form, self)
        return entry.run(inputs, self.tensors_of(form.program), form, objects)

    @torch.compiler.disable
    def _placed(self, entry: Entry, inputs: list[Tensor]) -> tuple[list[Tensor], Form]:
        """This rank's parts of inputs of which some are DTensors, and the program for them."""
        parts, layouts = local_parts(inputs, entry.arguments.names, self.ends)
        return parts, entry.form(layouts, self._returned)

    def call_inside(self, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns what a module of the model returns, by a program of its own."""
        if path not in self._inner:
            on_demand = self._programs.on_demand
            if on_demand is None or on_demand.model is None:
                raise MODULE_CALL()
            made = on_demand.inside(path)
            assert made.model is not None
            forward = signature_of(made.model)
            self._inner[path] = Programs(forward, [], made, self._add)
        return self._called(self._inner[path], args, kwargs)

    def _add(
        self, make: Callable[[], Plan], names: Names | None, forward: Callable[..., Any]
    ) -> Entry:
        """Makes the program of another plan, on all ranks together."""
        first, problem = self._programs.entries[0], None
        try:
            plan = make()
        except DimsolveError as error:
            problem = error
        agreement = first.agreement.another(self.plan if problem else plan)
        agreement.training = self.training
        agreement.agree_on_plan("" if problem is None else str(problem))
        if problem is not None:
            raise problem
        given = GivenInputs.of(plan, self.ends.communicators, first.first.given.way)
        stored = stored_otherwise(plan, self._held, self.ends)
        usual = self._usual
        return Entry(
            plan,
            given,
            agreement,
            self.ends,
            forward,
            usual,
            randomness=self._randomness,
            stored=stored,
            names=names,
        )

    def add(self, plan: Plan) -> None:
        """Adds a program for another call of the model, that of a plan: of a graph of the same
        model, over the same mesh. All ranks call it. What the plan cuts in another way than the
        part holds it is converted in each call. Raises PlanError for another model or mesh.
        """
        graph, model = plan.planned, getattr(self._programs.on_demand, "model", None)
        if graph is None:
            raise _NO_GRAPH()

        def make() -> Plan:
            if plan.mesh != self.plan.mesh:
                counts = {axis: end.size for axis, end in self.ends.communicators.items()}
                raise other_mesh(plan, counts, "a part has one mesh")
            if model is not None:
                check_model(model, graph, "" if plan.precision is None else plan.precision.stored)
            return plan

        made = self._add(make, None, self._programs.forward)
        self._programs.entries.append(made)

    @contextmanager
    def returning(self, outputs: Outputs) -> Iterator[None]:
        """Calls within hand out these outputs instead of those that `parallelize` was told."""
        before, self._returned = self._returned, returned_as(outputs, self.ends)
        try:
            yield
        finally:
            self._returned = before


def _called_inside(part: ref[ParallelModule], path: str, *args: Any, **kwargs: Any) -> Any:
    found = part()
    if found is None:
        raise MODULE_CALL()
    return found.call_inside(path, args, kwargs)


def _is_transformed() -> bool:
    """Whether a transform of torch.func is running."""
    return torch._C._functorch.maybe_current_level() is not None


def _is_placed(value: Tensor) -> bool:
    return type(value) is not Tensor and is_dtensor(value)


@torch.compiler.disable
def _admit_compiled(entry: Entry, inputs: list[Tensor], form: Form, part: Any) -> None:
    entry.admit(inputs, form, part)


@lru_cache(maxsize=256)
def class_of(kind: type[torch.nn.Module]) -> type[ParallelModule]:
    """Returns the class of the parts of a class of models, which is both: what the model's methods
    do with ``self`` they do with the part. Its parameters are the part's.
    """
    plain: Any = ParallelModule.forward
    forward: Any = FunctionType(plain.__code__, plain.__globals__, "forward", None, None)
    with suppress(TypeError, ValueError):
        forward.__signature__ = signature(kind.forward)
    members = {"forward": forward, "__module__": kind.__module__, "__doc__": kind.__doc__}
    members |= guarded(kind, ParallelModule) | methods_of(kind)
    try:
        return new_class(
            kind.__name__, (ParallelModule, kind), exec_body=lambda n: n.update(members)
        )
    except TypeError:  # a class of which none can be derived
        return ParallelModule


_OWN = frozenset(vars(torch.nn.Module())) | {"forward"}


def _give_attributes(part: ParallelModule, model: torch.nn.Module) -> None:
    """Gives a part what a model's methods find at it, but for what it has itself; its modules know
    the model's.
    """
    for path, module in model.named_modules():
        inner = part.get_submodule(path)
        if isinstance(inner, PartModule):
            inner.__dict__["of"] = ref(module)
    for name, value in vars(model).items():
        if name not in _OWN and not isinstance(value, Tensor):
            part.__dict__.setdefault(name, value)


def _loaded(module: ParallelModule, keys: Any) -> None:
    """A hook of ``load_state_dict``, which may have put other parameters in place of the parts."""
    tie_again(module)
    mark_parameters(module)
    module.__dict__["_loads"] = module._loads + 1


def held_by(plan: Plan, communicators: Mapping[str, Communicator]) -> dict[str, Held]:
    """Returns how each parameter and buffer of the plan is cut, by its qualified name."""
    sizes = tuple(mesh_sizes(plan, communicators).items())
    ends = tuple(communicators[axis] for axis in plan.mesh)
    return {
        entry.name: Held(tuple(placement_of(text, sizes) for text in entry.placements), ends)
        for entry in plan.inputs
        if entry.kind in ("parameter", "buffer")
    }


def returned_as(outputs: Outputs, ends: RankMesh, names: Sequence[str] | None = None) -> Returned:
    """Returns how outputs are handed out. names: of the plan's outputs, of which a word without
    ``*`` must be one. Raises LoweringError for what says nothing about outputs.
    """
    if isinstance(outputs, str):
        pairs = [("*", outputs)]
    elif isinstance(outputs, Mapping):
        pairs = list(outputs.items())
    else:
        pairs = [*[(name, "whole") for name in outputs], ("*", "none")]
    for pattern, kept in pairs:
        if kept not in ("whole", "placed", "none"):
            raise _NO_SUCH_KEPT(kept=kept)
        if names is not None and "*" not in pattern and pattern not in names:
            listed = ", ".join(get_close_matches(pattern, names) or names[:5])
            raise _NO_OUTPUT(name=pattern, listed=listed)
    mesh = ends.mesh

    def as_placed(layout: Layout) -> Callable[[Tensor], Tensor]:
        held = Held(layout, tuple(ends.communicators.values()))

        def as_dtensor(part: Tensor) -> Tensor:
            return part if mesh is None else held.dtensor(part, mesh)

        return as_dtensor

    found: list[Any] = [
        (pattern, kept) for pattern, kept in pairs if pattern != "*" or kept != "whole"
    ]
    return Returned(tuple(found), as_placed)


def stored_otherwise(plan: Plan, held: Mapping[str, Held], ends: RankMesh) -> dict[str, Layout]:
    """Returns the layouts of parameters and buffers that are held otherwise than a plan says."""
    sizes = tuple(mesh_sizes(plan, ends.communicators).items())
    whole = (Replicate(),) * len(ends.communicators)
    found: dict[str, Layout] = {}
    for entry in plan.inputs:
        if entry.kind in ("parameter", "buffer"):
            layout = held[entry.name].placements or whole
            if layout != tuple(placement_of(text, sizes) for text in entry.placements):
                found[entry.name] = layout
    return found


def signature_of(model: torch.nn.Module) -> Callable[..., Any]:
    """Returns a function with the signature of a model's, which does not hold the model."""

    def forward(*args: Any, **kwargs: Any) -> None:
        return None

    made: Any = forward
    with suppress(TypeError, ValueError):
        made.__signature__ = signature(model.forward)
    return forward


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


def _unusual(given: GivenInputs) -> str:
    return (
        f'inputs="local": the plan cuts {given.unusual()}, so each rank gives its part of that '
        "dimension, and not rows of its own"
    )


def _warn_absent(classes: tuple[str, ...]) -> None:
    listed = ", ".join(dict.fromkeys(classes))
    warnings.warn(
        f"the model returns objects that no program can return; they are None here: {listed}",
        stacklevel=4,
    )
