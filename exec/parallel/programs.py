"""The programs of one part: training, evaluation, prefill, decoding, each for its way of calling.

    part(input_ids=ids, labels=ids)         the program of the plan that parallelize was given
    part.eval(); part(input_ids=ids)        another one, traced when it is first asked for
    part(input_ids=token, past_key_values=cache)      a third

All use the parameters and buffers that the part holds: a program takes them as arguments, and
converts where it begins what its plan wants in other parts than they are held in. A program is
found by the mode of the model's modules, by which arguments are tensors and which objects of which
classes, and by the values of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.compiler import disable

from dimsolve.ir.errors import DimsolveError, Problem
from dimsolve.ir.graph import Place
from dimsolve.partition.layout import Layout
from dimsolve.partition.plan import Plan
from dimsolve.partition.sizes import check_conditions

from ..capture.argument_objects import class_path, is_plain_container, setting_of
from ..capture.dynamic import Leaf, parts_and_leaves
from ..lowering.program import Program
from ..lowering.setting import Returned, mesh_sizes
from ..modes import autocast_now, state_of
from ..rebuild import Rebuilder
from .agreement import Agreement, AgreementError, gradient_mode
from .call_inputs import CallError, CallInputs
from .faults import explain, is_failure
from .given_inputs import (
    Form,
    GivenInputs,
    Randomness,
    is_compared,
    lower_for,
    told_by_all,
)
from .held_state import different_state, state_told
from .mesh import RankMesh
from .on_demand import Modes, Names, OnDemand, widened
from .same_model import MODULE_CALL, check_structure, depends_on_mode

Add: TypeAlias = "Callable[[Callable[[], Plan], Names | None, Callable[..., Any]], Entry]"

KEPT = 1024
"""So many sizes are remembered that fit."""

LIMIT = 8
"""So many programs are made for calls that differ in values only that are no tensors."""

_COUNTERS = (".cumulative_length", ".cumulative_length_int")
"""Where layers of transformers' caches note how many tokens they have seen."""

_FLAT = (Tensor, int, float, str, bool, type(None))

_OTHER_MODE = Problem(
    CallError,
    "other-mode",
    "the model was traced in {traced} mode and is called in {called} mode",
    "{operator} computes something else there",
    "trace and parallelize the model once more, in {called} mode",
)
_TOO_MANY = Problem(
    CallError,
    "too-many-programs",
    "{name} has another value in every call",
    "the part has {count} programs that differ in what is no tensor, the last ones with {values}; "
    "each is traced and planned, and kept",
    "give a tensor: torch.tensor({name})",
)
_COUNTS_TOKENS = Problem(
    CallError,
    "cache-counts",
    "{name} is a number of tokens, and another one in every call",
    "a layer of a cache that forgets what has left its window counts in Python, and each count "
    "would be a program of its own",
    "part.generate(...); or give past_key_values=DynamicCache(), which keeps all, and masks leave "
    "out what has left the window",
)

_OTHER_DTYPE = Problem(
    CallError,
    "other-dtype",
    "the model was traced under another autocast than it is called in: {called}",
    "it reads the dtype of a tensor that it computes, at {line}, and would read another one here",
    "trace the model inside of the torch.autocast that it is called in",
)


INTEGERS = frozenset({"uint8", "int8", "int16", "int32", "int64"})


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


