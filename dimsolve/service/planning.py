"""`/v1/plan`: how a graph is cut over a mesh. The graph is JSON, or the name of an example.

    {"graph": {"version": 1, "name": "main", ...}, "mesh": {"dp": 2, "tp": "n"}, "policy": "tensor"}
    {"example": "llama:tiny", "mesh": {"tp": 2}}

Nothing that a client names is imported: operators are those of the library and those whose promise
the graph says, examples are those of `dimsolve.examples`. What an example registers is known while
it is traced and never to a later question: an answer depends on the question alone.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field, RootModel

from dimsolve.ir.registry import Shelf
from dimsolve.solver.graphs.typed_graph import TypedGraph

from .graph_form import GraphForm
from .questions import Int, Length, Question
from .replies import Refusal

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph
    from dimsolve.partition.plan import Plan

Split: TypeAlias = str | Annotated[list[Int], Field(min_length=2, max_length=2)]
"""An identifier, or [index, dim]."""


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


class _Plan(Question):
    mesh: dict[str, Length] = Field(
        description="axis names and sizes, outer axis first", examples=[{"dp": 2, "tp": 2}]
    )
    policy: str | dict[str, dict[str, Split]] | None = Field(
        default=None,
        description="data, tensor, data+tensor or replicate; or node patterns to splits per axis",
        examples=["data+tensor", "replicate"],
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
    from dimsolve.partition.planning.planner import plan

    asked = question.root
    if isinstance(asked, ExamplePlanQuestion):
        return plan(_example(asked.example), asked.mesh, asked.policy)
    try:
        graph = TypedGraph.from_json(asked.graph.model_dump(exclude_unset=True))
        _check_rules(graph)
        return plan(graph, asked.mesh, asked.policy)
    except _NONSENSE as error:
        raise _makes_no_sense(error) from None


def _check_rules(graph: Graph) -> None:
    """Refuses a graph that calls operators whose transform rules did not come along."""
    calls = [node for each in (graph, *graph.functions.values()) for node in each.nodes()]
    for node in calls:
        if node.told is not None and node.told.transform_rules:
            raise Refusal(
                422,
                "rules-left-behind",
                "the service cannot plan this operator",
                f"{node.signature} has transform rules, which are functions of your process: "
                f"{', '.join(node.told.transform_rules)}; of others the promise is enough",
                "plan it where they are: dimsolve.plan(graph, mesh, policy)",
            )


_NONSENSE = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What the planner runs into on data that have the form of a graph and are none."""


def _makes_no_sense(error: Exception) -> Refusal:
    frame = extract_tb(error.__traceback__)[-1]
    return Refusal(
        422,
        "no-such-graph",
        "this graph cannot be planned",
        f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}",
        "if Graph.to_json wrote it, this is a defect of dimsolve: please report it",
    )


_SHELF = Shelf()
"""What the examples register."""


@lru_cache(maxsize=8)
def _example(name: str) -> Graph:
    """The traced model of an example, as it would come over the wire."""
    with _SHELF.open():
        data = _traced(name).to_json()
    return TypedGraph.from_json(data)


def _traced(name: str) -> TypedGraph:
    if name not in examples():
        reason = f"there are {', '.join(examples()) or 'none'}"
        raise Refusal(422, "no-such-example", "there is no such example", reason)
    from dimsolve.exec.target import load_target

    try:
        return load_target(f"dimsolve.examples.{name}").trace()
    except ImportError:
        title, hint = "this example is not installed", "pip install 'dimsolve[models]'"
        raise Refusal(422, "not-installed", title, "it needs another package", hint) from None


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
