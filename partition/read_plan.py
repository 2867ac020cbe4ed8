"""The reader of plans: JSON text that `Plan.to_json` wrote, and nothing else.

All texts of a plan that was read are of its little languages, and all names name something in it:

    conversions.3.axis          'pp' is no axis of the mesh
    operators.7.lengths.n       '8 *' is no length
    outputs.0.source            'linear@4' is no value, and no conversion

So whatever is asked of a plan has an answer, also before it has met its graph. Whether the answers
are true is for `dimsolve.partition.planning.derive` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.read_expression import read_relation
from dimsolve.ir.strict_json import UnreadableJson, read_json
from dimsolve.solver.shapes import dim_of_text

from .checkpoints import first_wrong
from .gc_paused import gc_paused
from .mesh import Mesh
from .placement import read_placement
from .plan_data import (
    NOT_A_PLAN,
    PLAN_AGAIN,
    REAL,
    VERSIONS,
    ConversionPlan,
    LocalTensor,
    OperatorPlan,
    PlanData,
    PlanError,
    problem,
)

MAX_DEPTH = 250
"""How deep a plan's JSON may nest: the cases of a search's proof stand in each other."""

P = TypeVar("P", bound=PlanData)
Place: TypeAlias = tuple[str | int, ...]


def check_form(plan: PlanData) -> None:
    """Raises PlanError for the first text that cannot be read, or name that names nothing."""
    _Form(plan).check()


UNREADABLE = problem(
    "unreadable-file",
    "the plan's file cannot be read",
    "{path}: {reason}",
    "dimsolve plan TARGET --mesh tp=2 -o plan.json writes one",
)
ANOTHER_VERSION = problem(
    "another-version",
    "the plan has another version",
    "its version is {version}; this dimsolve reads versions "
    f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}",
    PLAN_AGAIN,
)


def _broken(reason: str, place: Place = ()) -> PlanError:
    """The error for data that are no plan. place: where in them, as keys and indices."""
    where = ".".join(shown(str(part)) for part in place)
    return NOT_A_PLAN(reason=f"at {where}: {reason}" if where else reason)


class _Form:
    """``known``: values and conversions that uses may be taken from; ``read``: texts that are all
    right.
    """

    def __init__(self, plan: PlanData) -> None:
        self.plan = plan
        self.known = {entry.value for entry in plan.inputs}
        self.known.update(each.value for entry in plan.operators for each in entry.outputs)
        self.read: set[tuple[Any, str]] = set()

    def check(self) -> None:
        plan = self.plan
        try:
            Mesh.with_axes(dict(plan.mesh))
        except DimsolveError as error:
            raise _broken(error.diagnostic.reason, ("mesh",)) from None
        for name in ("conditions", "facts"):
            for number, text in enumerate(getattr(plan, name)):
                self.text(text, read_relation, "condition", (name, number))
        for number, entry in enumerate(plan.inputs):
            self.tensor(entry, ("inputs", number))
            self.lengths(entry.whole or (), ("inputs", number, "whole"))
        # A conversion stands after the one that it starts from.
        for number, conversion in enumerate(plan.conversions):
            self.conversion(conversion, ("conversions", number))
        for number, operator in enumerate(plan.operators):
            self.operator(operator, ("operators", number))
        for number, output in enumerate(plan.outputs):
            self.tensor(output, ("outputs", number))
            self.source(output.source, ("outputs", number, "source"))
        if plan.regions and plan.version == 1:
            raise _broken("a plan of version 1 has no regions", ("regions",))
        for axis in plan.state:
            self.axis(axis, ("state",))
        for name in ("state", "precision"):
            if getattr(plan, name) and plan.version < 3:
                raise _broken(f"a plan of version {plan.version} has no {name}", (name,))
        precision = plan.precision
        for name in ("stored", "reduced") if precision is not None else ():
            if getattr(precision, name) not in REAL:
                raise _broken("there is no such dtype", ("precision", name))
        wrong = first_wrong(plan)
        if wrong is not None:
            number, reason = wrong
            raise _broken(reason, ("regions", number))

    def conversion(self, entry: ConversionPlan, place: Place) -> None:
        self.axis(entry.axis, (*place, "axis"))
        self.source(entry.source, (*place, "source"))
        self.placements(entry.before, (*place, "before"))
        self.placements(entry.after, (*place, "after"))
        for number, text in enumerate(entry.gradient):
            self.text(text, read_placement, "placement", (*place, "gradient", number))
        self.lengths(entry.shape_before or (), (*place, "shape_before"))
        self.lengths(entry.shape_after or (), (*place, "shape_after"))
        for name in ("bytes_forward", "bytes_backward"):
            self.text(getattr(entry, name), dim_of_text, "length", (*place, name))
        if entry.id in self.known:
            raise _broken(f"'{shown(entry.id)}' stands for two things", (*place, "id"))
        self.known.add(entry.id)

    def operator(self, entry: OperatorPlan, place: Place) -> None:
        for axis, split in entry.splits.items():
            self.axis(axis, (*place, "splits"))
            self.text(split.blocks, dim_of_text, "length", (*place, "splits", axis, "blocks"))
        for number, operand in enumerate(entry.operands):
            self.tensor(operand, (*place, "operands", number))
            self.source(operand.source, (*place, "operands", number, "source"))
        for number, made in enumerate(entry.outputs):
            self.tensor(made, (*place, "outputs", number))
        for number, index in enumerate(entry.inputs):
            if index is not None and not 0 <= index < len(entry.operands):
                raise _broken("there is no such operand", (*place, "inputs", number))
        for name, length in entry.lengths.items():
            self.text(length, dim_of_text, "length", (*place, "lengths", name))
        for name, lengths in entry.sizes.items():
            self.lengths(lengths, (*place, "sizes", name))
        for number, sent in enumerate(entry.sends):
            self.axis(sent.axis, (*place, "sends", number, "axis"))
            self.text(sent.bytes, dim_of_text, "length", (*place, "sends", number, "bytes"))
            if self.plan.version < 3:
                reason = f"a plan of version {self.plan.version} has no sends"
                raise _broken(reason, (*place, "sends"))
        for axis in entry.randomness.differs if entry.randomness is not None else ():
            self.axis(axis, (*place, "randomness"))

    def tensor(self, entry: LocalTensor, place: Place) -> None:
        self.placements(entry.placements, (*place, "placements"))
        self.lengths(entry.shape or (), (*place, "shape"))

    def placements(self, texts: Sequence[str], place: Place) -> None:
        if len(texts) != len(self.plan.mesh):
            reason = f"there are {len(texts)} placements for {len(self.plan.mesh)} axes"
            raise _broken(reason, place)
        for number, text in enumerate(texts):
            self.text(text, read_placement, "placement", (*place, number))

    def lengths(self, texts: Iterable[str | None], place: Place) -> None:
        for number, text in enumerate(texts):
            if text is not None:
                self.text(text, dim_of_text, "length", (*place, number))

    def text(self, text: str, reader: Callable[[str], Any], what: str, place: Place) -> None:
        if (what, text) in self.read:
            return
        try:
            reader(text)
        except DimsolveError:
            raise _broken(f"'{shown(text)}' is no {what}", place) from None
        self.read.add((what, text))

    def axis(self, name: str, place: Place) -> None:
        if name not in self.plan.mesh:
            raise _broken(f"'{shown(name)}' is no axis of the mesh", place)

    def source(self, name: str, place: Place) -> None:
        if name not in self.known:
            raise _broken(f"'{shown(name)}' is no value, and no conversion before it", place)


def read_plan(text: str | bytes, make: type[P]) -> P:
    """Returns the plan; raises PlanError for another version of the schema, or what is no plan."""
    if not isinstance(text, str | bytes | bytearray):
        raise _broken(f"it is a {type(text).__name__}, not text")
    with gc_paused():
        try:
            data: Any = read_json(text, MAX_DEPTH)
        except UnreadableJson as error:
            raise _broken(f"it is no JSON: {error.reason}") from None
        if not isinstance(data, dict):
            raise _broken(f"it is a JSON {type(data).__name__}, not an object")
        version = data.get("version")
        if type(version) is not int or version not in VERSIONS:
            raise ANOTHER_VERSION(version=shown(repr(version)))
        try:
            plan = make.model_validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise _broken(first["msg"], first["loc"]) from None
        check_form(plan)
        return plan


def file_text(path: str | Path) -> bytes:
    """Returns what is in a plan's file; raises PlanError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UNREADABLE(path=shown(str(path), 200), reason=reason) from None
