"""Graphs of larger models, traced once in a whole run of the tests.

    graph = shared_trace("llama", model, kwargs=example)        as ds.trace(model, kwargs=example)

To trace a small transformer takes seconds, and every process that runs tests, and every rank that
they start, would do it again: it was the largest part of what the tests cost. The first process
that asks for a name traces, and writes the graph as JSON where all processes of this run find it;
the others read it, which gives the same plans (`tests/exec/test_shared_traces.py`). Without a run
of pytest a process only remembers its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor, nn

from dimsolve.exec.capture.argument_objects import mapped, parts_of
from dimsolve.exec.capture.trace import trace
from dimsolve.exec.capture.traced_model import traced_model
from dimsolve.exec.graph import Graph
from dimsolve.exec.parallel import on_demand
from dimsolve.ir.errors import GraphError

HOME = "DIMSOLVE_TEST_TRACES"
"""The environment variable that names the folder of this run; tests/conftest.py makes it."""

_known: dict[str, Graph] = {}


def shared_trace(
    name: str,
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: Any = None,
) -> Graph:
    """Returns the graph of a call, traced where this run has none of this name yet.

    A name stands for one model, with one example, dtype and mode.
    """
    home = os.environ.get(HOME)
    if name in _known:
        return _known[name]
    if home is None:
        graph = trace(model, args, kwargs, dynamic=dynamic)
    else:
        file = Path(home) / hashlib.sha256(name.encode()).hexdigest()
        with file.open("a+") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # until it is closed, and where the process is lost
            read = _read(file, model)
            graph = trace(model, args, kwargs, dynamic=dynamic) if read is None else read
            if read is None:
                held.write(_written(graph))
    return _known.setdefault(name, graph)


def _written(graph: Graph) -> str:
    """The graph as JSON; nothing where that would not be read, as it calls what has no name."""
    data = graph.to_json()
    try:
        type(graph).from_json(data)
    except GraphError:
        return ""
    return json.dumps(data)


def _read(file: Path, model: Any) -> Graph | None:
    text = file.read_text()
    if not text:
        return None
    graph = Graph.from_json(json.loads(text))
    graph.traced = traced_model(model)
    return graph


@contextmanager
def shared_on_demand(name: str) -> Iterator[None]:
    """Parts of one model, on all ranks, share what they trace on demand."""

    def shared(model: nn.Module, args: Any, kwargs: Any, *, dynamic: Any) -> Graph:
        modes = [module.training for module in model.modules()]
        shapes = mapped({"args": args, "kwargs": dict(kwargs)}, _shape)
        key = repr((modes, _words(shapes), dynamic))
        return shared_trace(f"{name}: {key}", model, args, kwargs, dynamic=dynamic)

    with patch.object(on_demand, "trace", shared):
        yield


def _shape(leaf: Any) -> Any:
    return tuple(leaf.shape) if isinstance(leaf, Tensor) else leaf


def _words(value: Any) -> Any:
    """A value and what it holds, without addresses."""
    parts = parts_of(value)
    return value if parts is None else {key: _words(part) for key, part in parts.items()}
