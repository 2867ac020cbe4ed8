"""The table of figures: `pytest tests/benchmarks` ends with it, and `docs/figures.md` quotes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest


class Figure(NamedTuple):
    """A question, the median of its time in seconds, and the most it should be, if that is ours."""

    question: str
    median: float
    aim: float | None


FIGURES = pytest.StashKey[list[Figure]]()

Measure = Callable[..., None]


@pytest.fixture
def measure(benchmark: Any, pytestconfig: pytest.Config) -> Measure:
    """Times one call, ``measure("matmul", 15e-6, call)``, or a call per fresh argument."""

    def timed(
        question: str,
        aim: float,
        call: Callable[..., object],
        fresh: Iterator[object] | None = None,
        rounds: int = 3000,
    ) -> None:
        if fresh is None:
            benchmark(call)
        else:
            benchmark.pedantic(
                call, setup=lambda: ((next(fresh),), {}), rounds=rounds, warmup_rounds=rounds // 10
            )
        if benchmark.stats is not None:
            figures = pytestconfig.stash.setdefault(FIGURES, [])
            figures.append(Figure(question, benchmark.stats.stats.median, aim))

    return timed


@pytest.fixture
def figure(pytestconfig: pytest.Config) -> Callable[[str, float, float | None], None]:
    """Puts a time that a benchmark took itself into the table."""

    def put(question: str, seconds: float, aim: float | None) -> None:
        pytestconfig.stash.setdefault(FIGURES, []).append(Figure(question, seconds, aim))

    return put


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    figures = config.stash.get(FIGURES, [])
    if not figures:
        return
    terminalreporter.section("figures")
    rows = [("question", "median", "at most")]
    rows += [(figure.question, _time(figure.median), _time(figure.aim)) for figure in figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (question, median, aim) in enumerate(rows):
        terminalreporter.line(
            f"| {question:<{widths[0]}} | {median:>{widths[1]}} | {aim:>{widths[2]}} |"
        )
        if number == 0:
            terminalreporter.line(
                f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 1)}:|{'-' * (widths[2] + 1)}:|"
            )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.0f} ms"
