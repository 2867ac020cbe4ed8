"""Law: the claims of a guard hold together exactly where the guard does, whatever it is made of.

The oracle is the guard itself at all small values of its symbols.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.fx.experimental.symbolic_shapes import sym_or

import dimsolve as ds
from dimsolve.exec.capture.torch_dims import TorchDims
from dimsolve.solver.algebra.poly import symbol

S, T = sympy.symbols("s t", integer=True)
SIDES = (S, T, S + T, 2 * S - T, S * T, sympy.Integer(1), sympy.Integer(3))
RELATIONS = (sympy.Eq, sympy.Ne, sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)

relations = st.builds(
    lambda kind, a, b: kind(a, b), st.sampled_from(RELATIONS), *[st.sampled_from(SIDES)] * 2
)
guards = st.recursive(
    relations,
    lambda inner: (
        st.builds(sympy.Or, inner, inner)
        | st.builds(sympy.And, inner, inner)
        | st.builds(sympy.Not, inner)
    ),
    max_leaves=5,
)


@given(guards)
@settings(max_examples=150)
def test_the_claims_of_a_guard_hold_exactly_where_it_does(guard: Any) -> None:
    if guard in (sympy.true, sympy.false):
        return
    dims = TorchDims()
    dims.bind(S, symbol("s"))
    dims.bind(T, symbol("t"))
    claims = dims.claims(guard)
    for s, t in product(range(1, 6), repeat=2):
        at = guard.xreplace({S: sympy.Integer(s), T: sympy.Integer(t)})
        assert all(claim.test({"s": s, "t": t}) for claim in claims) is bool(at), (s, t, claims)


def test_a_choice_of_torch_that_always_holds_is_no_condition() -> None:
    """reshape(-1) asks torch whether there are elements, or one count is the other."""

    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(1, 8, 4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x[:, None]).transpose(1, 2)
            y = y if y.shape[1] > 1 else y * 2
            return y.reshape(y.shape[0], -1, y.shape[1], 4).flatten(1)

    x = torch.randn(4, 40)
    model = Halves()
    graph = ds.trace(model, x, dynamic={0: {0: "b", 1: "s"}})
    assert graph.conditions == ("s >= 6",)
    assert torch.equal(graph.run(x, state=model), model(x))


def test_a_choice_of_the_model_is_a_condition() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        torch._check(sym_or(x.shape[0] >= 3, x.shape[1] == 2))
        return x * 2

    x = torch.randn(5, 7)
    graph = ds.trace(model, x, dynamic={0: {0: "n", 1: "m"}})
    assert torch.equal(graph.run(x), x * 2)
    assert torch.equal(graph.run(torch.ones(1, 2)), 2 * torch.ones(1, 2))
    with pytest.raises(ds.ShapeError):
        graph.run(torch.ones(2, 3))
