"""`/v1/plan`: how a graph is cut over a mesh. The graph is JSON, or the name of an example.

    {"graph": {"version": 1, "name": "main", ...}, "mesh": {"dp": 2, "tp": "n"}, "policy": "tensor"}
    {"example": "llama:tiny", "mesh": {"tp": 2}}

Nothing that a client names is imported: operators are those of the library and the registered ones,
examples those of `dimsolve.examples`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field, RootModel

from dimsolve.solver.typed_graph import TypedGraph

from .questions import Length, Question
from .replies import Refusal

if TYPE_CHECKING:
    from dimsolve.ir.graph import Graph
    from dimsolve.partition.plan import Plan

Split: TypeAlias = str | Annotated[list[int], Field(min_length=2, max_length=2)]
"""An identifier, or [index, dim]."""


class _Plan(Question):
    mesh: dict[str, Length] = Field(
        description="axis names and sizes, outer axis first", examples=[{"dp": 2, "tp": "n"}]
    )
    policy: str | dict[str, dict[str, Split]] | None = Field(
        default=None,
        description="data, tensor, data+tensor or replicate; or node patterns to splits per axis",
        examples=["tensor", {"*.q_proj": {"tp": "n"}}],
    )


class GraphPlanQuestion(_Plan):
    """How is this graph cut?"""

    graph: dict[str, Any] = Field(description="what `Graph.to_json` writes")


class ExamplePlanQuestion(_Plan):
    """How is this example cut?"""

    example: str = Field(description="module:factory below dimsolve.examples")


class PlanQuestion(RootModel[GraphPlanQuestion | ExamplePlanQuestion]):
    """How is a model cut over a mesh, and which collectives join the parts?"""


def plan_of(question: PlanQuestion) -> Plan:
    """Returns the plan. Raises DimsolveError for what cannot be read or is illegal, Refusal for an
    example that there is not.
    """
    from dimsolve.partition.planning.planner import plan

    match question.root:
        case GraphPlanQuestion(graph=data):
            graph: Graph = TypedGraph.from_json(data)
        case ExamplePlanQuestion(example=name):
            graph = _example(name)
    return plan(graph, question.root.mesh, question.root.policy)


@lru_cache(maxsize=8)
def _example(name: str) -> Graph:
    """The traced model of an example."""
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
