"""Recurrent layers as one function: sequences of a batch are independent, all else is used in every
step.

    gru(x, h, weights, ...)     t^ n i^, l^ n h^, g^ i^, g^ h^, g^, g^ -> t^ n o^, l^ n h^
    lstm_cell(x, (h, c), ...)   n i^, n h^, n h^, g^ i^, g^ h^, g^, g^ -> n h^, n h^
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.operator import Declaration

from ..declare.dtypes import dtype_of
from ..declare.entry import Form, entry, example, t
from ..declare.forms import declared
from ..declare.writing import Names, NotKnown, dims_of, is_tensor, length_word


def layer(states: int) -> Form:
    """Declares lstm (two states), gru and rnn (one)."""

    def declare(
        input: Any,
        hx: Any,
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Declaration:
        first = list(hx) if isinstance(hx, list | tuple) else [hx]
        if is_tensor(params) or len(dims_of(input)) != 3 or len(first) != states:
            raise NotKnown("only a batch of padded sequences is supported")
        names, arguments = Names({"t", "n", "i"}), dict[str, Any]()
        row = ["n", "t^", "i^"] if batch_first else ["t^", "n", "i^"]
        carried = [[names.one("^"), "n", names.one("^")] for _ in first]
        weights = [names.take(len(dims_of(weight)), "^") for weight in params]
        width = dims_of(first[0])[-1]
        if width is None:
            raise NotKnown("the width of the state is not known")
        word = length_word(names, arguments, width * (2 if bidirectional else 1))
        output = [*row[:2], word]
        dtype = dtype_of(input)
        return declared(
            (input, *first, *params),
            [row, *carried, *weights],
            [output, *carried],
            arguments=arguments,
            dtypes=(dtype,) * (1 + len(first)),
            random=bool(dropout and train),
            returns="tuple",
        )

    return declare


def cell(states: int) -> Form:
    """Declares lstm_cell (two states), gru_cell and rnn cells (one): one step of a batch."""

    def declare(
        input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
    ) -> Declaration:
        first = list(hx) if isinstance(hx, list | tuple) else [hx]
        if len(dims_of(input)) != 2 or len(first) != states:
            raise NotKnown("only a batch is supported")
        biases = [bias for bias in (b_ih, b_hh) if bias is not None]
        rows = [
            ["n", "i^"],
            *[["n", "h^"]] * states,
            ["g^", "i^"],
            ["g^", "h^"],
            *[["g^"]] * len(biases),
        ]
        return declared(
            (input, *first, w_ih, w_hh, *biases),
            rows,
            [["n", "h^"]] * states,
            dtypes=(dtype_of(input),) * states,
            returns="tuple" if states > 1 else "tensor",
        )

    return declare


def _layer_call(gates: int, states: int) -> Any:
    weights = [t(gates * 3, 4), t(gates * 3, 3), t(gates * 3), t(gates * 3)]
    hidden = [t(1, 12, 3) for _ in range(states)]
    state: Any = hidden if states > 1 else hidden[0]
    return example(t(5, 12, 4), state, weights, True, 1, 0.0, False, False, False)


def _cell_call(gates: int, states: int) -> Any:
    hidden = [t(12, 3) for _ in range(states)]
    state: Any = hidden if states > 1 else hidden[0]
    return example(t(12, 4), state, t(gates * 3, 4), t(gates * 3, 3), t(gates * 3), t(gates * 3))


_FORMS = {"lstm": (4, 2), "gru": (3, 1), "rnn_tanh": (1, 1), "rnn_relu": (1, 1)}
"""Gates and states of each layer."""

ENTRIES = (
    *(entry(f"torch.{name}", layer(s), _layer_call(g, s)) for name, (g, s) in _FORMS.items()),
    *(entry(f"torch.{name}_cell", cell(s), _cell_call(g, s)) for name, (g, s) in _FORMS.items()),
)
