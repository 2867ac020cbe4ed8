"""`/v1/plan`: how a graph is cut over a mesh. The graph is JSON, or the name of an example.

    {"graph": {"version": 1, "name": "main", ...}, "mesh": {"dp": 2, "tp": "n"}, "policy": "tensor"}
    {"example": "llama:tiny", "mesh": {"tp": 2}}

Nothing that a client names is imported: operators are those of the library and those whose promise
the graph says, examples are those of `dimsolve.examples`. What an example registers is known while
it is traced and never to a later question: an answer depends on the question alone.

A graph's JSON, as `Graph.to_json` writes it, is checked before anything reads it. What each member
means is said in `dimsolve.ir.graph_json`; arguments are left to its reader.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from dimsolve.ir.operator import ScopedRegistry
from dimsolve.partition.plan_data import State
from dimsolve.solver.graphs.builder import TypedGraph

from .questions import Int, Question
from .questions import Length as Size
from .replies import Refusal

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph
    from dimsolve.partition.plan import Plan


Length: TypeAlias = int | str | None
Pair: TypeAlias = Annotated[list[str], Field(min_length=2, max_length=2)]
Split: TypeAlias = str | Annotated[list[Int], Field(min_length=2, max_length=2)]
"""An identifier, or [index, dim]."""


class Form(BaseModel):
    """The base of all: strict, but later versions may add members."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")


class ComputedForm(Form):
    """A shape that an opaque function gives."""

    computed: str
    arguments: list[str | list[Length]]


class TensorForm(Form):
    """Rank, dtype and shape of a tensor, each null where it is not known."""

    rank: Annotated[int, Field(ge=0, le=64)] | None
    dtype: str | None
    shape: list[Length] | ComputedForm | None


class TensorTypeForm(Form):
    """The type of a tensor."""

    tensor: TensorForm


class ShapeTypeForm(Form):
    """The type of a shape."""

    shape: list[Length] | None


class ScalarTypeForm(Form):
    """The type of a number, with its value where it is known."""

    scalar: str
    value: Length


class TupleTypeForm(Form):
    """The type of a tuple."""

    tuple: list[TypeForm]


class ObjectTypeForm(Form):
    """The type of what is no tensor."""

    object: str


class SignatureForm(Form):
    """Parameters and result of a function."""

    parameters: list[TypeForm] | None
    result: TypeForm


class FunctionTypeForm(Form):
    """The type of a function."""

    function: SignatureForm


TypeForm: TypeAlias = (
    TensorTypeForm
    | ScalarTypeForm
    | ShapeTypeForm
    | TupleTypeForm
    | ObjectTypeForm
    | FunctionTypeForm
)


class InputForm(Form):
    """An input of the graph."""

    name: str
    type: TypeForm
    kind: Literal["input", "parameter", "buffer", "constant", "size"]
    target: str


class ValueForm(Form):
    """What a node makes."""

    name: str
    type: TypeForm


class PromiseForm(Form):
    """What a registered operator promises for one call."""

    annotation: str
    inputs: list[Annotated[int, Field(ge=0)] | None]
    arguments: dict[str, Any] = {}
    sizes: dict[str, str] = {}
    value_split: list[int] = []
    reduction: Literal["sum", "max", "min", "prod", "avg"] = "sum"
    frozen: str = ""
    linear: list[list[int]] = []
    mutates: list[int] = []
    separate: bool = False
    random: bool = False
    fresh: list[str] = []
    dtypes: list[str | None] = []
    returns: Literal["tensor", "tuple", "nothing"] = "tensor"
    transform_rules: list[str] = Field(
        default=[], description="rules are functions and stay behind: such a call is not planned"
    )


class NodeForm(Form):
    """A call: of an operator, a function, an external function, or of a shape."""

    id: str
    operator: str = ""
    function: str = ""
    symbols: dict[str, str] = {}
    external: str = ""
    type: TypeForm | None = None
    match_shape: list[Length] = []
    shape: list[Length] = []
    args: list[Any]
    kwargs: dict[str, Any] = {}
    name: str = ""
    several: bool = False
    module: str = ""
    promise: PromiseForm | None = None
    source: Annotated[list[str | int], Field(min_length=3, max_length=3)] | None = None
    outputs: list[ValueForm]


class FunctionForm(Form):
    """A function of a graph, or the graph itself."""

    name: str
    inputs: list[InputForm]
    nodes: list[NodeForm]
    result: Any
    outputs: dict[str, str]
    container: str
    facts: list[str]
    checks: list[Pair]
    strict: bool
    functions: list[FunctionForm]


class GraphForm(FunctionForm):
    """What `Graph.to_json` writes."""

    version: Literal[1]


_FLOATS = {"rank": 2, "dtype": "float32", "shape": ["batch", 64]}
_GRAPH = {
    "version": 1,
    "name": "main",
    "inputs": [{"name": "x", "type": {"tensor": _FLOATS}, "kind": "input", "target": "x"}],
    "nodes": [
        {
            "id": "exp",
            "operator": "torch.exp",
            "args": [{"value": "x"}],
            "outputs": [{"name": "y", "type": {"tensor": _FLOATS}}],
        }
    ],
    "result": {"value": "y"},
    "outputs": {"y": "y"},
    "container": "",
    "facts": [],
    "checks": [],
    "strict": False,
    "settings": {},
    "functions": [],
}
"""exp(x), x: (batch, 64)."""


