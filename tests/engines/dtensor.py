"""torch's DTensor beside one device: its own rules, and those that we write for it.

    python -m tests.engines.dtensor rules [PATH ...]      its own, for all operators of the library
    python -m tests.engines.dtensor exports [PATH ...]    ours, as `register_sharding` takes them

*rules* calls every example of every operator on DTensors that lie in every way their shapes allow
(one mesh axis; `Replicate` and `Shard`), and compares what comes out with one device. *exports*
makes an operator of each example, registers one strategy of `ds.to_register_sharding` at a time,
and calls it on DTensors that lie so. There are two ranks, and five, which cut 12
and 6 unequally, in one process; each operator in a child, as some end the process that they run in.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

import dimsolve as ds
from dimsolve.exec.calls import Arguments, Call, function_of, invoke
from dimsolve.exec.verification.compare import relative
from dimsolve.exec.verification.verify import library_examples, operator_for
from dimsolve.exec.verification.whole import fixed_random, in_float64
from dimsolve.ir.errors import DimsolveError
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.paths import IN_PLACE

COUNTS = (2, 5)
MOST = 40
"""So many ways to lay the tensors of one call are run."""

SECONDS = 300
"""So long may one operator take: DTensor searches some layouts for much longer."""

Line = tuple[str, str]
"""What came of one run ("equal", "wrong", "raises", "refused", ...), and its words."""


def calls_of(path: str) -> Iterator[Call]:
    """Yields the examples of an operator that have one right answer."""
    operator = operator_for(path)
    try:
        examples = library_examples(operator, "cpu")
    except DimsolveError:
        return
    for arguments in examples:
        call = Call(operator, in_float64(arguments))
        if not call.declaration.random and call.declaration.returns != "value":
            yield call


def ran(call: Call, tensors: list[Any]) -> list[Any]:
    """Returns the tensors that the call returns, on these tensors in place of its own."""
    places = [place for place, _ in call.arguments.tensors()]
    given = call.arguments.with_values(dict(zip(places, tensors, strict=True)))
    result = invoke(function_of(call.operator), given, call.operator.parameters)
    found = [tensor for _, tensor in Arguments((result,), {}).tensors()]
    return found or tensors[:1]  # of a call that returns nothing: what it writes to


def whole_of(call: Call) -> list[Tensor] | None:
    """Returns what one device gives; None where it raises, or two runs differ."""
    own = [tensor for _, tensor in call.arguments.tensors()]
    try:
        found, again = ([t.detach() for t in ran(call, [x.clone() for x in own])] for _ in "12")
    except Exception:
        return None
    return found if all(relative(a, b) == 0.0 for a, b in zip(found, again, strict=True)) else None


def ways(tensors: list[Tensor]) -> list[tuple[str, ...]]:
    """Returns how the tensors may lie: ``R``, or ``S0``, ``S1``, ...; each of them."""
    each = [["R", *(f"S{d}" for d in range(t.ndim) if t.shape[d] > 1)] for t in tensors]
    every = list(product(*each))
    step = -(-len(every) // MOST)
    return every[::step]


def placement(word: str) -> Any:
    """Returns torch's placement."""
    from torch.distributed.tensor import Replicate, Shard

    return Replicate() if word == "R" else Shard(int(word[1:]))


def rules(path: str, count: int) -> Iterator[Line]:
    """Yields what DTensor's own rules give of an operator."""
    for call in calls_of(path):
        wanted = whole_of(call)
        own = [tensor for _, tensor in call.arguments.tensors()]
        if wanted is None or not own:
            continue
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in own)
        for way in ways(own):
            yield compared(
                f"{path} {shapes} on {count} as {' '.join(way)}",
                lambda mesh, way=way, own=own, call=call: ran(call, laid(own, way, mesh)),
                wanted,
                count,
            )


def laid(tensors: list[Tensor], way: tuple[str, ...], mesh: Any) -> list[Any]:
    """Returns DTensors that lie so; a rank's copy of what is whole is its own, to be written to."""
    from torch.distributed._local_tensor import LocalTensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    def one(tensor: Tensor, word: str) -> Any:
        if word != "R":
            return distribute_tensor(tensor.clone(), mesh, [placement(word)])
        with torch.no_grad():
            copies = {rank: tensor.detach().clone() for rank in range(mesh.size())}
        return DTensor.from_local(LocalTensor(copies), mesh, [placement(word)], run_check=False)

    return [one(tensor, word) for tensor, word in zip(tensors, way, strict=True)]


