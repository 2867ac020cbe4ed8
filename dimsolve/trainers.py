"""Hugging Face's Trainer and accelerate for a part of a model: the curve of one device.

    from dimsolve.trainers import Trainer             instead of transformers' Trainer
    part = ds.parallelize(model, plan, inputs="local")
    Trainer(model=part, args=TrainingArguments(...), train_dataset=data).train()

    from dimsolve.trainers import Accelerator         instead of accelerate's
    part, optimizer, loader = Accelerator().prepare(part, optimizer, loader)

All else stays as it is. What these classes know of a part: no DistributedDataParallel is put around
it, loaders are cut along the plan's data axes only (with ``inputs="whole"`` every rank loads the
whole batch), a loss is the whole batch's on every rank, and what is saved is whole: a folder that
``from_pretrained`` reads, beside the optimiser's state, which each rank writes for itself and any
other mesh reads. A batch per device is that of one coordinate of the data axes.

Another Trainer, such as trl's, takes `TrainerOfParts` first among its bases.
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator as _Accelerator
from accelerate.utils import recursively_apply

from dimsolve.exec.distributed.communicator import common_number
from dimsolve.exec.lowering.setting import LoweringError
from dimsolve.exec.parallel.files import (
    load_optimizer,
    load_safetensors,
    save_optimizer,
    whole_state,
)
from dimsolve.exec.parallel.parallelize import ParallelModule
from dimsolve.ir.errors import Problem

if TYPE_CHECKING:
    from transformers import Trainer

    _Trainer = Trainer
else:
    _Trainer = object  # a Trainer is the next base

__all__ = ["Accelerator", "Trainer", "TrainerOfParts"]

_OTHER_WORLD = Problem(
    LoweringError,
    "not-all-ranks",
    "the part is on {count} ranks, and accelerate knows of {world}",
    "a Trainer and an Accelerator work on all ranks together",
    "start the ranks with torchrun or accelerate launch, and plan for all of them",
)
_NO_PART = Problem(
    LoweringError,
    "no-part",
    "the loader is prepared before the part of the model",
    "which ranks are given the same data is known from the part",
    "prepare the part first, or both in one call of prepare",
)
_NO_PART_GIVEN = Problem(
    LoweringError,
    "not-a-part",
    "the model is a {kind}",
    "this Trainer trains parts of models",
    "give ds.parallelize(model, plan), or take the Trainer of transformers",
)
_UNSUPPORTED = Problem(
    LoweringError,
    "trainer-setting",
    "a Trainer of parts cannot do with {setting}",
    "{reason}",
    "{hint}",
)


class Accelerator(_Accelerator):  # type: ignore[misc]  # accelerate declares no types
    """accelerate's Accelerator, which knows parts of models. Whatever else it is given it treats as
    accelerate does.
    """

    _part: ParallelModule | None = None
    _loading = False

    def prepare(self, *args: Any, **kwargs: Any) -> Any:
        for each in args:
            self._take(each)
        return super().prepare(*args, **kwargs)

    def _take(self, model: Any) -> bool:
        """Whether something is a part of a model, which this one works with from now on."""
        if not isinstance(model, ParallelModule):
            return False
        if model.ends.count != self.state.num_processes:
            raise _OTHER_WORLD(count=model.ends.count, world=self.state.num_processes)
        self._part = model
        return True

    def prepare_model(
        self, model: Any, device_placement: bool | None = None, evaluation_mode: bool = False
    ) -> Any:
        if self._take(model):  # what evaluation leaves out is the wrapping
            return super().prepare_model(model, device_placement=False, evaluation_mode=True)
        return super().prepare_model(model, device_placement, evaluation_mode)

    @property
    def _data_places(self) -> tuple[int, int]:
        """How many different batches ranks are given, and the number of this rank's."""
        part = self._part
        if part is None or not _is_local(part):
            return 1, 0
        ends = [part.ends.communicators[axis] for axis in part.plan.data_axes]
        place = 0
        for end in ends:
            place = place * end.size + end.rank
        return prod([end.size for end in ends]), place

    @property
    def num_processes(self) -> int:
        return self._data_places[0] if self._loading else int(super().num_processes)

    @property
    def process_index(self) -> int:
        return self._data_places[1] if self._loading else int(super().process_index)

    def prepare_data_loader(self, data_loader: Any, *args: Any, **kwargs: Any) -> Any:
        part = self._part
        if part is None:
            if self.num_processes > 1:
                raise _NO_PART()
            return super().prepare_data_loader(data_loader, *args, **kwargs)
        if self.dataloader_config.dispatch_batches is None:
            self.dataloader_config.dispatch_batches = False
        sampler: Any = getattr(data_loader, "sampler", None)
        alike = self.use_seedable_sampler or getattr(sampler, "generator", self) is not None
        if not alike:  # accelerate makes ranks shuffle alike only where it cuts the batches
            number = common_number(part.ends.communicators.values(), part.ends.device)
            sampler.generator = torch.Generator().manual_seed(number)
        self._loading = True
        try:
            return super().prepare_data_loader(data_loader, *args, **kwargs)
        finally:
            self._loading = False

    def gather(self, tensor: Any) -> Any:
        """Returns the rows of all ranks that were given different data, each once."""
        found = super().gather(tensor)
        part = self._part
        if part is None or part.ends.mesh is None or part.ends.count == 1:
            return found
        axes = part.plan.data_axes if self._data_places[0] > 1 else ()
        ranks = part.ends.mesh.mesh
        for number, axis in enumerate(part.plan.mesh):
            if axis not in axes:
                ranks = ranks.narrow(number, 0, 1)
        rows, world = ranks.flatten(), part.ends.count

        def of_data_ranks(x: torch.Tensor) -> torch.Tensor:
            return x.reshape(world, -1, *x.shape[1:])[rows.to(x.device)].flatten(0, 1)

        return recursively_apply(of_data_ranks, found)

    def get_state_dict(self, model: Any, unwrap: bool = True) -> Any:
        """Returns whole tensors, on the first rank; {} on the others, which have to call it too."""
        inner = self.unwrap_model(model, keep_torch_compile=False)
        if isinstance(inner, ParallelModule):
            return whole_state(inner, keep=self.is_main_process)
        return super().get_state_dict(model, unwrap)

    def save_state(self, *args: Any, **kwargs: Any) -> Any:
        return self._with_own_files(super().save_state, _save_optimizers, args, kwargs)

    def load_state(self, *args: Any, **kwargs: Any) -> Any:
        return self._with_own_files(super().load_state, _load_state, args, kwargs)

    def _with_own_files(self, call: Any, own: Any, args: Any, kwargs: Any) -> Any:
        """Lets a part's optimisers, and the part where it is read, be files of their own."""
        if self._part is None:
            return call(*args, **kwargs)
        optimizers: Any = self._optimizers
        self._optimizers: Any = []
        part, hooks = self._part, getattr(self, _HOOKS[own])

        def hook(models: list[Any], *given: Any) -> None:
            own(part, optimizers, models, Path(given[-1]))

        hooks[hook] = hook
        try:
            return call(*args, **kwargs)
        finally:
            del hooks[hook]
            self._optimizers = optimizers


