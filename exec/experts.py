"""The experts of a model as one operator, whose tokens are sent to the ranks of their experts.

    hidden (t, h), ids (t, k), weights (t, k), up (e, 2*i, h), down (e, h, i) -> (t, h)

    e over ep = 4    hidden S(0), ids S(0), weights S(0), up S(0), down S(0) -> S(0)

A rank has t/4 tokens and e/4 experts. It sends every token's row to each of its k experts, gets the
rows of its own experts, and sends back what these make of them. How many rows come depends on the
router, so lengths are told first. `grouped_mm` as transformers writes it needs rows sorted by
expert over all tokens, which no rank has: then tokens are gathered, and sums are scattered. Rows
that are sent are k (n - 1)/n for each token, gathered n - 1: fewer are sent where n is more than k.
So a plan may take another way too, and takes the one that costs less:

    e over ep = 4    hidden R, ids R, weights R, up S(0), down S(0) -> P(sum)

where a rank is given all tokens, and computes what its own experts make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dimsolve.ir.errors import OperatorError, Problem
from dimsolve.ir.operator import Declaration, operator_of, register
from dimsolve.partition.rules.rule import Message, Part, TransformRule

from .registration.leaf import bare_function
from .registration.register import register_op

NO_SUCH_EXPERTS = Problem(
    OperatorError,
    "experts",
    "these experts are not known as one operator",
    "{name} {reason}",
    "trace it without exchanged_experts: tokens are gathered",
)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}

_MODULES = {
    "SiLUActivation": "silu",
    "SiLU": "silu",
    "GELUActivation": "gelu",
    "GELU": "gelu",
    "GELUTanh": "gelu_tanh",
    "ReLU": "relu",
}
"""Activations of transformers and torch, by the name of their class."""

Compute = Callable[[Tensor, Tensor], Tensor]
"""What experts make of rows (rows, h), by the expert of each."""


def gated(rows: Tensor, activation: str, alpha: float, limit: float) -> Tensor:
    """(rows, 2*i) -> (rows, i): half of the columns are gates. ``clamped``: every second one is, as
    gpt-oss has it.
    """
    if activation == "clamped":
        gate, up = rows[..., ::2], rows[..., 1::2]
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return (up + 1) * gate * torch.sigmoid(gate * alpha)
    gate, up = rows.chunk(2, -1)
    return ACTIVATIONS[activation](gate) * up


def product(rows: Tensor, matrices: Tensor, counts: list[int], transposed: bool) -> Tensor:
    """(rows, k) by (e, n, k), or (e, k, n) where transposed: so many rows with each matrix."""
    pieces: tuple[Tensor, ...] = torch.split(rows, counts)
    parts = zip(pieces, matrices.unbind(0), strict=True)
    return torch.cat([part @ (each if transposed else each.mT) for part, each in parts])


def by_expert(
    rows: Tensor,
    ids: Tensor,
    up: Tensor,
    down: Tensor,
    biases: tuple[Tensor, Tensor] | None,
    *,
    activation: str = "silu",
    transposed: bool = False,
    alpha: float = 1.0,
    limit: float = 0.0,
) -> Tensor:
    """What each row's expert makes of it, (rows, h) -> (rows, h)."""
    ids, order = ids.sort(stable=True)
    counts = torch.bincount(ids, minlength=len(up)).tolist()
    made = product(rows.index_select(0, order), up, counts, transposed)
    if biases is not None:
        made = made + biases[0].index_select(0, ids)
    made = product(gated(made, activation, alpha, limit), down, counts, transposed)
    if biases is not None:
        made = made + biases[1].index_select(0, ids)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    return made.index_select(0, places)


def mixed(hidden: Tensor, ids: Tensor, weights: Tensor, compute: Compute) -> Tensor:
    """The sum of what a token's experts make of it, by their weights, (t, h) -> (t, h)."""
    tokens, chosen = ids.shape
    rows = hidden.unsqueeze(1).expand(-1, chosen, -1).reshape(tokens * chosen, hidden.shape[1])
    made = compute(rows, ids.reshape(-1)).view(tokens, chosen, hidden.shape[1])
    return (made * weights.unsqueeze(-1)).sum(1).to(hidden.dtype)