class Entry:
    """One program of a part, and all that a call of it needs.

    given, stored: how inputs are given, and which parameters are held otherwise than the plan says.
    names: of dynamic dimensions, where it was made on demand, else None; shapes: of the
    tensors of that call. modes: of the modules when
    the model was traced; {} where nobody knows.
    """

    def __init__(
        self,
        plan: Plan,
        given: GivenInputs,
        agreement: Agreement,
        ends: RankMesh,
        forward: Callable[..., Any],
        returned: Returned,
        *,
        randomness: Randomness = "ranks",
        program: Program | None = None,
        stored: Mapping[str, Layout] | None = None,
        names: Names | None = None,
    ) -> None:
        self.plan = plan
        self.ends = ends
        self.agreement = agreement
        self.names = names
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._stored = stored or {}
        self._forms: dict[Any, Form] = {}
        self._returned = returned
        self._randomness = randomness
        program = program or self._lowered(given, returned)
        self.first = Form(program, given)
        graph = plan.planned
        inputs = [slot.target for slot in program.slots if slot.kind == "input"]
        settings = getattr(graph, "settings", {})
        self.rebuild = Rebuilder(program.container, program.left, program.objects, ends.device)
        self.arguments = CallInputs(forward, inputs, settings, ends.device)
        self.mesh_sizes = mesh_sizes(plan, ends.communicators)
        self.depends_on_mode = depends_on_mode(plan)
        self.dtype_reads: Mapping[str, str] = getattr(graph, "dtype_reads", {})
        traced: Mapping[str, Any] = getattr(graph, "traced", {})
        self.modes = {path: module.training for path, module in traced.items()}
        agreement.training = self.modes.get("")

    def __repr__(self) -> str:
        words: dict[Any, str] = {True: "training", False: "evaluation"}
        mode = words.get(self.modes.get(""), "any mode")
        return f"Entry({mode}: {', '.join(self.arguments.names) or 'no tensors'})"

    def _lowered(self, given: GivenInputs, returned: Returned) -> Program:
        return lower_for(
            self.plan,
            self.ends,
            given,
            stored=self._stored,
            returned=returned,
            randomness=self._randomness,
        )

    def form(self, layouts: Mapping[str, Layout], returned: Returned) -> Form:
        """Returns the program for DTensors in these layouts, and for what is to be returned."""
        if not layouts and returned is self._returned:
            return self.first
        key = (tuple(layouts.items()), returned.by_pattern)
        if key not in self._forms:
            given = self.first.given.with_layouts(layouts)
            program = self._lowered(given, returned)
            self._forms[key] = Form(program, given, layouts)
        return self._forms[key]

    def fits(self, inputs: Sequence[Tensor], form: Form) -> bool:
        """Whether the plan was made for tensors of these sizes. They are as a form takes them."""
        if self.names is None or _sizes(inputs) in form.fitting:
            return True
        tensors = dict(zip(self.arguments.names, inputs, strict=True))
        lengths, wholes = form.program.inputs, form.given.wholes(tensors)
        try:
            lengths.check_dtypes({name: tensor.dtype for name, tensor in tensors.items()})
            check_conditions(self.plan, {**lengths.sizes(wholes), **self.mesh_sizes})
        except DimsolveError:
            return False
        if len(form.fitting) >= KEPT:
            form.fitting.clear()
        form.fitting.add(_sizes(inputs))
        return True

    def admit(self, inputs: Sequence[Tensor], form: Form, part: Any) -> None:
        """Checks with all ranks what was not seen before, and now and then the contents."""
        agreement, names = self.agreement, self.arguments.names
        agreement.go_on()
        agreement.calls += 1
        cast = autocast_now()
        trained = tuple([parameter.requires_grad for _, parameter in part.named_parameters()])
        mode = gradient_mode()
        key = (self._told_apart_by(inputs, form), trained, mode, *cast.items())
        if key in form.admitted:
            frozen = frozen_in(part, trained)
            agreement.note((names, _told(inputs, names, form), form.text, cast, frozen, mode))
            if is_compared(agreement.calls):
                check_structure(part)
                if not agreement.alone:
                    self._compare(inputs, form, part)
            return
        state = state_of(cast, self.ends.device.type)
        if state in self.dtype_reads:
            raise _OTHER_DTYPE(called=f"autocast {state}", line=self.dtype_reads[state])
        check_structure(part)
        tensors = dict(zip(names, inputs, strict=True))
        agreement.agree_on_inputs(
            form.given,
            tensors,
            form.program.inputs,
            self.mesh_sizes,
            layouts=form.text,
            cast=cast,
            frozen=frozen_in(part, trained),
            part=part,
        )
        form.admitted.add(key)

    def _told_apart_by(self, inputs: Sequence[Tensor], form: Form) -> tuple[Any, ...]:
        """The shapes and dtypes that ranks agree on. The sizes of DTensors they know already, such
        as those of a cache that grows, and `fits` asks the plan about each.
        """
        if self.names is None or not form.layouts:
            return _sizes(inputs)
        given = zip(self.arguments.names, inputs, strict=True)
        return tuple([(x.ndim if n in form.layouts else x.shape, x.dtype) for n, x in given])

    def _compare(self, inputs: Sequence[Tensor], form: Form, part: Any) -> None:
        """Raises AgreementError on all ranks where contents differ that must be equal."""
        tensors = dict(zip(self.arguments.names, inputs, strict=True))
        told, states = told_by_all(tensors, state_told(part), self.ends)
        places = form.given.places(list(told))
        different = form.given.different_contents(told, places)
        if different is None:
            different = different_state(part, states, places)
        if different is not None:
            raise AgreementError(different)

    def run(
        self, inputs: Sequence[Tensor], tensors: Sequence[Any], form: Form, objects: Any
    ) -> Any:
        """Returns what the model returns. tensors: the model's, in the order of the slots."""
        try:
            result = form.program.run([*inputs, *tensors])
        except Exception as error:
            if is_failure(error):
                explain(error, form.program, self.ends, self.agreement.call)
            raise
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            self.agreement.watch_backward(result, form.program.names, self.ends)
        return self.rebuild(result, objects)


