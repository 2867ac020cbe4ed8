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
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.ir.graph import Place
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_data import no_plan

from ..distributed.communicator import Communicator
from ..lowering.program import Program
from ..lowering.setting import LoweringError, mesh_sizes, placement_of
from ..modes import autocast_now
from .agreement import Agreement, AgreementError
from .call_inputs import CallError, CallInputs, Rebuilder
from .faults import explain, is_failure
from .files import load_safetensors
from .given_inputs import (
    Form,
    GivenInputs,
    Way,
    is_compared,
    is_dtensor,
    local_parts,
    lower_for,
    told_by_all,
)
from .mesh import RankMesh, rank_mesh
from .optimizers import mark_parameters, watch_gradients, watch_optimizers
from .same_model import check_model, depends_on_mode
from .state import NOT_PICKLED, Held, add_state, copied, give_state, take_state
from .wrapped import OTHER_TRAINER, watch_wrappers

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


_NOT_HELD = Problem(
    LoweringError,
    "not-held",
    "the part has no parameter or buffer named {name}",
    "{reason}",
    "names are as in model.named_parameters() and model.named_buffers()",
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
_NO_DATA_AXIS = Problem(
    LoweringError,
    "no-data-axis",
    'inputs="local" needs a plan that cuts data',
    "along {axes} this one cuts no input, or parameters too: all ranks work on the same batch",
    'give the same batch on all ranks, inputs="whole", or plan for a data axis as well, '
    "such as {{'dp': 2, 'tp': 2}}",
)
_OTHER_MODE = Problem(
    CallError,
    "other-mode",
    "the model was traced in {traced} mode and is called in {called} mode",
    "{operator} computes something else there",
    "trace and parallelize the model once more, in {called} mode",
)


def parallelize(
    model: torch.nn.Module,
    plan: Plan,
    device_mesh: DeviceMesh | None = None,
    *,
    inputs: Way = "whole",
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
        check_model(model, graph)
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
    program = lower_for(plan, ends, given)
    return ParallelModule(model, plan, program, ends, agreement, given)


class ParallelModule(torch.nn.Module):
    """One rank's part of a model. Made by `parallelize`. ``trained_by``: a Trainer that is made."""

    trained_by: Any = None

    def __init__(
        self,
        model: torch.nn.Module,
        plan: Plan,
        program: Program,
        ends: RankMesh,
        agreement: Agreement,
        given: GivenInputs | None = None,
    ) -> None:
        super().__init__()
        self.training = model.training
        self.plan = plan
        self.program = program
        self.ends = ends
        self._agreement = agreement
        self._held = held_by(plan, ends.communicators)
        traced = getattr(plan.planned, "traced", {}).get("")
        self._traced_in_training = model.training if traced is None else traced.training
        self._depends_on_mode = depends_on_mode(plan)
        self._mesh_sizes = mesh_sizes(plan, ends.communicators)
        add_state(self, model, self._held, ends)
        self._know_parameters()
        watch_optimizers()
        watch_wrappers()
        names = [slot.target for slot in program.slots if slot.kind == "input"]
        graph = plan.planned
        self._rebuild = Rebuilder(program.container, program.left, program.objects, ends.device)
        self._arguments = CallInputs(
            model.forward, names, getattr(graph, "settings", {}), ends.device
        )
        given = given or GivenInputs.of(plan, ends.communicators, "whole")
        self._form = Form(program, given)
        self._forms: dict[Any, Form] = {}
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
        raise NOT_PICKLED()

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
        inputs = self._arguments(args, kwargs)
        given = self._arguments.objects(args, kwargs) if self._rebuild.takes_objects else {}
        for value in inputs:
            if type(value) is not Tensor and is_dtensor(value):
                return self._called_with_dtensors(inputs, given)
        if torch.compiler.is_compiling():
            self._admit_compiled(inputs)
        else:
            self._admit(inputs, self._form)
        return self._run(inputs, self.program, given)

    @torch.compiler.disable
    def _called_with_dtensors(self, inputs: list[Tensor], given: Mapping[Place, Any]) -> Any:
        """The same for inputs of which some are DTensors: a program for each way they are cut."""
        locals, layouts = local_parts(inputs, self._arguments.names, self.ends)
        key = tuple(layouts.items())
        if key not in self._forms:
            cut = self._form.given.with_layouts(layouts)
            self._forms[key] = Form(lower_for(self.plan, self.ends, cut), cut, layouts)
        form = self._forms[key]
        self._admit(locals, form)
        return self._run(locals, form.program, given)

    def _run(self, inputs: list[Tensor], program: Program, given: Mapping[Place, Any]) -> Any:
        try:
            result = program.run([*inputs, *[owner[key] for owner, key in self._places]])
        except Exception as error:
            if is_failure(error):
                explain(error, program, self.ends)
            raise
        return self._rebuild(result, given)

    def _admit(self, inputs: list[Tensor], form: Form) -> None:
        """Checks with all ranks what was not seen before, and now and then the contents."""
        agreement, names = self._agreement, self._arguments.names
        agreement.calls += 1
        if self.training is not self._traced_in_training and self._depends_on_mode:
            traced, called = "training", "evaluation"
            if self.training:
                traced, called = called, traced
            raise _OTHER_MODE(traced=traced, called=called, operator=self._depends_on_mode)
        cast = autocast_now()
        sizes = tuple([(value.shape, value.dtype) for value in inputs])
        key = (sizes, *cast.items())
        if key in form.admitted:
            agreement.note((names, sizes, form.text, cast))
            if is_compared(agreement.calls) and not agreement.alone:
                self._compare(inputs, form)
            return
        tensors = dict(zip(names, inputs, strict=True))
        agreement.agree_on_inputs(
            form.given,
            tensors,
            form.program.inputs,
            self._mesh_sizes,
            layouts=form.text,
            cast=cast,
        )
        form.admitted.add(key)

    def _compare(self, inputs: list[Tensor], form: Form) -> None:
        """Raises AgreementError on all ranks where contents differ that must be equal."""
        tensors = dict(zip(self._arguments.names, inputs, strict=True))
        told = told_by_all(tensors, self.ends)
        different = form.given.different_contents(told, form.given.places(list(told)))
        if different is not None:
            raise AgreementError(different)

    @torch.compiler.disable
    def _admit_compiled(self, inputs: list[Tensor]) -> None:
        self._admit(inputs, self._form)


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
