"""`parallelize`: the model as one rank runs it, a module with this rank's parts of the parameters.

    part = ds.parallelize(model, plan)            q_proj.weight (64, 64) -> (32, 64) at tp = 2
    loss = part(input_ids=ids, labels=ids).loss   whole batches in, what the model returns out
    loss.backward(); optimizer.step()             .grad is this rank's part of the gradient

The parameters have the model's qualified names, tied ones stay tied, and the model itself is left
as it is. Every rank of the mesh calls this, and then the module, with the same arguments.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dimsolve.ir.errors import Diagnostic
from dimsolve.partition.plan import Plan
from dimsolve.partition.plan_errors import no_plan

from ..distributed.agreement import Agreement
from ..distributed.communicator import Communicator
from ..distributed.mesh_ends import MeshEnds, mesh_ends
from ..lowering.lower import lower
from ..lowering.lowering_errors import LoweringError
from ..lowering.plan_text import mesh_sizes, placement_of
from ..lowering.program import Program
from .call_inputs import CallError, CallInputs
from .copies import copied, not_pickled
from .faults import explain, is_failure
from .held import Held
from .modes import depends_on_mode
from .optimizer_state import mark_parameters, watch_optimizers
from .outputs import rebuilder
from .state import add_state, give_state, refuse_hooks, take_state
from .whole_gradients import watch_gradients

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


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
        self._arguments = CallInputs(model.forward, names, getattr(graph, "settings", {}))
        self._rebuild = rebuilder(program.container)
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
        return self._rebuild(result)

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