def sent(part: Part, experts: int, compute: Compute) -> Compute:
    """Computes where the experts are, of which this rank has so many."""

    def elsewhere(rows: Tensor, ids: Tensor) -> Tensor:
        routes = part["e"].routes(ids // experts)
        made: Tensor = routes.back(compute(routes.there(rows), routes.there(ids % experts)))
        return made

    return elsewhere


def _experts_of_ranks(part: Part, *args: Any, **kwargs: Any) -> Tensor:
    return _experts(lambda compute, own: sent(part, own, compute), *args, **kwargs)


def _experts_of_own(
    part: Part,
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    up: Tensor,
    down: Tensor,
    *biases: Tensor,
    **settings: Any,
) -> Tensor:
    """What this rank's experts add to each token, (t, h) -> (t, h): zeros for those of others."""
    own = len(up)
    ids = ids - part["e"].start(own)
    token, place = ((ids >= 0) & (ids < own)).nonzero(as_tuple=True)
    both = (biases[0], biases[1]) if biases else None
    rows = hidden.index_select(0, token)
    made = by_expert(rows, ids[token, place], up, down, both, **settings)
    made = made * weights[token, place].unsqueeze(-1)
    total = made.new_zeros(hidden.shape)
    return total.index_add(0, token, made).to(hidden.dtype)


def _experts(
    where: Callable[[Compute, int], Compute],
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    up: Tensor,
    down: Tensor,
    *biases: Tensor,
    **settings: Any,
) -> Tensor:
    both = (biases[0], biases[1]) if biases else None

    def compute(rows: Tensor, ids: Tensor) -> Tensor:
        return by_expert(rows, ids, up, down, both, **settings)

    return mixed(hidden, ids, weights, where(compute, len(up)))


def _here(compute: Compute, own: int) -> Compute:
    return compute


def _rules(inputs: int) -> list[TransformRule]:
    there = Message("t k h", backward=True, collective="all-to-all")
    back = Message("t k h", backward=True, collective="all-to-all", of=(0, 3, 4))
    ids = Message("t k", "count", collective="all-to-all")
    counts = Message("()", "count", collective="all-to-all")
    every, own = ("S(0)",) * inputs, ("R",) * 3 + ("S(0)",) * (inputs - 3)
    sends = (counts, ids, there, back)
    return [
        TransformRule(every, ("S(0)",), local=_experts_of_ranks, split="e", sends=sends),
        TransformRule(own, ("P(sum)",), local=_experts_of_own, split="e", sends=(), beside=True),
    ]


def _text(*inputs: Any, activation: str = "silu", transposed: bool = False, **_: Any) -> str:
    columns = "(i+ 2)" if activation == "clamped" else "(2 i+)"
    up = f"e h^ {columns}" if transposed else f"e {columns} h^"
    down = "e i+ h^" if transposed else "e h^ i+"
    biases = f", e {columns}, e h^" if len(inputs) > 5 else ""
    return f"t h^, t k^, t k^, {up}, {down}{biases} -> t h^"


@register_op(_text, name="experts", transform_rules=_rules(5))
def experts(
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    up: Tensor,
    down: Tensor,
    *,
    activation: str = "silu",
    transposed: bool = False,
    alpha: float = 1.0,
    limit: float = 0.0,
) -> Tensor:
    """Returns what the experts ids (t, k) make of tokens (t, h), summed by weights (t, k).

    up: (e, 2*i, h), gates first; down: (e, h, i); the last two dimensions change places where
    transposed. activation: of the gates; "clamped" with alpha and limit, where gates and columns
    take turns.
    """
    return _experts(
        _here, hidden, ids, weights, up, down,
        activation=activation, transposed=transposed, alpha=alpha, limit=limit,
    )  # fmt: skip


@register_op(_text, name="experts", transform_rules=_rules(7), value_split=["down_bias"])
def biased_experts(
    hidden: Tensor,
    ids: Tensor,
    weights: Tensor,
    up: Tensor,
    down: Tensor,
    up_bias: Tensor,
    down_bias: Tensor,
    *,
    activation: str = "silu",
    transposed: bool = False,
    alpha: float = 1.0,
    limit: float = 0.0,
) -> Tensor:
    """As `experts`, with biases (e, 2*i) and (e, h)."""
    return _experts(
        _here, hidden, ids, weights, up, down, up_bias, down_bias,
        activation=activation, transposed=transposed, alpha=alpha, limit=limit,
    )  # fmt: skip


def _with_memory_of_its_own(function: Any) -> None:
    """Says that what a function makes shares no memory with what it is given."""
    operator = operator_of(function)
    assert operator is not None
    declare = operator.declare

    def separate(*args: Any, **kwargs: Any) -> Declaration:
        return replace(declare(*args, **kwargs), separate=True)

    register(replace(operator, declare=separate), bare_function(function), function)


_with_memory_of_its_own(experts)
_with_memory_of_its_own(biased_experts)


def _forward(
    module: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """The forward of transformers' modules of experts."""
    settings = _settings(module)
    given = hidden_states, top_k_index, top_k_weights, module.gate_up_proj, module.down_proj
    if module.has_bias:
        biases = module.gate_up_proj_bias, module.down_proj_bias
        return biased_experts(*given, *biases, **settings)
    return experts(*given, **settings)


def _settings(module: Any) -> dict[str, Any]:
    """How a module computes, of those that `_check` lets through."""
    settings: dict[str, Any] = {"transposed": bool(module.is_transposed)}
    if type(module).__name__ == "GptOssExperts":
        return settings | {
            "activation": "clamped", "alpha": float(module.alpha), "limit": float(module.limit),
        }  # fmt: skip
    return settings | {"activation": _MODULES[type(module.act_fn).__name__]}


def _check(module: Any, usual_gate: Any) -> None:
    """Refuses a module that computes in a way of its own."""
    name = type(module).__name__
    if not module.has_gate:
        raise NO_SUCH_EXPERTS(name=name, reason="has no gate")
    if module.has_post_expert_norm:
        raise NO_SUCH_EXPERTS(name=name, reason="has a norm of its own after its experts")
    if name == "GptOssExperts":
        return
    if type(module)._apply_gate is not usual_gate:
        raise NO_SUCH_EXPERTS(name=name, reason="has a gate of its own")
    kind = type(module.act_fn).__name__
    if kind not in _MODULES:
        raise NO_SUCH_EXPERTS(name=name, reason=f"has the activation {kind}")


@contextmanager
def exchanged_experts(model: nn.Module) -> Iterator[None]:
    """Traces the experts of a transformers model as one operator, so that a plan that cuts them
    sends tokens to them.

        with exchanged_experts(model):
            graph = ds.trace(model, kwargs=batch)

    Outside it the model is what it was. Raises OperatorError for a model without such experts, and
    for experts with a gate, an activation or a norm that is not known.
    """
    modules: list[Any] = [each for each in model.modules() if hasattr(each, "_is_expert_parallel")]
    if not modules:
        name = type(model).__name__
        raise NO_SUCH_EXPERTS(name=name, reason="has no experts that transformers can replace")
    known = import_module("transformers.integrations.moe")
    for module in modules:
        _check(module, known._default_apply_gate)
    known.ALL_EXPERTS_FUNCTIONS.register("dimsolve", _forward)
    before = [(each.config, each.config._experts_implementation) for each in modules]
    try:
        for config, _ in before:
            config._experts_implementation = "dimsolve"
        yield
    finally:
        for config, implementation in reversed(before):
            config._experts_implementation = implementation
