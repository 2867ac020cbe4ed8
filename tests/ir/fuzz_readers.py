"""Throws hostile text at every reader and reports what came of it, how slow, how much memory.

    python -m tests.ir.fuzz_readers 100000

The texts are those of `strategies.hostile_texts`. A reader either raises an AnnotationError, whose
text can be printed, or returns a tree, whose text reads back to an equal tree. Time and memory are
reported and decide nothing here; the aim is at most 100 ms a text, and memory that does not grow.
"""

from __future__ import annotations

import gc
import heapq
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from time import perf_counter, thread_time

from hypothesis import HealthCheck, Phase, given, settings

from dimsolve.ir import AnnotationError, read_annotation, read_dimension, read_relations, read_shape
from dimsolve.ir.read_annotation import _read_cached
from dimsolve.ir.read_expression import _dimension, _relations, _shape
from tests.oracles.strategies import hostile_texts

READERS: tuple[Callable[[str], object], ...] = (
    read_annotation,
    read_dimension,
    read_shape,
    read_relations,
)
CACHES = (_read_cached, _dimension, _relations, _shape)


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


def run(count: int, check: Callable[[str], None]) -> None:
    """Draws ``count`` hostile texts and hands each to ``check``."""
    unlimited = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=tuple(HealthCheck),
    )
    unlimited(given(hostile_texts())(check))()


def report_time(count: int) -> None:
    """Prints what the readers said of ``count`` texts, and the time of the slowest.

    Processor time, and no collection of hypothesis's own garbage while a reader is timed.
    """
    codes: Counter[str] = Counter()
    times: list[tuple[float, int, str]] = []

    def check(text: str) -> None:
        gc.disable()
        for index, read in enumerate(READERS):
            begin = thread_time()
            codes[read_and_check(read, text)] += 1
            heapq.heappush(times, (thread_time() - begin, index, text))
            if len(times) > 50:
                heapq.heappop(times)
        gc.enable()

    begin = perf_counter()
    run(count, check)
    print(f"{sum(codes.values()):,} readings of {count:,} texts in {perf_counter() - begin:.0f} s")
    again = [(best_of_three(READERS[index], text), index, text) for _, index, text in times]
    for name, (took, index, text) in (("as it came", max(times)), ("best of 3", max(again))):
        print(f"slowest, {name}: {took * 1e3:.2f} ms, {READERS[index].__name__}({text[:40]!a})")
    for code, number in codes.most_common():
        print(f"{number:9,} {code}")


def best_of_three(read: Callable[[str], object], text: str) -> float:
    """Returns seconds of processor time."""
    times = []
    for _ in range(3):
        begin = thread_time()
        read_and_check(read, text)
        times.append(thread_time() - begin)
    return min(times)


def report_memory(count: int) -> None:
    """Prints what ir/ holds on to beside its bounded caches, at each tenth of the texts."""
    kept: list[int] = []
    seen = 0

    def check(text: str) -> None:
        nonlocal seen
        for read in READERS:
            read_and_check(read, text)
        seen += 1
        if seen % max(count // 10, 1) == 0:
            clear_caches()
            gc.collect()
            own = tracemalloc.Filter(True, "*/dimsolve/ir/*")
            traces = tracemalloc.take_snapshot().filter_traces([own]).traces
            kept.append(sum(trace.size for trace in traces))

    tracemalloc.start()
    run(count, check)
    tracemalloc.stop()
    print("kept by ir/ beside its caches, kB:", *(f"{size / 1e3:.0f}" for size in kept))


def report_caches() -> None:
    """Prints what the caches hold when they are full of the largest texts that they take."""
    clear_caches()
    tracemalloc.start()
    for index in range(1024):
        read_annotation(f"a{index} " + "a " * 60 + ", " + "a " * 10 + "->")
        for read in READERS[1:]:
            text = f"a{index}" + "+a" * 27
            read(text + "==a" if read is read_relations else text)
    print(f"kept by full caches at most, MB: {tracemalloc.get_traced_memory()[0] / 1e6:.0f}")
    tracemalloc.stop()
    clear_caches()


def clear_caches() -> None:
    for cache in CACHES:
        cache.cache_clear()


if __name__ == "__main__":
    texts = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    report_time(texts)
    report_memory(texts // 10)
    report_caches()
