"""What was measured on a machine, in a SQLite file, and the `Machine` that it makes.

    operators      device, dtype, function, lengths, shapes  ->  seconds forward and backward
    collectives    device, collective, ranks, bytes sent     ->  seconds

`dimsolve profile` writes it. A device is a machine with so many ranks on it: they share its cores
and its memory, so times of 2 ranks do not hold for 4. Times are medians; spread
is the distance between the quartiles, as a part of the median.

What was measured counts as it is. For the rest a peak per dtype, a bandwidth and a floor are fitted
to all operators, and a latency and a bandwidth to the sizes of each collective, so that the factors
by which they are wrong are least in sum (of logarithms: an outlier counts as one).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from itertools import combinations
from math import ceil, inf, log, log2
from pathlib import Path
from statistics import median
from typing import Any

from .machine import NOT_MEASURED, Link, link_name

SECOND = 10**12


@dataclass(frozen=True, slots=True)
class Device:
    """Where it was measured. memory: bytes of a rank."""

    device: str
    ranks: int
    memory: int
    software: str


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator at its local shapes. key: as `dimsolve.partition.machine.timed_as` says. work:
    how many FLOP its forward pass has; passes: how many times that work a step does by the model.
    """

    device: str
    dtype: str
    function: str
    lengths: str
    shapes: str
    key: str
    product: bool
    work: int
    moved: int
    passes: int
    forward: float
    backward: float
    forward_spread: float
    backward_spread: float
    runs: int


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """One collective. bytes: that a rank sends."""

    device: str
    collective: str
    ranks: int
    bytes: int
    seconds: float
    spread: float
    runs: int


_SCHEMA = """
create table if not exists devices(
    device text primary key, ranks integer, memory integer, software text);
create table if not exists operators(
    device text, dtype text, function text, lengths text, shapes text, key text, product integer,
    work integer, moved integer, passes integer, forward real, backward real,
    forward_spread real, backward_spread real, runs integer,
    primary key (device, dtype, function, lengths, shapes));
create table if not exists collectives(
    device text, collective text, ranks integer, bytes integer, seconds real, spread real,
    runs integer, primary key (device, collective, ranks, bytes));
"""


def write(
    path: str | Path,
    device: Device,
    operators: Iterable[OperatorTime],
    collectives: Iterable[CollectiveTime],
) -> None:
    """Adds what was measured to a file, which is made where there is none; what is measured again
    replaces what was there.
    """
    with closing(_opened(path)) as database, database:
        database.executescript(_SCHEMA)
        for table, rows in (
            ("devices", [device]),
            ("operators", [*operators]),
            ("collectives", [*collectives]),
        ):
            for row in rows:
                values = astuple(row)
                places = ", ".join("?" * len(values))
                database.execute(f"insert or replace into {table} values ({places})", values)


def known(path: str | Path, device: str) -> tuple[set[tuple[str, str]], set[tuple[str, int]]]:
    """Returns what a file has of a device: operators by (key, shapes), collectives by (name,
    ranks).
    """
    if not Path(path).is_file():
        return set(), set()
    operators = {(row.key, row.shapes) for row in _operators(path, device)}
    return operators, {(row.collective, row.ranks) for row in _collectives(path, device)}


def machine_of(path: str | Path, device: str | None = None) -> dict[str, Any]:
    """Returns the fields of the machine that was measured. MachineError where there is none, or
    several and none is chosen.
    """
    devices = [Device(*row) for row in _rows(path, "select * from devices order by device")]
    names = [each.device for each in devices]
    if not devices:
        raise NOT_MEASURED(path=str(path), reason="nothing was measured yet")
    if device is None and len(devices) > 1:
        raise NOT_MEASURED(path=str(path), reason=f"it has several devices: {'; '.join(names)}")
    if device is not None and device not in names:
        raise NOT_MEASURED(
            path=str(path), reason=f"it has no {device!r:.80}, but {'; '.join(names)}"
        )
    own = devices[0] if device is None else devices[names.index(device)]
    operators = [*_operators(path, own.device)]
    collectives = [*_collectives(path, own.device)]
    timed = [row for row in operators if row.dtype != "None" and row.forward + row.backward > 0]
    if not timed:
        raise NOT_MEASURED(path=str(path), reason=f"it has no operator of {own.device}")
    times: dict[str, tuple[int, int]] = {}
    for row in operators:
        found = round(row.forward * SECOND), round(row.backward * SECOND)
        times[row.key] = max(found, times.get(row.key, found))
    links, link = _links(collectives)
    return {
        "name": f"measured: {own.device}",
        "ranks_per_node": own.ranks,
        "memory": own.memory,
        **_fitted(timed),
        "efficiency": 1.0,
        "inside": link,
        "outside": link,
        "times": times,
        "links": links,
        "sources": {
            "times": f"medians of {sum(row.runs for row in operators)} runs, {own.software}",
            "flops": f"fitted to {len(timed)} operators",
            "bandwidth": f"fitted to {len(timed)} operators",
            "floor": f"fitted to {len(timed)} operators",
            "links": f"fitted to {len(collectives)} sizes of collectives",
            "memory": "of the machine, divided by its ranks",
        },
    }


