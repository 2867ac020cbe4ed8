"""`Client`: the public functions, answered by a service, with their own signatures and results.

    client = ds.Client("http://localhost:8000")
    client.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8).conditions      ('k % 8 == 0',)
    client.parse("m k+, k n -> m n")                                            AnnotationError

Results are of the classes that the functions return, errors of those that they raise, with the same
texts and spans. Only a service that is away, busy or has given up raises something of its own:
`ServiceError`. A client may be used by several threads at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from json import dumps
from typing import TYPE_CHECKING, Any, Self

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.read_expression import read_relations
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.algebra.evaluation import names_of
from dimsolve.solver.algebra.poly import Poly
from dimsolve.solver.infer import Inputs
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.proof.facts import NO_FACTS, Facts, read_facts
from dimsolve.solver.shapes import to_dim, to_shape

from .retold import (
    retold_annotation,
    retold_legal_parts,
    retold_legality,
    retold_proof,
    retold_solution,
)
from .wire import ServiceError, Wire

if TYPE_CHECKING:
    from dimsolve.exec.graph import Graph
    from dimsolve.partition.legal_parts import LegalParts
    from dimsolve.partition.legality import Legality
    from dimsolve.partition.mesh import MeshLike
    from dimsolve.partition.plan import Plan
    from dimsolve.solver.proof.verdict import Proof
    from dimsolve.solver.shapes import Shape
    from dimsolve.solver.solution import Solution

__all__ = ["Client", "ServiceError"]


class Client:
    """Asks the service at ``url``, such as ``http://localhost:8000``.

    timeout: seconds for one question, with the waiting for a service that is busy.
    """

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        self._wire = Wire(url, timeout)

    def parse(self, text: str) -> Annotation:
        """Returns what `dimsolve.parse` returns."""
        return retold_annotation(self._ask("parse", {"annotation": text}))

    def infer(
        self,
        annotation: str | Annotation,
        inputs: Inputs = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        facts: Iterable[str | Relation] = (),
    ) -> Solution:
        """Returns what `dimsolve.infer` returns; its ``solutions()`` are at most 1000."""
        question = _Operator(annotation, inputs, arguments, facts)
        data = self._ask("infer", question.json)
        return retold_solution(data, *question.told, lambda: data["steps"])

    def check(
        self,
        annotation: str | Annotation,
        inputs: Inputs,
        split: str | tuple[int, int],
        parts: Any,
        *,
        arguments: Mapping[str, Any] | None = None,
        facts: Iterable[str | Relation] = (),
        contiguous: bool = False,
        value_split: Collection[int] = (),
        partial: str = "sum",
    ) -> Legality:
        """Returns what `dimsolve.check` returns."""
        question = _Operator(annotation, inputs, arguments, facts)
        cut = _cut(split, contiguous, value_split, partial)
        data = self._ask("check", {**question.json, **cut, "parts": _length(parts)})
        solution = retold_solution(
            data["solution"],
            *question.told,
            lambda: self._ask("infer", question.json)["steps"],
        )
        return retold_legality(data, solution, arguments or {})

    def legal_parts(
        self,
        annotation: str | Annotation,
        inputs: Inputs,
        split: str | tuple[int, int],
        *,
        arguments: Mapping[str, Any] | None = None,
        facts: Iterable[str | Relation] = (),
        up_to: int | None = None,
        contiguous: bool = False,
        value_split: Collection[int] = (),
        partial: str = "sum",
    ) -> LegalParts:
        """Returns what `dimsolve.legal_parts` returns; ``up_to`` is at most 1000."""
        question = _Operator(annotation, inputs, arguments, facts)
        cut = _cut(split, contiguous, value_split, partial)
        return retold_legal_parts(
            self._ask("legal-parts", {**question.json, **cut, "up_to": up_to})
        )

    def prove(self, claim: str | Relation, *, facts: Iterable[str | Relation] = ()) -> Proof:
        """Returns what `dimsolve.prove` returns."""
        return retold_proof(self._ask("prove", {"claim": str(claim), "facts": _texts(facts)}))

    def plan(self, graph: Graph | str, mesh: MeshLike, policy: Any = None) -> Plan:
        """Returns what `dimsolve.plan` returns. graph: or the name of an example, ``"llama:tiny"``.

        Raises TypeError for a policy that is a function: it stays in this process.
        """
        from dimsolve.partition.mesh import Mesh
        from dimsolve.partition.plan import Plan

        if callable(policy):
            raise TypeError("a function cannot be sent; give a named policy or a mapping")
        axes = {name: _length(size) for name, size in Mesh.of(mesh).axes}
        asked: dict[str, Any] = {"mesh": axes, "policy": policy}
        if isinstance(graph, str):
            return Plan.from_json(dumps(self._ask("plan", {**asked, "example": graph})))
        data = graph.to_json()
        return Plan.from_json(dumps(self._ask("plan", {**asked, "graph": data}))).for_graph(graph)

    def operators(self) -> list[dict[str, Any]]:
        """Returns what the service knows: ``{"path", "annotations", "note"}`` each."""
        found: list[dict[str, Any]] = self._wire.ask("GET", "/v1/operators")["operators"]
        return found

    def close(self) -> None:
        """Closes the connection of this thread."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, verb: str, question: Mapping[str, Any]) -> Any:
        return self._wire.ask("POST", f"/v1/{verb}", question)