def exports(path: str, count: int) -> Iterator[Line]:
    """Yields what DTensor gives by our strategies of an operator, one by one."""
    for number, call in enumerate(calls_of(path)):
        wanted = whole_of(call)
        own = [tensor for _, tensor in call.arguments.tensors()]
        if wanted is None or not own:
            continue
        try:
            rows = ds.to_register_sharding(path)(*call.arguments.args, **call.arguments.kwargs)
        except DimsolveError as error:
            yield "refused", f"{path}: {error.diagnostic.reason}"
            continue
        for row, (outputs, inputs) in enumerate(rows):
            places = [each for each in inputs if each is not None]
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in own)
            words = f"{path} {shapes} on {count}: {places} -> {outputs}"
            name = f"{path.replace('.', '_').replace('-', '_')}_{number}_{row}_{count}"
            if len(places) != len(own) or len(outputs) != len(wanted):
                yield "wrong", f"{words}: it is of {len(own)} inputs and {len(wanted)} outputs"
                continue
            yield compared(
                words,
                lambda mesh, name=name, call=call, own=own, outs=outputs, ins=places: by_ours(
                    name, call, own, (outs, ins), mesh
                ),
                wanted,
                count,
            )


def by_ours(
    name: str, call: Call, own: list[Tensor], row: tuple[list[Any], list[Any]], mesh: Any
) -> list[Any]:
    """Returns what an operator with one strategy gives on DTensors that lie as it says."""
    from torch.distributed.tensor import Partial
    from torch.distributed.tensor.experimental import register_sharding

    def compute(*tensors: Tensor) -> Any:
        found = [tensor.clone() for tensor in ran(call, list(tensors))]
        return tuple(found) if len(found) > 1 else found[0]

    taken = ", ".join(f"Tensor x{n}" for n in range(len(own)))
    given = ", ".join("Tensor" for _ in row[0])
    schema = f"({taken}) -> {f'({given})' if len(row[0]) > 1 else given}"
    torch.library.custom_op(
        f"dimsolve_exports::{name}", compute, mutates_args=(), schema=schema
    ).register_fake(compute)
    operator = getattr(torch.ops.dimsolve_exports, name).default
    register_sharding(operator)(lambda *_: [row])
    words = [
        "R" if isinstance(p, Partial) else "S" * p.is_shard() + str(getattr(p, "dim", "R"))
        for p in row[1]
    ]
    result = operator(*laid(own, tuple(words), mesh))
    return list(result) if isinstance(result, tuple) else [result]


def compared(words: str, run: Callable[[Any], list[Any]], wanted: list[Tensor], count: int) -> Line:
    """Runs on so many ranks, and compares what they have together with one device."""
    from torch.distributed._local_tensor import LocalTensorMode
    from torch.distributed.tensor import DTensor, init_device_mesh

    try:
        with LocalTensorMode(count):
            found = run(init_device_mesh("cpu", (count,)))
            joined = [t.full_tensor() if isinstance(t, DTensor) else t for t in found]
            # What the ranks have, one by one: they need not agree, nor be numbers.
            held = [getattr(t, "_local_tensors", {0: t}) for t in joined]
    except Exception as error:
        if "min() arg is an empty sequence" in str(error):
            return "no part may be empty", words  # DTensor itself leaves such strategies out
        return "raises", f"{words}: {type(error).__name__}: {str(error)[:120]}"
    if len(joined) != len(wanted):
        return "wrong", f"{words}: {len(joined)} results, and {len(wanted)} on one device"
    for ranks, other in zip(held, wanted, strict=True):
        for rank, one in ranks.items():
            if one.shape != other.shape:
                shapes = f"{tuple(one.shape)}, and {tuple(other.shape)} on one device"
                return "wrong", f"{words}: {shapes}"
            if relative(one.detach().to(other.dtype), other) > 1e-6:
                return "wrong", f"{words}: other numbers on rank {rank}"
    return "equal", words


def in_child(work: Callable[[str, int], Iterator[Line]], path: str) -> Iterator[Line]:
    """Yields what a child process finds of an operator."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        code = 1
        try:
            warnings.simplefilter("ignore")
            signal.alarm(SECONDS)
            with os.fdopen(write, "w") as lines, fixed_random(0):
                for count in COUNTS:
                    for kind, text in work(path, count):
                        lines.write(f"{kind}\t{' '.join(text.split())}\n")
                        lines.flush()
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as lines:
        for line in lines:
            kind, _, text = line.rstrip("\n").partition("\t")
            yield kind, text
    _, status = os.waitpid(child, 0)
    if status:
        yield "ends the process", f"{path}: {status}"


def main(asked: str, chosen: list[str]) -> int:
    """Prints what is wrong, and the totals."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=max(COUNTS), store=FakeStore())
    work = {"rules": rules, "exports": exports}[asked]
    totals: Counter[str] = Counter()
    operators: dict[str, set[str]] = {}
    list(work("torch.neg", 2))  # what torch imports meanwhile, all children have
    paths = chosen or [*entries(), *(IN_PLACE if asked == "rules" else ())]
    for number, path in enumerate(paths):
        for kind, text in in_child(work, path):
            totals[kind] += 1
            operators.setdefault(kind, set()).add(path)
            if kind in ("wrong", "ends the process") or (chosen and kind == "raises"):
                print(f"{kind}: {text}", flush=True)
        if number % 50 == 49:
            print(f"{number + 1} of {len(paths)}", file=sys.stderr, flush=True)
    for kind, found in sorted(totals.items()):
        print(f"{kind}: {found} runs, of {len(operators[kind])} operators")
    return totals["wrong"]


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1], sys.argv[2:]), 1))