def _save_optimizers(part: Any, optimizers: Any, models: list[Any], folder: Path) -> None:
    for number, each in enumerate(optimizers):
        save_optimizer(part, each.optimizer, folder / f"optimizer_{number}")


def _load_state(part: Any, optimizers: Any, models: list[Any], folder: Path) -> None:
    models.clear()  # accelerate has nothing more to load into them
    load_safetensors(part, folder)
    for number, each in enumerate(optimizers):
        load_optimizer(part, each.optimizer, folder / f"optimizer_{number}")


_HOOKS = {
    _save_optimizers: "_save_model_state_pre_hook",
    _load_state: "_load_model_state_pre_hook",
}


class TrainerOfParts(_Trainer):  # type: ignore[misc, valid-type]  # object where transformers is missing
    """What a Trainer does otherwise with a part: the first base of a class, before the Trainer."""

    def __init__(self, model: Any = None, args: Any = None, *others: Any, **kwargs: Any) -> None:
        if not isinstance(model, ParallelModule):
            raise _NO_PART_GIVEN(kind=type(model).__name__)
        _check_settings(args, kwargs, model)
        if args is not None:
            args.average_tokens_across_devices = True  # counts the items of the whole batch
        self._part = model
        model.trained_by = self
        try:
            super().__init__(model, args, *others, **kwargs)
        finally:
            model.trained_by = None

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        self.accelerator.__class__ = Accelerator  # the Trainer knows one class by name only
        self.accelerator._take(self._part)

    def get_decay_parameter_names(self, model: Any) -> list[str]:
        """Norms do not decay, by their classes too, which the model's own modules have."""
        found: list[str] = super().get_decay_parameter_names(_skeleton(self._part) or model)
        return found

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        self.args.average_tokens_across_devices = False  # ranks' losses are no summands
        try:
            return super().compute_loss(*args, **kwargs)
        finally:
            self.args.average_tokens_across_devices = True

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        state = whole_state(self._part, keep=self.args.should_save)
        if self.args.should_save:
            super()._save(output_dir, state)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        try:
            load_safetensors(self._part, resume_from_checkpoint)
        except LoweringError as error:
            model = _skeleton(self._part)
            if error.diagnostic.code not in ("other-names", "other-shape") or model is None:
                raise  # else the files have the names of an older form, which its class converts
            whole = type(model).from_pretrained(resume_from_checkpoint)
            self._part.load_state_dict(whole.state_dict())

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(self.state.best_model_checkpoint)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        save_optimizer(self._part, self.optimizer.optimizer, Path(output_dir) / _MOMENTS)
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        moments = Path(checkpoint or "") / _MOMENTS
        if not checkpoint or not moments.is_dir():  # of one device: whole tensors
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        load_optimizer(self._part, self.optimizer.optimizer, moments)
        state = torch.load(Path(checkpoint) / "scheduler.pt", weights_only=True)
        self.lr_scheduler.load_state_dict(state)