def _fitted(rows: Sequence[OperatorTime]) -> dict[str, Any]:
    """A peak per dtype, a bandwidth and a floor, each in turn the one of those that some row has
    that is best beside the others.
    """
    once = [(row, (row.forward + row.backward) / row.passes) for row in rows]
    dtypes = sorted({row.dtype for row in rows})
    floor = median(time for _, time in once)
    bandwidth = max(row.moved / time for row, time in once) or 1.0
    peaks = {d: max([row.work / t for row, t in once if row.dtype == d] or [1.0]) for d in dtypes}

    def wrong(floor: float, bandwidth: float, peaks: dict[str, float]) -> float:
        return sum(
            abs(log(max(row.work / peaks[row.dtype], row.moved / bandwidth, floor) / time))
            for row, time in once
        )

    for _ in range(4):
        floor = min([t for _, t in once], key=lambda value: wrong(value, bandwidth, peaks))
        rates = [row.moved / t for row, t in once if row.moved]
        bandwidth = min(rates or [bandwidth], key=lambda value: wrong(floor, value, peaks))
        for dtype in dtypes:
            rates = [row.work / t for row, t in once if row.dtype == dtype and row.work]
            best = min(
                rates or [peaks[dtype] or 1.0],
                key=lambda value: wrong(floor, bandwidth, {**peaks, dtype: value}),
            )
            peaks[dtype] = best
    return {"floor": floor, "bandwidth": bandwidth, "flops": peaks}


def _links(rows: Sequence[CollectiveTime]) -> tuple[dict[str, Link], Link]:
    """The link of every collective and count of ranks, and one for those that were not measured:
    that of the all-reduce, or the first, with its latency for each doubling of ranks.
    """
    groups: dict[tuple[str, int], list[CollectiveTime]] = {}
    for row in rows:
        groups.setdefault((row.collective, row.ranks), []).append(row)
    links = {
        link_name(*key): line_of([(r.bytes, r.seconds) for r in own]) for key, own in groups.items()
    }
    if not groups:
        return {}, Link(bandwidth=inf, latency=0.0)
    key = max(groups, key=lambda each: (each[0] == "all-reduce", each))
    found = links[link_name(*key)]
    return links, Link(
        bandwidth=found.bandwidth, latency=found.latency / ceil(log2(max(key[1], 2)))
    )


def line_of(points: Sequence[tuple[int, float]]) -> Link:
    """Returns the latency and bandwidth through two of the points that fit all of them best.

    >>> line_of([(0, 1.0), (10, 2.0), (20, 3.0), (30, 99.0)])
    Link(bandwidth=10.0, latency=1.0)
    """
    least = min(seconds for _, seconds in points)
    lines = [Link(bandwidth=max(max(b for b, _ in points), 1) * 1e6 / least, latency=least)]
    for (a, before), (b, after) in combinations(sorted(points), 2):
        if b > a and after > before:
            slope = (after - before) / (b - a)
            lines.append(Link(bandwidth=1 / slope, latency=max(before - a * slope, 0.0)))

    def wrong(link: Link) -> float:
        return sum(
            abs(log(max(link.latency + b / link.bandwidth, 1e-12) / time)) for b, time in points
        )

    return min(lines, key=wrong)


def _operators(path: str | Path, device: str) -> Iterable[OperatorTime]:
    for row in _rows(path, "select * from operators where device = ? order by key, shapes", device):
        yield OperatorTime(*row)


def _collectives(path: str | Path, device: str) -> Iterable[CollectiveTime]:
    text = "select * from collectives where device = ? order by collective, ranks, bytes"
    for row in _rows(path, text, device):
        yield CollectiveTime(*row)


def _rows(path: str | Path, text: str, *values: str) -> list[Any]:
    if not Path(path).is_file():
        raise NOT_MEASURED(path=str(path), reason="there is no such file")
    try:
        with closing(_opened(path)) as database:
            return database.execute(text, values).fetchall()
    except sqlite3.Error as error:
        raise NOT_MEASURED(path=str(path), reason=str(error)) from None


def _opened(path: str | Path) -> sqlite3.Connection:
    return sqlite3.connect(path)
