"""Law: what an operator writes in place is read as on one device, in any layout, under any name.

Random graphs of calls that write, views and others, random plans, all ranks in one process,
forward and backward; the library's functions that return views are known as such.
"""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import Tensor

import dimsolve as ds
from dimsolve.exec.calls import resolve
from dimsolve.ir.errors import DimsolveError
from dimsolve.partition.aliasing import _SHARING, _VIEWS_OF_ALL, aliases_of, written_by
from dimsolve.partition.plan import plan
from dimsolve.partition.plan_data import PlanError
from dimsolve.solver.operators import examples, find, names
from tests.oracles.all_ranks import compare, tensors, whole_run

from .random_graphs import chaos, random_mesh
from .sweep import NAMED
from .writing_calls import writing_graph

BATCH = 25


def one(seed: int) -> str:
    """Runs one random plan; returns what came of it. ``nothing``: torch refuses the program."""
    random = Random(seed)
    grown = writing_graph(random, random.randint(2, 10))
    mesh = random_mesh(random)
    policy = chaos(random) if random.random() < 0.75 else random.choice(NAMED)
    try:
        whole_run(grown.graph, grown.state, grown.inputs)
    except RuntimeError:
        return "nothing"
    try:
        made = plan(grown.graph, mesh, policy)
    except PlanError:
        return "refused"
    found = compare(made, grown.graph, grown.state, grown.inputs, {})
    return "ok" if found.ok else f"wrong: {found}"


@pytest.mark.parametrize("start", range(0, 300, BATCH))
def test_random_programs_that_write_equal_one_device(start: int) -> None:
    results = {seed: one(seed) for seed in range(start, start + BATCH)}
    assert not {s: text for s, text in results.items() if text not in ("ok", "refused", "nothing")}
    assert sum(text == "ok" for text in results.values()) >= BATCH // 4


SHARING = [path for path in names() if path.startswith(("torch.", "operator."))]


@pytest.mark.parametrize(
    "letter", sorted({path.rpartition(".")[2][:1].lower() for path in SHARING})
)
def test_functions_that_return_views_are_known(letter: str) -> None:
    unknown = set()
    for path in SHARING:
        name = path.rpartition(".")[2]
        if not name.lower().startswith(letter) or name in _VIEWS_OF_ALL:
            continue
        unknown |= {name for place in _shared(path) if place > 0 or name not in _SHARING}
    assert not unknown


def _shared(path: str) -> set[int]:
    """The arguments, by number, whose memory a result of the examples has; none of a writer's."""
    operator = find(path)
    assert operator is not None
    found: set[int] = set()
    try:
        function = resolve(path)
    except DimsolveError:  # of a package that is not here
        return found
    for args, kwargs in examples(path):
        if operator.declare(*args, **kwargs).mutates:
            continue
        given = [t for t in tensors([*args, *kwargs.values()]) if t.numel()]
        try:
            with torch.no_grad():
                made = tensors(function(*args, **kwargs))
        except (RuntimeError, TypeError, NotImplementedError):
            continue
        found |= {n for n, t in enumerate(given) for o in made if _memory(o) == _memory(t)}
    return found


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def test_views_and_writes_of_torch_are_known_by_their_names_without_overloads() -> None:
    """``torch.ops.aten.slice.Tensor`` is a slice, and ``mul_.Tensor`` writes."""
    with ds.Graph() as graph:
        x = graph.input("x", "8, 6", "float32")
        part = graph.call("torch.ops.aten.slice.Tensor", graph.call("torch.exp", x), 0, 0, 4)
        graph.output(graph.call("torch.ops.aten.mul_.Tensor", part, 2))
    whole = next(node.output for node in graph.nodes() if node.name == "exp")
    assert whole in aliases_of(graph)[part] and x not in aliases_of(graph)[part]
    assert [value for value, _ in written_by(graph.nodes()[-1])] == [part]