class _Operator:
    """A question about an operator: ``json``, and ``told``, what its solution is made of."""

    def __init__(
        self,
        annotation: str | Annotation,
        inputs: Inputs,
        arguments: Mapping[str, Any] | None,
        facts: Iterable[str | Relation],
    ) -> None:
        self._text = annotation if isinstance(annotation, str) else annotation.text
        self._inputs = None if inputs is None else list(inputs)
        self._facts = _texts(facts)
        self.json = {
            "annotation": self._text,
            "inputs": None if self._inputs is None else [_shape(shape) for shape in self._inputs],
            "arguments": {name: _argument(value) for name, value in (arguments or {}).items()},
            "facts": self._facts,
        }

    @property
    def told(self) -> tuple[str, list[Shape | None], Facts]:
        annotation = read_annotation(self._text)
        shapes: list[Shape | None] = [None] * len(annotation.inputs)
        if self._inputs is not None:
            shapes = [to_shape(shape) for shape in self._inputs]
        return self._text, shapes, self._known(annotation, shapes)

    def _known(self, annotation: Annotation, shapes: Iterable[Shape | None]) -> Facts:
        """The facts about the caller's symbols; those about identifiers are in the lengths."""
        dims = [dim for shape in shapes for dim in shape or () if isinstance(dim, Poly)]
        others = identifiers_of(annotation).keys() - set[str]().union(*map(symbols_of, dims))
        relations = [relation for fact in self._facts for relation in read_relations(fact)]
        ours = [r for r in relations if not (names_of(r.left) | names_of(r.right)) & others]
        return read_facts(ours) if ours else NO_FACTS


def _shape(shape: Any) -> Any:
    """A shape as JSON: text stays text, so that an error points into it."""
    if shape is None or isinstance(shape, str):
        return shape
    if not isinstance(shape, Iterable):
        to_shape(shape)  # raises the error for what is no shape
    return [None if dim is None else _length(dim) for dim in shape]


def _length(value: Any) -> int | str:
    if isinstance(value, str) or type(value) is int:
        return value
    dim = to_dim(value)
    return dim if isinstance(dim, int) else str(dim)


def _argument(value: Any) -> Any:
    """An argument as JSON. What is no length at all is only named: the solver leaves it aside."""
    if value is None or isinstance(value, str | int | float):
        return str(value) if isinstance(value, float) and value - value != 0 else value
    try:
        return _length(value)
    except DimsolveError:
        return None


def _cut(
    split: str | tuple[int, int], contiguous: bool, value_split: Collection[int], partial: str
) -> dict[str, Any]:
    return {
        "split": split if isinstance(split, str) else list(split),
        "contiguous": contiguous,
        "value_split": list(value_split),
        "partial": partial,
    }


def _texts(facts: Iterable[str | Relation]) -> list[str]:
    return [facts] if isinstance(facts, str) else [str(fact) for fact in facts]
