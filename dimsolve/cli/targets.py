"""``dimsolve infer TARGET``: a model with the symbolic shape of every value."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, NoReturn

import typer

from .answers import answer, only_json
from .page import Block, Cell

if TYPE_CHECKING:
    from dimsolve.exec.graph import Graph


def is_target(text: str) -> bool:
    """Whether a text names a model (``module:function``, ``file.py:function``) and is no
    annotation.

    >>> is_target("model.py:tiny"), is_target("m k -> m")
    (True, False)
    """
    home, colon, name = text.strip().rpartition(":")
    return bool(colon) and name.isidentifier() and bool(home) and "->" not in text


def infer_target(text: str, *, explain: bool, json: bool) -> NoReturn:
    """Traces the model and prints its graph; with ``explain`` only what must hold, and why."""

    def ask() -> Graph:
        from dimsolve.exec.target import load_target

        return load_target(text).trace()

    if not json:
        answer(ask, _show_conditions if explain else _show_graph, json=False)
    from dimsolve.ir.errors import DimsolveError

    try:
        with only_json():
            data = ask().to_json()
    except DimsolveError as error:
        raised = error
        answer(lambda: _again(raised), lambda _: (), json=True)
    typer.echo(dumps(data))
    raise typer.Exit


def _again(error: Exception) -> NoReturn:
    raise error


def _show_graph(graph: Graph) -> Iterator[Block]:
    yield [[Cell(line)] for line in graph.show().splitlines()]


def _show_conditions(graph: Graph) -> Iterator[Block]:
    lines = graph.explain().splitlines() or ["nothing must hold: the graph runs at all sizes"]
    yield [[Cell(line)] for line in lines]
