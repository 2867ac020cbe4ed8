"""Equal to one device where numbers, lengths and dtypes are unusual: tolerances of each matrix,
zeros, NaN and infinity among the values, half precision, one value left on a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dimsolve as ds
from dimsolve.exec.distributed.communicator import TorchCommunicator
from dimsolve.exec.distributed.simulated import RankError
from dimsolve.partition.placement import Reduction
from tests.oracles import one_device as simulated
from tests.oracles.ranks import world

NAN, INF = float("nan"), float("inf")


class Called(nn.Module):
    """A function of one or two tensors as a model."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        object.__setattr__(self, "function", function)

    def forward(self, x: Tensor, t: Tensor | None = None) -> Tensor:
        found: Tensor = self.function(x) if t is None else self.function(x, t)
        return found


def once(model: Any, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The output, and the gradients of its weighted sum."""
    given = {n: x.detach().clone().requires_grad_(x.requires_grad) for n, x in inputs.items()}
    output = model(**given)
    found = {"output": output.detach()}
    if output.requires_grad:
        weights = torch.linspace(0.5, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
        (output * weights).sum().backward()
        found |= {n: x.grad for n, x in given.items() if x.grad is not None}
    found |= {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return found | {n: b.clone() for n, b in model.named_buffers()}


def equal(
    model: nn.Module,
    inputs: Mapping[str, Tensor],
    policy: Any = "data",
    *,
    count: int = 2,
    dynamic: Any = None,
    tolerance: float = 1e-9,
) -> ds.Plan:
    """Compares every rank with one device: dtypes, values, NaN and infinity; returns the plan."""
    from copy import deepcopy

    mesh = {"dp": count}
    dynamic = {name: {0: "n"} for name in inputs} if dynamic is None else dynamic
    wanted = once(deepcopy(model), inputs)
    plan = simulated.plan_of(model, inputs, dynamic, mesh, policy)
    for found in simulated.parts(model, plan, mesh, lambda part: once(part, inputs)):
        for name in found.keys() & {"output", *inputs} | wanted.keys():
            # No gradient, as of a norm of order 0, is a gradient of 0.
            like = inputs.get(name)
            torch.testing.assert_close(
                found[name] if like is None else found.get(name, torch.zeros_like(like)),
                wanted[name] if like is None else wanted.get(name, torch.zeros_like(like)),
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
            )
    return plan


def cut(plan: ds.Plan) -> bool:
    """Whether an operator of the plan is split."""
    return "split 0" not in str(plan)


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    seed = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=seed, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, t: torch.linalg.pinv(x, rtol=t),
        lambda x, t: torch.linalg.pinv(x, t),
        lambda x, t: torch.linalg.pinv(x, atol=t, rtol=t),
        lambda x, t: torch.linalg.pinv(x @ x.mT, rtol=t, hermitian=True),
        lambda x, t: torch.linalg.matrix_rank(x, atol=t),
        lambda x, t: torch.linalg.matrix_rank(x, t),
        lambda x, t: torch.linalg.matrix_rank(x, rtol=t),
    ],
)
def test_a_tolerance_of_each_matrix_is_cut_with_the_batch(function: Any, count: int) -> None:
    inputs = {"x": normal(4, 4, 3).requires_grad_(), "t": normal(4).abs().clamp(0.1, 0.9)}
    assert cut(equal(Called(function), inputs, count=count))


VALUES = {
    "plain": normal(4, 4),
    "zeros": torch.tensor([[1, 2, 0, 4], [0, 3, 0, 0], [0, 1, 0, 1], [5, 0, 0, 2]]).double(),
    "ties": torch.tensor([[3, -2, 1, 0], [3, 2, 1, 4], [3, 1, 1, 5], [0, 2, 1, 5]]).double(),
    "nan": torch.tensor([[1, NAN, 0, 1], [2, 3, 0, 2], [0, 1, NAN, 3], [5, 4, NAN, 4]]).double(),
    "infinite": torch.tensor(
        [[1, 2, INF, 0], [INF, 0, INF, -2], [0, 1, 2, -INF], [5, -INF, 4, 5]]
    ).double(),
    "both": torch.tensor(
        [[1, NAN, 0, 2], [INF, 0, NAN, 1], [0, INF, -INF, INF], [5, 1, 4, 0]]
    ).double(),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("order", [0, 0.5, -0.5, -1, 1, 1.5, 2, 2.5, 3, INF, -INF])
def test_norms_of_any_order_and_their_gradients(order: float, values: str) -> None:
    x = VALUES[values].clone().requires_grad_()
    for function in (
        lambda x: torch.linalg.vector_norm(x, order, dim=0),
        lambda x: torch.norm(x, order),
        lambda x: torch.linalg.norm(x[:, 0], order),
        lambda x: torch.dist(x, x.detach().roll(1, 1) * 0 + 1, order),
    ):
        equal(Called(function), {"x": x})


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.max(),
        lambda x: x.min(),
        lambda x: x.amax(0),
        lambda x: x.amin(0, keepdim=True),
        lambda x: torch.amax(x),
        lambda x: x.max(0).values,
        lambda x: x.logsumexp(0),
        lambda x: x.var(0),
        lambda x: x.var(),
        lambda x: x.var(0, correction=4),
        lambda x: x.var(correction=12),
        lambda x: x.std(0),
        lambda x: x.std(unbiased=False),
        lambda x: torch.nn.functional.normalize(x, 0.5, 0),
        lambda x: torch.nn.functional.normalize(x, INF, 0),
        lambda x: torch.renorm(x, 0.5, 0, 1.0),
        lambda x: torch.cdist(x, x.detach(), 0.5),
        lambda x: torch.cdist(x, x.detach(), INF),
        lambda x: torch.nn.functional.pairwise_distance(x, x.detach().roll(1, 0), 0.5, 0.0),
        lambda x: x.softmax(0),
        lambda x: x.log_softmax(0),
        lambda x: x.mean(0),
        lambda x: x.nansum(0),
        lambda x: x.prod(0),
        lambda x: x.nanmean(0),
        lambda x: x.cummax(0).values,
    ],
)
def test_extremes_and_spreads_and_their_gradients(function: Any, values: str) -> None:
    x = VALUES[values].clone().requires_grad_()
    equal(Called(function), {"x": x})


@pytest.mark.parametrize("values", VALUES)
def test_aminmax_has_a_gradient_where_torch_gives_it_one(values: str) -> None:
    """torch 2.10 has none, and a part says so in torch's words."""
    model, x = Called(lambda x: x.aminmax(dim=0).max), VALUES[values].clone()
    equal(model, {"x": x})
    try:
        once(model, {"x": x.clone().requires_grad_()})
    except RuntimeError as error:
        assert "aminmax is not implemented" in str(error)
        plan = simulated.plan_of(model, {"x": x}, {"x": {0: "n"}}, {"dp": 2}, "data")
        given = {"x": x.clone().requires_grad_()}
        with pytest.raises(RankError, match="aminmax is not implemented"):
            simulated.parts(model, plan, {"dp": 2}, lambda part: once(part, given))
    else:
        equal(model, {"x": x.requires_grad_()})


@pytest.mark.parametrize("dim", [-1, 0, (0, 1)])
def test_rows_that_a_mask_picks_are_summed_up_as_exponentials(dim: Any) -> None:
    inputs = {"x": normal(4, 4).requires_grad_(), "t": torch.tensor([True, False, True, True])}
    equal(Called(lambda x, t: x[t].logsumexp(dim)), inputs)


def test_an_extreme_of_a_norm_is_cut_and_elements_of_several_ranks_share_its_gradient() -> None:
    x = VALUES["ties"].clone().requires_grad_()
    for function in (
        lambda x: torch.linalg.vector_norm(x, INF, dim=0),
        lambda x: torch.norm(x, INF),
        lambda x: torch.linalg.norm(x, INF, dim=0),
        lambda x: torch.dist(x, torch.zeros_like(x), INF),
    ):
        assert cut(equal(Called(function), {"x": x}))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.std(),
        lambda x: x.std(0),
        lambda x: x.var(0),
        lambda x: x.norm(),
        lambda x: torch.linalg.vector_norm(x, dim=0),
        lambda x: torch.linalg.vector_norm(x, 3, dim=0),
        lambda x: torch.linalg.vector_norm(x, 0.5, dim=0),
        lambda x: torch.linalg.vector_norm(x, 1, dim=0),
        lambda x: torch.linalg.vector_norm(x, dim=0, dtype=torch.float32),
        lambda x: (x.abs() * 0.01 + 40000).mean(0),
        lambda x: torch.nn.functional.layer_norm(x, (64,)),
        lambda x: torch.nn.functional.rms_norm(x, (64,)),
        lambda x: torch.nn.functional.instance_norm(x.unflatten(1, (4, 16))),
        lambda x: torch.nn.functional.group_norm(x, 4),
        lambda x: torch.nn.functional.normalize(x, dim=0),
        lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    ],
)
def test_few_bits_are_added_up_in_more(function: Any, dtype: torch.dtype) -> None:
    x = (normal(64, 64) * 200).to(dtype).requires_grad_()
    tolerance = 2e-3 if dtype is torch.float16 else 2e-2
    equal(Called(function), {"x": x}, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("parameters", "scale", "mean"),
    [(torch.float32, 1, 1), (torch.float32, 200, 0), (None, 1, 0), (None, 200, 0)],
)
def test_batch_norm_of_few_bits(
    dtype: torch.dtype, parameters: torch.dtype | None, scale: float, mean: float
) -> None:
    model = nn.BatchNorm2d(4).to(parameters or dtype)
    x = (normal(16, 4, 32, 32) * scale + mean).to(dtype).requires_grad_()
    tolerance = 4e-3 if dtype is torch.float16 else 3e-2
    assert cut(equal(model, {"input": x}, tolerance=tolerance))


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.GroupNorm(2, 2), (4, 2)),
        (nn.GroupNorm(1, 1, affine=False), (4, 1, 1)),
        (nn.GroupNorm(2, 4), (4, 4)),
        (nn.BatchNorm1d(3), (4, 3)),
        (nn.BatchNorm2d(3), (4, 3, 1, 1)),
        (nn.BatchNorm1d(3, affine=False, track_running_stats=False), (4, 3)),
    ],
)
def test_one_value_left_on_a_rank(model: nn.Module, shape: tuple[int, ...], count: int) -> None:
    x = normal(*shape).requires_grad_()
    assert cut(equal(model.double(), {"input": x}, count=count))


