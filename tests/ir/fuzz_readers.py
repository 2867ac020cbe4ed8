"""Throws hostile text at every reader and reports what came of it, how slow, how much memory.

    python -m tests.ir.fuzz_readers 100000

The texts are those of `strategies.hostile_texts`. A reader either raises an AnnotationError, whose
text can be printed, or returns a tree, whose text reads back to an equal tree. Time and memory are
reported and decide nothing here; the aim is at most 100 ms a text, and memory that does not grow.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from time import perf_counter

from hypothesis import HealthCheck, Phase, given, settings

from dimsolve.ir import AnnotationError
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.read_expression import read_dimension, read_relations, read_shape

from .strategies import hostile_texts

READERS: tuple[Callable[[str], object], ...] = (
    read_annotation,
    read_dimension,
    read_shape,
    read_relations,
)


def read_and_check(read: Callable[[str], object], text: str) -> str:
    """Returns the error's code, or ``"read"``. Raises where a law is broken."""
    try:
        result = read(text)
    except AnnotationError as error:
        str(error).encode("utf-8")
        diagnostic = error.diagnostic
        assert diagnostic.title
        assert diagnostic.reason
        assert all(0 <= start <= stop for start, stop in diagnostic.spans)
        return diagnostic.code
    for tree in result if isinstance(result, tuple) else (result,):
        again = read_shape(str(tree)) if read is read_shape else read(str(tree))
        assert again == ((tree,) if isinstance(again, tuple) else tree), str(tree)
    return "read"


def report(count: int) -> None:
    """Runs ``count`` texts through all readers and prints what happened."""
    codes: Counter[str] = Counter()
    slowest = (0.0, "", "")
    kept: list[int] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(hostile_texts())
    def run(text: str) -> None:
        nonlocal slowest
        for read in READERS:
            begin = perf_counter()
            code = read_and_check(read, text)
            took = perf_counter() - begin
            codes[code] += 1
            if took > slowest[0]:
                slowest = (took, read.__name__, text[:60])
        if sum(codes.values()) % (len(READERS) * max(count // 5, 1)) == 0:
            gc.collect()
            own = tracemalloc.take_snapshot().filter_traces(
                [tracemalloc.Filter(True, "*/dimsolve/ir/*")]
            )
            kept.append(sum(trace.size for trace in own.traces))

    tracemalloc.start()
    begin = perf_counter()
    run()
    print(f"{sum(codes.values()):,} readings of hostile text in {perf_counter() - begin:.0f} s")
    print(f"slowest {slowest[0] * 1e3:.1f} ms (traced): {slowest[1]}({slowest[2]!a})")
    print("kept by ir/ over time, MB:", *(f"{size / 1e6:.1f}" for size in kept))
    for code, times in codes.most_common():
        print(f"{times:9,} {code}")


if __name__ == "__main__":
    report(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
