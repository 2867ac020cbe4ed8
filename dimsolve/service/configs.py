"""`/v1/model`: how a model of the transformers library may be cut, from its ``config.json``.

    {"config": {"model_type": "llama", "num_hidden_layers": 32, ...}, "mesh": {"dp": 2, "tp": 8}}

legal counts of both axes with who forbids the others, the memory of a rank, the collectives of a
step. The model is built on the meta device, so it has no weights and its sizes cost nothing.

A config may come from anybody. It chooses among transformers' own classes and gives them numbers,
and no more: code that it names is not run, what it names elsewhere is not fetched, texts that look
like a path or an address are left out, and while the model is built and traced this process opens
no connection and starts no program (`sealed`). Time and memory are those of the worker.

Layers that are alike need not all be traced. The whole model is built, and its lists of layers are
cut short to two lengths, a period apart; what a plan says is linear in the number of periods, so
from two of them follow the bytes of all (`Scaled`). Whether layers are alike is read off the
modules: classes, settings, shapes of parameters, and the config's own lists of layer types. The
bytes of the parameters are compared with the whole model's; where they differ there is no answer.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from dimsolve.api.results import (
    CountsModel,
    MemoryModel,
    ModelAnswer,
    Problem,
    Texts,
    TrafficModel,
)
from dimsolve.ir.characters import shown
from dimsolve.ir.checks import nearest
from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.communication import Traffic
from dimsolve.partition.legality import LegalParts, ranges, said_once, together
from dimsolve.partition.memory import Memory

from .questions import Question, whole
from .replies import Refusal

if TYPE_CHECKING:
    from dimsolve.exec.graph import Graph
    from dimsolve.partition.plan import Plan

MAX_RANKS = 1 << 20
Count = Annotated[int, Field(ge=1, le=MAX_RANKS), BeforeValidator(whole)]
Size = Annotated[int, Field(ge=1, le=1 << 40), BeforeValidator(whole)]


class ModelQuestion(Question):
    """How may a model of the transformers library be cut, and what does a rank hold and send?"""

    config: dict[str, Any] = Field(
        description="what its config.json says",
        examples=[{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}],
    )
    mesh: dict[str, Count] = Field(
        default={"dp": 1, "tp": 1},
        description="sizes of the axes dp, which cuts data, and tp, which cuts parameters",
    )
    sizes: dict[str, Size] = Field(
        default={}, description="of the inputs, for bytes; usually batch 8, and seq 2048 or less"
    )
    up_to: Annotated[int, Field(ge=1, le=128), BeforeValidator(whole)] = Field(
        default=16, description="the largest count that is asked about"
    )


def model_answer(question: ModelQuestion) -> ModelAnswer:
    """Returns the answer. Raises Refusal for a config that no class of transformers takes, and
    DimsolveError where its model cannot be traced.
    """
    axes = {"dp": "data", "tp": "tensor"}
    for name in question.mesh:
        if name not in axes:
            raise Refusal("no-such-axis", called=shown(name, 40), known=" and ".join(axes))
    _check_sizes(question.sizes, SIZES)
    text = json.dumps(question.config, sort_keys=True)
    traced = _traced(text)
    counts = {
        axis: _counts(_legal_parts(text, axis, policy, question.up_to))
        for axis, policy in axes.items()
    }
    mesh = {axis: question.mesh.get(axis, 1) for axis in axes}
    _check_sizes(question.sizes, tuple(traced.usual))
    sizes = {name: question.sizes.get(name, usual) for name, usual in traced.usual.items()}
    problem, memory, whole, notes = None, None, None, traced.notes
    sent: tuple[Any, ...] = ()
    conditions = tuple(traced.shorter.conditions)
    try:
        plans = traced.plans(mesh)
        conditions = tuple(plans.made[-1].conditions)
        notes += tuple(note for note in plans.made[0].notes)
        memory, sent = _memory(plans.memory(sizes)), plans.communication(sizes)
        whole = _memory(traced.plans(dict.fromkeys(axes, 1)).memory(sizes))
    except DimsolveError as error:
        problem = Problem.of(error)
    return ModelAnswer(
        model=traced.name,
        dtype=traced.dtype,
        parameters=traced.parameters,
        traced=traced.words,
        inputs=traced.inputs,
        axes=counts,
        conditions=conditions,
        problem=problem,
        sizes=sizes,
        memory=memory,
        whole=whole,
        communication=sent,
        notes=tuple(dict.fromkeys(notes)),
    )


SIZES = ("batch", "seq", "target")
"""What inputs' dimensions are called."""


