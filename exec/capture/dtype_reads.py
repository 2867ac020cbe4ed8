"""Where a model reads the dtype of a tensor that it has computed, and under which autocast that
would be another one.

    h = self.up(x)                                  float32; under autocast bfloat16
    mask = torch.full((8, 8), -inf, dtype=h.dtype)  captured as torch.float32, whatever h is later

torch's capture has the dtype that it finds in the place of what reads it. So the captured steps are
run once more on fake tensors under every other autocast, and where a dtype that was read is another
one there, calls under it are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch._dynamo.variables import TensorVariable
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node

from dimsolve.ir.graph import Source
from dimsolve.solver.graphs.names import source

from ..modes import DEVICES, autocast_now, modes_kept, state_of

HALF = ("bfloat16", "float16")
"""What autocast casts to."""


class Read(NamedTuple):
    """The dtype of the result of a step, read at a line of the model."""

    node: Node
    dtype: torch.dtype
    line: Source | None


@contextmanager
def noting_reads(found: list[Read]) -> Iterator[None]:
    """A block in which torch.compile adds what a model reads to a list."""
    plain = TensorVariable.method_attr_dtype

    def read(self: Any, tx: Any) -> Any:
        node, dtype = self.as_proxy().node, self.dtype
        if dtype is not None and dtype.is_floating_point and node.op != "placeholder":
            found.append(Read(node, dtype, _line()))
        return plain(self, tx)

    with patch.object(TensorVariable, "method_attr_dtype", read):
        yield


def _line() -> Source | None:
    frames = [f for f in TracingContext.extract_stack() if "/torch/" not in f.filename]
    return source(frames[-1].filename, frames[-1].lineno or 0) if frames else None


def other_dtypes(module: GraphModule, reads: Sequence[Read], device: str) -> dict[str, str]:
    """Returns the states of autocast under which a dtype that was read is another one, with the
    line that reads the first such. device: where the model is, the only kind that can be asked; on
    others every other state counts.

    One run tells of all other states: a dtype that is the same with autocast off and under one
    dtype does not depend on it, and any other dtype is under no two states the same.
    """
    if not reads:
        return {}
    now, asked = autocast_now(), device.partition(":")[0]
    found: dict[str, str] = {}
    for kind in DEVICES:
        cast = {} if kind in now else {kind: HALF[0]}
        other = _first_other(module, reads, kind, cast) if kind == asked else reads[0]
        if other is None:
            continue
        states = {state_of(cast, kind) for cast in ({}, *({kind: dtype} for dtype in HALF))}
        line = str(other.line or "a line of torch")
        found |= dict.fromkeys(sorted(states - {state_of(now, kind)}), line)
    return found


def _first_other(
    module: GraphModule, reads: Sequence[Read], kind: str, cast: dict[str, str]
) -> Read | None:
    """The first read that finds another dtype under an autocast; also where that is not known.

    No dtype depends on a size, so the steps are run with the numbers of the example, which takes a
    third of the time; with symbols only where the numbers do not get through.
    """
    places = [node for node in module.graph.nodes if node.op == "placeholder"]
    fakes = [node.meta["example_value"] for node in places]
    mode = next((f.fake_mode for f in fakes if hasattr(f, "fake_mode")), None)
    wanted = {read.node: read for read in reversed(reads)}
    if mode is None or not wanted.keys() <= set(module.graph.nodes):
        return reads[0]
    dtype = getattr(torch, cast.get(kind, "bfloat16"))
    numbers: Any = FakeTensorMode()
    ways: list[tuple[Any, Callable[[], list[Any]]]] = [
        (numbers, lambda: _in_numbers(fakes, numbers)),
        (mode, lambda: fakes),
    ]
    for fake_mode, inputs in ways:
        steps = _Steps(module, wanted)
        try:
            with (
                modes_kept(),
                fake_mode,
                patch.object(fake_mode, "allow_non_fake_inputs", True),
                torch.autocast(kind, dtype, enabled=bool(cast)),
            ):
                steps.run(*inputs())
        except _Other:
            return steps.other
        except Exception:
            continue
        return None
    return reads[0]


def _in_numbers(fakes: Sequence[Any], mode: Any) -> list[Any]:
    """The inputs of the steps with the example's sizes, as fake tensors of a mode of their own."""

    def numbers(value: Any) -> Any:
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return value.node.hint
        if not isinstance(value, torch.Tensor):
            return value
        sizes, strides = ([numbers(n) for n in of] for of in (value.shape, value.stride()))
        made = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
        return made.requires_grad_(value.requires_grad)

    with mode:
        return [numbers(fake) for fake in fakes]


class _Other(Exception):
    """A dtype is another one."""


class _Steps(Interpreter):
    """Runs steps until one gives a tensor of another dtype than was read."""

    def __init__(self, module: GraphModule, reads: dict[Node, Read]) -> None:
        super().__init__(module)
        self.reads = reads
        self.other: Read | None = None

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        read = self.reads.get(n)
        if read is not None and result.dtype != read.dtype:
            self.other = read
            raise _Other
        return result
