"""Random numbers on ranks: alike where a value is replicated, each rank its own where it is cut.

    dropout of R along tp       all ranks of tp drop the same elements
    dropout of S(0) along dp    every rank of dp drops elements of its own

Every run of a program begins with one number, drawn from torch's generator on the first rank and
told to the others, so a run is repeated by ``torch.manual_seed``. An operator that draws is called
with the device's generator seeded from that number, from the operator's place in the graph and from
the rank's place on the axes along which ranks differ; then the generator is what it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import torch

from ..distributed.communicator import Communicator


class Draws:
    """The random numbers of one program on one rank."""

    def __init__(self, communicators: Mapping[str, Communicator], device: torch.device) -> None:
        self.communicators = communicators
        self.device = device
        self._number = 0

    def begin(self) -> None:
        """Begins a run: all ranks get the number that the first rank draws."""
        number = torch.randint(2**62, (1,))
        for communicator in self.communicators.values():
            if communicator.size > 1:
                number = communicator.broadcast(number.to(self.device), 0)
        self._number = int(number)

    def seed(self, stream: int, differs: Sequence[str]) -> int:
        """Returns the seed of one operator on this rank in this run."""
        places = [self.communicators[axis].rank for axis in differs]
        text = ",".join(map(str, (self._number, stream, *places)))
        return int.from_bytes(blake2b(text.encode(), digest_size=7).digest(), "big")

    def drawing(
        self, function: Callable[..., Any], stream: int, differs: Sequence[str]
    ) -> Callable[..., Any]:
        """Returns the function, drawing from the operator's own seed."""

        def draw(*args: Any, **kwargs: Any) -> Any:
            generator = self._generator()
            before = generator.get_state()
            generator.manual_seed(self.seed(stream, differs))
            try:
                return function(*args, **kwargs)
            finally:
                generator.set_state(before)

        whole: Callable[..., Any] = torch.compiler.disable(draw)
        return whole

    def _generator(self) -> torch.Generator:
        if self.device.type == "cuda":
            torch.cuda.init()
            index = self.device.index
            return torch.cuda.default_generators[
                torch.cuda.current_device() if index is None else index
            ]
        return torch.default_generator