def _check_sizes(given: Mapping[str, int], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise Refusal("no-such-size", called=shown(name, 40), known=" and ".join(known))


def _counts(found: LegalParts) -> CountsModel:
    def texts(reasons: Mapping[int, str]) -> dict[str, str]:
        return {ranges(counts): text for text, counts in together(reasons).items()}

    return CountsModel(
        always=ranges(found.always),
        uneven=texts(found.uneven),
        conditional=texts(found.conditional),
        never=texts(said_once(found.forbidden)),
        unknown=texts(found.unknown),
    )


def _memory(found: Memory) -> MemoryModel:
    parts = {field.name: getattr(found, field.name) for field in fields(found)}
    return MemoryModel(**parts, total=found.total)


# Layers that are alike -------------------------------------------------------------------------


class Layers(NamedTuple):
    """A list of layers: all of them, how many differ before they repeat, after how many they do,
    and the list of modules itself.
    """

    name: str
    count: int  # type: ignore[assignment]  # a tuple's count of equal items is of no use here
    kept: int
    period: int
    module: Any


@dataclass(frozen=True)
class Traced:
    """A model's graphs at two lengths (one where nothing repeats). ``periods``: how often the
    difference of the two has to be added to the shorter.
    """

    name: str
    dtype: str
    parameters: int
    graphs: tuple[Graph, ...]
    periods: int
    words: str
    inputs: dict[str, str]
    usual: dict[str, int]
    notes: Texts

    @property
    def shorter(self) -> Graph:
        """The graph that is asked which counts are legal: every kind of layer is in it."""
        return self.graphs[0]

    def plans(self, mesh: Mapping[str, int]) -> Scaled:
        """Returns the plans of the graphs. Raises PlanError."""
        from dimsolve.partition.plan import plan

        return Scaled(tuple(plan(graph, dict(mesh)) for graph in self.graphs), self.periods)


@dataclass(frozen=True)
class Scaled:
    """The figures of a model, from those of two that are a period of layers apart."""

    made: tuple[Plan, ...]
    periods: int

    def _of(self, values: list[int]) -> int:
        return values[0] + self.periods * (values[-1] - values[0])

    def memory(self, sizes: Mapping[str, int]) -> Memory:
        """Returns the memory of one rank of the whole model."""
        found = [plan.memory(sizes) for plan in self.made]
        names = [field.name for field in fields(Memory)]
        return Memory(**{name: self._of([getattr(m, name) for m in found]) for name in names})

    def communication(self, sizes: Mapping[str, int]) -> tuple[TrafficModel, ...]:
        """Returns the collectives of the whole model."""
        found = [
            {(t.direction, t.axis, t.collective): t for t in plan.communication(sizes)}
            for plan in self.made
        ]
        keys = dict.fromkeys(key for each in reversed(found) for key in each)
        none = Traffic("all-reduce", "", "", 0, 0)
        return tuple(
            TrafficModel(
                collective=collective,
                axis=axis,
                direction=direction,
                count=self._of(
                    [each.get((direction, axis, collective), none).count for each in found]
                ),
                bytes=self._of(
                    [each.get((direction, axis, collective), none).bytes for each in found]
                ),
            )
            for direction, axis, collective in keys
        )


def _lists_of(model: Any) -> list[Layers]:
    """The outermost lists of layers of a model, those that repeat first."""
    import torch

    found: list[Layers] = []
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{each.name}.") for each in found)
        if not isinstance(module, torch.nn.ModuleList) or len(module) < 2 or inside:
            continue
        marks = [
            _mark(layer, _types_at(model.config, place, len(module)))
            for place, layer in enumerate(module)
        ]
        found.append(Layers(name, len(module), *_repeats(marks), module))
    return found


_NUMBERED = re.compile(r"layer_?(idx|id|number|index)?$|^(idx|index)$")


def _mark(layer: Any, types: tuple[object, ...]) -> tuple[object, ...]:
    """What a layer is, but for its number: equal marks are layers that are alike."""
    parts: list[object] = list(types)
    for name, module in layer.named_modules():
        parts += [name, type(module)]
        parts += [
            (key, value)
            for key, value in sorted(vars(module).items())
            if isinstance(value, bool | float | str)
            or (isinstance(value, int) and not _NUMBERED.search(key))
        ]
        parts += [
            (key, tuple(tensor.shape), str(tensor.dtype))
            for key, tensor in [*module._parameters.items(), *module._buffers.items()]
            if tensor is not None
        ]
    return tuple(parts)


def _types_at(config: Any, place: int, count: int) -> tuple[object, ...]:
    """What the config's lists of as many entries as there are layers say of one of them."""
    lists = [value for _, value in sorted(vars(config).items()) if isinstance(value, list | tuple)]
    return tuple(json.dumps(each[place]) for each in lists if len(each) == count)


def _repeats(marks: list[tuple[object, ...]]) -> tuple[int, int]:
    """How many layers are kept, and the period: those before the first that repeats, one period,
    and what is left over of the last; (all, 0) where that saves nothing.

    >>> _repeats([("a",)] * 32), _repeats([("d",), *[("a",), ("b",)] * 6, ("a",)])
    ((1, 1), (4, 2))
    >>> _repeats([("a",), ("b",)])
    (2, 0)
    """
    count = len(marks)
    found = []
    for period in range(1, count // 2 + 1):
        differ = [i for i in range(count - period) if marks[i] != marks[i + period]]
        before = differ[-1] + 1 if differ else 0
        kept = before + period + (count - before) % period
        if kept + period < count:
            found.append((kept + period, kept, period))
    return min(found)[1:] if found else (count, 0)


def _cut_to(layers: Layers, count: int, all_layers: list[Any]) -> None:
    layers.module._modules = {str(i): layer for i, layer in enumerate(all_layers[:count])}


@lru_cache(maxsize=4)
def _traced(text: str) -> Traced:
    """The model of a config, traced at two lengths."""
    made = _built(json.loads(text))
    model, notes = made.model, list(made.notes)
    lists = [each for each in _lists_of(model) if each.period]
    lists = lists if len({(each.count - each.kept) // each.period for each in lists}) == 1 else []
    whole = {each.name: list(each.module) for each in lists}
    graphs: list[Graph] = []
    stored: list[int] = []
    with sealed(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for more in (0, 1) if lists else (0,):
            for each in lists:
                _cut_to(each, each.kept + more * each.period, whole[each.name])
            stored.append(_bytes(model.parameters()))
            graphs.append(_graph(made))
    for each in lists:
        _cut_to(each, each.count, whole[each.name])
    periods = (lists[0].count - lists[0].kept) // lists[0].period if lists else 0
    notes += [
        _first_line(one.message) for one in caught if one.category.__module__.startswith("dimsolve")
    ]
    traced = Traced(
        type(model).__name__,
        str(model.dtype).removeprefix("torch."),
        sum(each.numel() for each in model.parameters()),
        tuple(graphs),
        periods,
        _words(lists),
        {each.target: str(each.value.type) for each in graphs[0].inputs if each.kind == "input"},
        _usual(made),
        tuple(notes),
    )
    if stored[0] + periods * (stored[-1] - stored[0]) != _bytes(model.parameters()):
        raise Refusal("not-alike", model=traced.name)
    return traced


@lru_cache(maxsize=16)
def _legal_parts(text: str, axis: str, policy: str, up_to: int) -> LegalParts:
    """The counts of an axis, as plans of the whole model of a config have them."""
    from dimsolve.partition.planning.counts import graph_legal_parts

    traced = _traced(text)
    longer = traced.graphs[-1] if traced.periods else None
    return graph_legal_parts(
        traced.shorter, axis, policy, up_to=up_to, longer=longer, periods=traced.periods
    )


def _usual(made: Built) -> dict[str, int]:
    """Sizes to ask about where none are given: 8 examples, of 2048 tokens where there may be so
    many.
    """
    names = dict.fromkeys(name for dims in made.names.values() for name in dims.values())
    most = getattr(made.model.config, "max_position_embeddings", None)
    tokens = min(2048, most) if isinstance(most, int) else 2048
    return {name: 8 if name == "batch" else tokens for name in names}


def _graph(made: Built) -> Graph:
    from dimsolve.exec.capture.trace import trace

    try:
        return trace(made.model, kwargs=made.example, dynamic=made.names)
    except (DimsolveError, MemoryError):
        raise
    except Exception as error:
        raise Refusal("model-fails", model=type(made.model).__name__, error=_said(error)) from None


def _bytes(tensors: Any) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def _words(lists: list[Layers]) -> str:
    if not lists:
        return "the whole model was traced"
    texts = [
        f"{each.kept} and {each.kept + each.period} of the {each.count} modules of {each.name}"
        for each in lists
    ]
    turns = max(each.period for each in lists)
    alike = "the others are alike" if turns == 1 else f"the others repeat them in turns of {turns}"
    return f"traced with {' and '.join(texts)}; {alike}, so the bytes of all follow exactly"


# From a config to a model ----------------------------------------------------------------------


class Family(NamedTuple):
    """What models of one kind are trained on: the table of transformers that has their classes, and
    which inputs they take.
    """

    table: str
    inputs: Callable[[Any], tuple[dict[str, Any], dict[str, Any]]]


class Built(NamedTuple):
    """A model on the meta device, its example inputs and the names of their dimensions."""

    model: Any
    example: dict[str, Any]
    names: dict[str, Any]
    notes: Texts


def _text(config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    import torch

    ids, names = torch.zeros(4, 16, dtype=torch.long), {0: "batch", 1: "seq"}
    return {"input_ids": ids, "labels": ids.clone()}, {"input_ids": names, "labels": names}


def _pair(config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    import torch

    ids, target = torch.zeros(4, 16, dtype=torch.long), torch.zeros(4, 12, dtype=torch.long)
    examples = {"input_ids": ids, "decoder_input_ids": target, "labels": target.clone()}
    names = {name: {0: "batch", 1: "target"} for name in examples}
    return examples, names | {"input_ids": {0: "batch", 1: "seq"}}


def _image(config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    import torch

    size = getattr(config, "image_size", 224)
    rows, columns = size if isinstance(size, list | tuple) else (size, size)
    pixels = torch.empty(4, getattr(config, "num_channels", 3), rows, columns, device="meta")
    examples = {"pixel_values": pixels.to(config.dtype), "labels": torch.zeros(4, dtype=torch.long)}
    return examples, {"pixel_values": {0: "batch"}, "labels": {0: "batch"}}


FAMILIES = (
    Family("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", _pair),
    Family("MODEL_FOR_MASKED_LM_MAPPING_NAMES", _text),
    Family("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", _text),
    Family("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", _image),
)
"""In the order in which they are looked through where a config does not name its class."""

_AUTO = "transformers.models.auto"
LEFT_OUT = {
    "auto_map": "code that the config names is not run: this is transformers' own class",
    "quantization_config": "planned without its quantization",
}
IGNORED = frozenset(
    [
        "architectures",
        "model_type",
        "torch_dtype",
        "dtype",
        "transformers_version",
        "label2id",
        "attn_implementation",
        "experts_implementation",
        "use_cache",
        "gradient_checkpointing",
    ]
)
_DTYPE_KEYS = ("dtype", "torch_dtype")
DTYPES = ("float32", "bfloat16", "float16", "float64")
MAX_LAYERS = 1_024
MAX_NUMBER = 1 << 40
MAX_ENTRIES = 4_096
_PLAIN = re.compile(r"[\w .,:+\-]{0,120}")
_COUNTED = re.compile(r"layers?$|layers?_|^n_layer|depth|blocks|stages|experts")


def _built(config: dict[str, Any]) -> Built:
    """The model of a config, built of transformers' own classes and of numbers. Raises Refusal."""
    kinds = _config_kinds()
    notes: list[str] = []
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in kinds:
        close = nearest(kind, kinds) if isinstance(kind, str) else None
        hint = f"did you mean '{close}'?" if close else "paste the whole config.json"
        raise Refusal("no-such-model-type", called=shown(str(kind), 60), hint=hint)
    inner = config.get("text_config")
    if isinstance(inner, dict) and inner.get("model_type") in kinds:
        made = _built({key: config[key] for key in _DTYPE_KEYS if key in config} | inner)
        return made._replace(
            notes=("of this model only its language model is planned", *made.notes)
        )
    found = _class_of(kind, config.get("architectures"))
    if found is None:
        raise Refusal("no-head", called=kind)
    family, name = found
    settings = _settings(config, notes)
    dtype = config.get("dtype") or config.get("torch_dtype") or "float32"
    if dtype not in DTYPES:
        raise Refusal("no-such-dtype", called=shown(str(dtype), 40), known=", ".join(DTYPES))
    with sealed(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = _instance(kind, name, settings, dtype)
            return Built(model, *family.inputs(model.config), tuple(notes))
        except (Refusal, MemoryError):
            raise
        except Exception as error:
            raise Refusal("no-such-model", model=name, error=_said(error)) from None


def _config_kinds() -> Any:
    try:
        return import_module(f"{_AUTO}.configuration_auto").CONFIG_MAPPING_NAMES
    except ImportError:
        raise Refusal("not-installed") from None


def _class_of(kind: str, wanted: Any) -> tuple[Family, str] | None:
    """The family and the class of a model type: the one that the config names where it is one of
    them, else the first.
    """
    modeling = import_module(f"{_AUTO}.modeling_auto")
    names = [(family, getattr(modeling, family.table).get(kind)) for family in FAMILIES]
    found = [(family, name) for family, name in names if isinstance(name, str)]
    asked = wanted if isinstance(wanted, list) else []
    return next((each for each in found if each[1] in asked), found[0] if found else None)


def _instance(kind: str, name: str, settings: dict[str, Any], dtype: str) -> Any:
    """The model on the meta device: parameters have shapes and no values."""
    import torch

    transformers = import_module("transformers")  # an extra, which the service can do without
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    config = import_module(f"{_AUTO}.configuration_auto").CONFIG_MAPPING[kind](**settings)
    config.use_cache = False
    config.dtype = getattr(torch, dtype)
    with torch.device("meta"):
        return getattr(transformers, name)._from_config(config, attn_implementation="sdpa")


def _settings(config: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The numbers, words and tables of a config that may reach transformers."""
    kept = {}
    for key, value in config.items():
        if key in LEFT_OUT:
            notes.append(LEFT_OUT[key])
        elif key == "id2label" and isinstance(value, dict):
            kept["num_labels"] = len(value)
        elif key not in IGNORED and not key.startswith("_") and _is_plain(key, value, notes):
            kept[key] = _nested(value, notes)
    return kept


def _nested(value: Any, notes: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _nested(item, notes)
            for key, item in value.items()
            if not key.startswith("_") and key not in LEFT_OUT and _is_plain(key, item, notes)
        }
    return [_nested(item, notes) for item in value] if isinstance(value, list) else value


def _is_plain(key: str, value: Any, notes: list[str]) -> bool:
    """Whether an entry may pass; Refusal for a number that is too large."""
    match value:
        case str() if not _PLAIN.fullmatch(value):
            notes.append(f"left out, as it is no plain word: {shown(key, 40)}")
            return False
        case bool() | float() | str() | None:
            return True
        case int():
            most = MAX_LAYERS if _COUNTED.search(key) else MAX_NUMBER
            if abs(value) > most:
                raise Refusal("too-many-layers", called=shown(key, 40), most=most)
            return True
        case list() | dict():
            if len(value) > MAX_ENTRIES:
                raise Refusal("too-many-layers", called=shown(key, 40), most=MAX_ENTRIES)
            return (
                all(_is_plain(key, item, notes) for item in value)
                if isinstance(value, list)
                else True
            )
        case _:
            return False


def _said(error: BaseException) -> str:
    return shown(f"{type(error).__name__}: {_first_line(error)}", 300)


def _first_line(text: object) -> str:
    return " ".join(str(text).split("\n")[0].split())


# What a config must not make this process do ----------------------------------------------------

_sealed = 0
"""How many configs are being read in this process; meanwhile it is closed for all its threads."""
_FORBIDDEN = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
)


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    if _sealed and event in _FORBIDDEN:
        raise PermissionError(f"{event} is not allowed while a config is read")


@lru_cache(maxsize=1)
def _watch() -> None:
    """Adds the guard to this process; Python keeps it to the end."""
    sys.addaudithook(_guard)


@contextmanager
def sealed() -> Iterator[None]:
    """Inside, this process opens no connection and starts no program: PermissionError."""
    global _sealed
    _watch()
    _sealed += 1
    try:
        yield
    finally:
        _sealed -= 1