_MOMENTS = "optimizer"


def _is_local(part: ParallelModule) -> bool:
    """Whether every rank gives its own part of the data."""
    return part._programs.entries[0].first.given.way == "local"


def _skeleton(part: ParallelModule) -> Any:
    """The model that a part is of, without its weights; None where there is none."""
    on_demand = part._programs.on_demand
    return None if on_demand is None else on_demand.model


def _check_settings(args: Any, kwargs: Any, part: ParallelModule) -> None:
    """Raises LoweringError for what a part cannot be trained with."""
    local = _is_local(part)
    outside = 'with inputs="local" a loss computed outside of the model is that of a rank\'s rows'
    inside = 'let the model compute its loss, or give inputs="whole" to parallelize'
    refused: dict[str, tuple[Any, str, str]] = {
        "gradient_checkpointing": (
            getattr(args, "gradient_checkpointing", False),
            "which regions are run again is part of the trace",
            "call model.gradient_checkpointing_enable() before ds.trace",
        ),
        "fsdp": (
            getattr(args, "fsdp", None),
            "the plan says which rank holds what",
            "plan for it, or wrap the part in fully_shard",
        ),
        "deepspeed": (
            getattr(args, "deepspeed", None),
            "the plan says which rank holds what",
            "plan for it",
        ),
        "label_smoothing_factor": (
            local and getattr(args, "label_smoothing_factor", 0),
            outside,
            inside,
        ),
        "compute_loss_func": (local and kwargs.get("compute_loss_func"), outside, inside),
    }
    for setting, (given, reason, hint) in refused.items():
        if given:
            raise _UNSUPPORTED(setting=setting, reason=reason, hint=hint)


def __getattr__(name: str) -> Any:
    """Makes `Trainer` when it is asked for: accelerate alone needs no transformers."""
    if name != "Trainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    base: Any = import_module("transformers").Trainer
    made = type(name, (TrainerOfParts, base), {"__module__": __name__, "__doc__": base.__doc__})
    globals()[name] = made
    return made