def frozen_in(part: Any, trained: Sequence[bool]) -> list[str]:
    """Returns the names of a part's parameters that require no gradient."""
    names = [name for name, _ in part.named_parameters()]
    return [name for name, wanted in zip(names, trained, strict=True) if not wanted]


def _sizes(inputs: Sequence[Tensor]) -> tuple[Any, ...]:
    return tuple([(value.shape, value.dtype) for value in inputs])


def _told(inputs: Sequence[Tensor], names: Sequence[str], form: Form) -> tuple[Any, ...]:
    """What other ranks are told of the sizes: of unequal parts that of the whole."""
    if not form.given.dealt:
        return _sizes(inputs)
    given = zip(names, inputs, strict=True)
    return tuple([(form.given.compared(name, x.shape), x.dtype) for name, x in given])


class Call:
    """A call's arguments, and what they hold."""

    def __init__(self, forward: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs
        self.parts = parts_and_leaves(forward, args, kwargs, None)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells programs apart: what each leaf is, and the value of what is no tensor."""
        return tuple([(part.name, *_kind(part)) for part in self.parts])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors, by leaf."""
        return {p.name: tuple(p.value.shape) for p in self.parts if isinstance(p.value, Tensor)}

    @property
    def objects(self) -> dict[Place, Any]:
        """The objects and containers, by their places."""
        return {part.place: part.value for part in self.parts if part.whole}


def _is_call_of(forward: Callable[..., Any], call: Call) -> bool:
    """Whether a model takes such a call at all, so that what it says of it is the reason."""
    try:
        signature(forward).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _kind(part: Leaf) -> tuple[Any, ...]:
    if part.whole:
        plain = is_plain_container(part.value)
        return (type(part.value) if plain else class_path(type(part.value)),)
    if isinstance(part.value, Tensor):
        return (Tensor, _form_of(part.value))
    value = setting_of(part.value)
    return (type(value), value)


def _form_of(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.ndim, tensor.dtype)


class Programs:
    """The table of a part's programs.

    forward: has the signature of the model's, or of the module's inside of it. on_demand: makes
    plans for other calls; None: there are none but those that were given. add: makes the entry of a
    plan, on all ranks together.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        entries: Sequence[Entry],
        on_demand: OnDemand | None,
        add: Add,
    ) -> None:
        self.forward = forward
        self.entries = list(entries)
        self.on_demand = on_demand
        self._add = add
        self._ways: dict[Any, tuple[Entry, list[int]]] = {}
        self._found: dict[Any, Entry] = {}
        self._counts: dict[Any, list[tuple[Any, ...]]] = {}

    def for_copy(self, add: Add) -> Programs:
        """Returns the table of a copy of the part: the same programs, and more of its own."""
        return Programs(self.forward, self.entries, self.on_demand, add)

    def find(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], modes: Modes
    ) -> tuple[Entry, list[Any], dict[Place, Any]]:
        """Returns the program of a call, its tensors, and the objects among its arguments. Raises
        CallError where there is no program, and none can be made.

        modes: of the part's modules, the values in one order.
        """
        given = [*args, *kwargs.values()]
        mode = tuple(modes.values())
        way: Any = None
        if all(isinstance(value, _FLAT) for value in given):
            kinds = [_form_of(v) if isinstance(v, Tensor) else (v.__class__, v) for v in given]
            way = (mode, len(args), *kwargs, *kinds)
            found = self._ways.get(way)
            if found is not None:
                entry, places = found
                return entry, [given[place] for place in places], {}
        call = Call(self.forward, args, kwargs)
        key = (mode, call.key)
        entry = self._known(key) or self._entry_of(key, call, modes)
        leaves = {part.name: part.value for part in call.parts if not part.whole}
        if way is not None:
            order = list(leaves)
            self._ways[way] = entry, [order.index(name) for name in entry.arguments.names]
        objects = call.objects if entry.rebuild.takes_objects else {}
        return entry, [leaves[name] for name in entry.arguments.names], objects

    def _entry_of(self, key: Any, call: Call, modes: Modes) -> Entry:
        refusal: CallError | None = None
        for entry in self.entries:
            if entry.names is not None:  # found by its key, or not at all
                continue
            try:
                entry.arguments.read(call.parts)
                if self._is_traced_anew(entry, call):
                    continue
                self._check_mode(entry, modes)
            except CallError as error:
                refusal = refusal or error
                continue
            self._note(key, entry)
            return entry
        if self.on_demand is None or self.on_demand.model is None:
            raise refusal or MODULE_CALL()
        self._count(key)
        whole = self._whole(call)
        names = self.on_demand.names(whole.parts)
        made: Entry = self._made(key, whole, modes, names, refusal)
        return made

    def _is_traced_anew(self, entry: Entry, call: Call) -> bool:
        """Whether a call gives whole numbers of another width, which models take alike."""
        if self.on_demand is None or self.on_demand.model is None:
            return False
        known = entry.first.program.inputs.inputs
        given = {each.name: each.value for each in call.parts if isinstance(each.value, Tensor)}
        pairs = ((str(known[name].value.dtype), given[name].dtype) for name in known)
        return any(was in INTEGERS and was != _name(now) in INTEGERS for was, now in pairs)

    def _whole(self, call: Call) -> Call:
        """The call as one device would be given it."""
        assert self.on_demand is not None
        return Call(self.forward, *self.on_demand.whole(call.args, call.kwargs, call.parts))

    @disable  # a model is not traced while its part is compiled
    def _made(
        self,
        key: Any,
        call: Call,
        modes: Modes,
        names: Names,
        refusal: CallError | None = None,
    ) -> Entry:
        assert self.on_demand is not None
        maker = self.on_demand

        def plan() -> Plan:
            try:
                return maker.plan_for(call.args, call.kwargs, modes, names, call.shapes)
            except DimsolveError as error:
                if refusal is None or (
                    refusal.diagnostic.code != "no-tensor" and _is_call_of(self.forward, call)
                ):
                    raise
                raise refusal from error

        entry = self._add(plan, names, self.forward)
        entry.shapes = call.shapes
        self.entries.append(entry)
        self._note(key, entry)
        return entry

    def _known(self, key: Any) -> Entry | None:
        """The program of a call like one before; None for one with a value that has no hash."""
        try:
            return self._found.get(key)
        except TypeError:
            return None

    def _note(self, key: Any, entry: Entry) -> None:
        with suppress(TypeError):
            self._found[key] = entry

    def made_wider(
        self, entry: Entry, args: Any, kwargs: Any, modes: Modes
    ) -> tuple[Entry, list[Any], dict[Place, Any]]:
        """Returns a program of the same call for more sizes than the one that was made for it, in
        place of that one.
        """
        call = Call(self.forward, args, kwargs)
        whole = self._whole(call)
        assert entry.names is not None
        names = widened(entry.names, entry.shapes, whole.shapes)
        self.entries.remove(entry)
        self._ways = {way: found for way, found in self._ways.items() if found[0] is not entry}
        self._found = {key: found for key, found in self._found.items() if found is not entry}
        self._made((tuple(modes.values()), call.key), whole, modes, names)
        return self.find(args, kwargs, modes)

    def _check_mode(self, entry: Entry, modes: Modes) -> None:
        """Raises CallError where the model was traced in another mode than it is called in."""
        if self.on_demand is not None and self.on_demand.model is not None:
            other = any(entry.modes.get(path, mode) != mode for path, mode in modes.items())
        else:
            other = entry.modes.get("", modes[""]) != modes[""] and bool(entry.depends_on_mode)
        if other:
            traced, called = "training", "evaluation"
            if modes[""]:
                traced, called = called, traced
            operator = entry.depends_on_mode or "what it reads of its modules' modes"
            raise _OTHER_MODE(traced=traced, called=called, operator=operator)

    def _count(self, key: Any) -> None:
        """Raises CallError for one program too many that differs in values only."""
        mode, leaves = key
        group = (mode, *[leaf[:2] for leaf in leaves])
        made = self._counts.setdefault(group, [])
        for number, leaf in enumerate(leaves):
            if (
                made
                and leaf[0].endswith(_COUNTERS)
                and leaf[-1] not in [m[number][-1] for m in made]
            ):
                raise _COUNTS_TOKENS(name=leaf[0])
        if len(made) >= LIMIT:
            for number, leaf in enumerate(leaves):
                values = [each[number][-1] for each in made]
                if len(leaf) > 2 and len(set(map(repr, values))) > LIMIT // 2:
                    shown = ", ".join(f"{value!r:.20}" for value in values[-3:])
                    raise _TOO_MANY(name=leaf[0], count=len(made), values=shown)
        made.append(leaves)