def test_one_value_of_all_is_refused_in_words() -> None:
    model = nn.GroupNorm(2, 2)
    example = {"input": torch.randn(2, 2)}
    plan = simulated.plan_of(model, example, {"input": {0: "n"}}, {"dp": 1}, "data")
    with pytest.raises(RankError) as caught:
        simulated.parts(model, plan, {"dp": 1}, lambda part: part(input=torch.randn(1, 2)))
    assert str(caught.value).splitlines()[1:] == [
        "  PlanError: the plan does not hold at these sizes",
        "  it needs n >= 2 (the graph), and n = 1",
        "  hint: the plan serves all sizes with n >= 2",
    ]


def extremes_on_ranks(dtype: torch.dtype) -> list[Tensor]:
    """The maximum and the minimum of what two processes have, through their own process group."""
    import torch.distributed as dist

    end = TorchCommunicator(dist.group.WORLD)
    rows = torch.tensor([[NAN, 1, -INF, -1, 0, 5], [1, NAN, 2, -3, INF, 7]], dtype=dtype)
    mine = rows[dist.get_rank()]
    return [end.all_reduce(mine, each) for each in (Reduction.MAX, Reduction.MIN)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_an_extreme_of_real_ranks_keeps_the_nan_of_every_rank(dtype: torch.dtype) -> None:
    """gloo's maximum of floating numbers loses it."""
    largest = torch.tensor([NAN, NAN, 2, -1, INF, 7], dtype=dtype)
    smallest = torch.tensor([NAN, NAN, -INF, -3, 0, 5], dtype=dtype)
    for found in world(2).run(extremes_on_ranks, dtype):
        torch.testing.assert_close(found, [largest, smallest], equal_nan=True, rtol=0, atol=0)


def second_derivatives(model: Any, x: Tensor) -> list[Tensor]:
    z = x.detach().clone().requires_grad_()
    (first,) = torch.autograd.grad(model(x=z).pow(2).sum(), z, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(3).sum(), z, create_graph=True)
    (third,) = torch.autograd.grad(second.square().sum(), z)
    return [first.detach(), second.detach(), third]


@pytest.mark.parametrize(
    "function",
    [
        *(
            lambda x, order=order: torch.linalg.vector_norm(x.sin(), order, dim=0)
            for order in (0.5, -1, 1.5, 2, 3, INF)
        ),
        lambda x: x.sin().var(0),
        lambda x: x.sin().std(),
        lambda x: x.sin().amax(0),
        lambda x: x.sin().max(),
    ],
)
def test_derivatives_of_higher_order(function: Any) -> None:
    model, x = Called(function), normal(4, 4)
    plan = simulated.plan_of(model, {"x": x}, {"x": {0: "n"}}, {"dp": 2}, "data")
    assert cut(plan)
    wanted = second_derivatives(model, x)
    for found in simulated.parts(model, plan, {"dp": 2}, lambda part: second_derivatives(part, x)):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