Stored: TypeAlias = State | Literal["whole"]


class _Plan(Question):
    mesh: dict[str, Size] = Field(
        description="axis names and sizes, outer axis first", examples=[{"dp": 2, "tp": 2}]
    )
    policy: str | dict[str, str] | dict[str, dict[str, Split]] | None = Field(
        default=None,
        description="data, tensor, sequence (or sequence+all-gather, sequence+all-to-all), "
        "experts, data+tensor, tensor+sequence or replicate, "
        "of all axes or by axis; auto; or node patterns to splits per axis",
        examples=["data+tensor", {"dp": "data", "tp": "tensor"}],
    )
    state: Stored | Literal["auto"] | dict[str, Stored] | None = Field(
        default=None,
        description="how parameters are stored along the axes that cut data, or by axis; auto: as "
        "the policy auto finds best",
        examples=["shared", {"dp": "optimizer"}],
    )
    uneven: Literal["parameters", "allow", "refuse"] = Field(
        default="parameters",
        description="whether lengths that are fixed by the model, all lengths, or none may be cut "
        "into unequal parts",
    )
    machine: str | None = Field(
        default=None, description="of the policy auto: a known machine", examples=["h100"]
    )
    memory: str | int | None = Field(
        default=None, description="of the policy auto: bytes of a rank", examples=["80 GiB"]
    )
    sizes: dict[str, int] | None = Field(
        default=None,
        description="of the policy auto: a size for every symbol",
        examples=[{"batch": 8, "seq": 128}],
    )
    seconds: float = Field(
        default=10.0,
        ge=0,
        le=30,
        description="of the policy auto: the best plan found in so many is answered",
    )


class GraphPlanQuestion(_Plan):
    """How is this graph cut?"""

    graph: GraphForm = Field(description="what `Graph.to_json` writes", examples=[_GRAPH])


class ExamplePlanQuestion(_Plan):
    """How is this example cut?"""

    example: str = Field(
        description="module:factory below dimsolve.examples", examples=["custom_operator:tiny"]
    )


class PlanQuestion(RootModel[GraphPlanQuestion | ExamplePlanQuestion]):
    """How is a model cut over a mesh, and which collectives join the parts?"""


def plan_of(question: PlanQuestion) -> Plan:
    """Returns the plan. Raises DimsolveError for what cannot be read or is illegal, Refusal for an
    example that there is not.
    """
    asked = question.root
    if isinstance(asked, ExamplePlanQuestion):
        return _planned(_example(asked.example), asked)
    try:
        graph = TypedGraph.from_json(asked.graph.model_dump(exclude_unset=True))
        _check_rules(graph)
        return _planned(graph, asked)
    except _NONSENSE as error:
        frame = extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise Refusal("no-such-graph", error=type(error).__name__, place=place) from None


def _planned(graph: Graph, asked: _Plan) -> Plan:
    from dimsolve.partition.plan import plan

    return plan(
        graph,
        asked.mesh,
        asked.policy,
        asked.state,
        machine=asked.machine,
        memory=asked.memory,
        sizes=asked.sizes,
        seconds=asked.seconds,
        progress=False,
        uneven=asked.uneven,
    )


def _check_rules(graph: Graph) -> None:
    """Refuses a graph that calls operators whose transform rules did not come along."""
    calls = [node for each in (graph, *graph.functions.values()) for node in each.nodes()]
    for node in calls:
        if node.declared is not None and node.declared.transform_rules:
            rules = ", ".join(node.declared.transform_rules)
            raise Refusal("rules-left-behind", operator=node.signature, rules=rules)


_NONSENSE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What the planner runs into on data that have the form of a graph and are none."""


_SCOPED = ScopedRegistry()
"""What the examples register."""


@lru_cache(maxsize=8)
def _example(name: str) -> Graph:
    """The traced model of an example, as it would come over the wire."""
    with _SCOPED.open():
        data = _traced(name).to_json()
    return TypedGraph.from_json(data)


def _traced(name: str) -> TypedGraph:
    if name not in examples():
        raise Refusal("no-such-example", examples=", ".join(examples()) or "none")
    from dimsolve.exec.target import load_target

    try:
        return load_target(f"dimsolve.examples.{name}").trace()
    except ImportError:
        raise Refusal("not-installed") from None


@lru_cache(maxsize=1)
def examples() -> tuple[str, ...]:
    """Returns the names of the examples: ``("llama:tiny", ...)``."""
    try:
        package = import_module("dimsolve.examples")
    except ImportError:
        return ()
    modules = [m.name for m in iter_modules(package.__path__) if not m.name.startswith("_")]
    return tuple(
        f"{module}:{name}"
        for module in sorted(modules)
        for name, value in sorted(vars(import_module(f"dimsolve.examples.{module}")).items())
        if callable(value) and not name.startswith("_") and value.__module__.endswith(f".{module}")
    )
