"""A machine as data: what its ranks compute and send in a second, and where each number is from.

    machine = Machine.named("h100", nodes=8)     8 nodes of 8 GPUs
    Machine.model_validate_json(text)            one of your own, from `machine.model_dump_json()`

A mesh lies on the machine with its inner axes inside a node: an axis sends over the links within a
node as long as it and all axes inside it fit there, else over the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from dimsolve.ir.errors import DimsolveError, Problem


class MachineError(DimsolveError):
    """A machine that is not known."""

    __module__ = "dimsolve"


NO_MACHINE = Problem(
    MachineError,
    "no-such-machine",
    "there is no such machine",
    "'{name:.60}' is none; there are {names}",
    "give one of these, or dimsolve.Machine(...) with numbers of your own",
)


NOT_A_MACHINE = Problem(
    MachineError,
    "not-a-machine",
    "this file holds no machine",
    "{path:.120}: {reason:.200}",
    "write one: Machine.named('h100').model_dump_json() is an example",
)


NOT_MEASURED = Problem(
    MachineError,
    "not-measured",
    "this file holds no measured machine",
    "{path:.120}: {reason:.400}",
    "measure one: dimsolve profile model.py:tiny --mesh tp=2 --database FILE",
)


class Link(BaseModel):
    """What connects ranks. ``bandwidth``: bytes that one rank sends in a second. ``latency``:
    seconds until a collective over it starts, and once more for every doubling of its ranks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bandwidth: float = Field(gt=0)
    latency: float = Field(ge=0)


class Machine(BaseModel):
    """Ranks, and what connects them.

    ranks_per_node: inside a node they are connected by ``inside``, beyond it by ``outside``.
    flops: of one rank in a second, per dtype; the least of them for another. memory: bytes of
    one rank. bandwidth: bytes that one rank reads and writes in a second. floor: seconds that an
    operator takes at least. efficiency: what a kernel reaches of the peaks. sources: field -> where
    its number is from. times: what was measured of operators, by `timed_as`: picoseconds forward
    and backward; they count instead of the model. links: of collectives of one kind over so many
    ranks, by `link_name`; they count instead of ``inside`` and ``outside``, and their latency is
    that of the whole collective.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    nodes: int = Field(default=1, ge=1)
    ranks_per_node: int = Field(default=8, ge=1)
    flops: dict[str, PositiveFloat] = Field(min_length=1)
    memory: int = Field(gt=0)
    bandwidth: float = Field(gt=0)
    inside: Link
    outside: Link
    floor: float = Field(default=4e-6, ge=0)
    efficiency: float = Field(default=0.7, gt=0, le=1)
    sources: dict[str, str] = Field(default_factory=dict)
    times: dict[str, tuple[int, int]] = Field(default_factory=dict, repr=False)
    links: dict[str, Link] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What was not measured is not written."""
        data: dict[str, Any] = write(self)
        return {k: v for k, v in data.items() if v or k not in ("times", "links")}

    @classmethod
    def measured(cls, database: str | Path, device: str | None = None) -> Self:
        """Returns the machine that `dimsolve profile` has measured: the operators' times, and a
        peak, a bandwidth, a floor and links that fit them, for what was not measured.

        device: which one, where the database has several. MachineError for a file that has none.
        """
        profiles = import_module("dimsolve.partition.profiles")  # which knows of links
        return cls(**profiles.machine_of(database, device))

    @classmethod
    def named(cls, name: str, nodes: int = 1) -> Self:
        """Returns a known machine; MachineError for a name that is none.

        >>> Machine.named("h100").ranks_per_node
        8
        """
        if name not in NAMED:
            raise NO_MACHINE(name=name, names=", ".join(NAMED))
        return cls(name=name, nodes=nodes, **NAMED[name])  # type: ignore[arg-type]

    def peak(self, dtype: str | None) -> float:
        """Returns the operations of one rank in a second on numbers of this dtype."""
        return self.flops.get(dtype or "", min(self.flops.values()))

    def link(self, inner: int) -> Link:
        """Returns what connects the ranks of an axis; inner: its ranks times those of all axes
        inside it.
        """
        return self.inside if inner <= self.ranks_per_node else self.outside


def timed_as(name: str, lengths: Mapping[str, int], dtype: str | None) -> str:
    """Returns what a measured operator is known by: its function, the lengths of its identifiers on
    a rank, and its dtype.

    >>> timed_as("linear", {"m": 64, "k": 8}, "float32")
    'linear k=8 m=64 float32'
    """
    return " ".join([name, *(f"{n}={v}" for n, v in sorted(lengths.items())), str(dtype)])


def link_name(collective: str, count: int) -> str:
    """Returns what the measured link of a collective is known by.

    >>> link_name("all-reduce", 4)
    'all-reduce over 4'
    """
    return f"{collective} over {count}"


def bytes_text(count: int) -> str:
    """Returns bytes as people read them.

    >>> bytes_text(3 << 29), bytes_text(5000)
    ('1.5 GiB', '4.883 KiB')
    """
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} bytes"


def machine_in_file(path: str) -> Machine:
    """Returns the machine that is in a JSON file. Raises MachineError where there is none."""
    try:
        return Machine.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise NOT_A_MACHINE(path=path, reason=reason) from None


_ASSUMED = "an assumption, to be measured"


def _known(
    sheet: str,
    *,
    bfloat16: float,
    float32: float,
    float64: float,
    memory: int,
    bandwidth: float,
    inside: float,
    outside: float,
) -> dict[str, object]:
    return {
        "flops": {
            "bfloat16": bfloat16,
            "float16": bfloat16,
            "float32": float32,
            "float64": float64,
        },
        "memory": memory,
        "bandwidth": bandwidth,
        "inside": Link(bandwidth=inside, latency=6e-6),
        "outside": Link(bandwidth=outside, latency=1.2e-5),
        "sources": {
            "flops": sheet,
            "memory": sheet,
            "bandwidth": sheet,
            "inside": f"{sheet}: half of the bidirectional rate; latency: {_ASSUMED}",
            "outside": f"one network port per rank; latency: {_ASSUMED}",
            "floor": _ASSUMED,
            "efficiency": _ASSUMED,
        },
    }


GB = 10**9
NAMED: dict[str, dict[str, object]] = {
    "a100": _known(
        "NVIDIA A100 80GB SXM data sheet, dense",
        bfloat16=312e12, float32=156e12, float64=19.5e12,
        memory=80 * GB, bandwidth=2.039e12, inside=300e9, outside=25e9,
    ),
    "h100": _known(
        "NVIDIA H100 SXM data sheet, dense",
        bfloat16=989e12, float32=494e12, float64=67e12,
        memory=80 * GB, bandwidth=3.35e12, inside=450e9, outside=50e9,
    ),
    "h200": _known(
        "NVIDIA H200 SXM data sheet, dense",
        bfloat16=989e12, float32=494e12, float64=67e12,
        memory=141 * GB, bandwidth=4.8e12, inside=450e9, outside=50e9,
    ),
    "b200": _known(
        "NVIDIA HGX B200 data sheet, dense",
        bfloat16=2250e12, float32=1125e12, float64=37e12,
        memory=180 * GB, bandwidth=7.7e12, inside=900e9, outside=50e9,
    ),
    "mi300x": _known(
        "AMD Instinct MI300X data sheet, dense",
        bfloat16=1307e12, float32=653e12, float64=163.4e12,
        memory=192 * GB, bandwidth=5.3e12, inside=448e9, outside=50e9,
    ),
}  # fmt: skip
"""Machines by name. float32 is that of matrix products in TF32."""
