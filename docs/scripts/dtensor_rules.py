"""Rules of DTensor that give other numbers than one device, without an error (torch 2.13).

python dtensor_rules.py      names the rules that are wrong in this torch; ranks in one process
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
from torch.nn.functional import conv1d, mse_loss, pixel_shuffle
from torch.testing._internal.distributed.fake_pg import FakeStore


def mean_of_unequal_parts(mesh):
    """A loss over 5 rows: the means of 3 and of 2 rows are averaged as if they weighed the same."""
    x, y = torch.arange(5.0), torch.zeros(5)
    parts = [distribute_tensor(each, mesh, [Shard(0)]) for each in (x, y)]
    return mse_loss(*parts).full_tensor(), mse_loss(x, y)


def cumsum_of_the_last_dimension(mesh):
    """dim=-1 is not seen to be the dimension that is cut: every rank begins at zero."""
    x = torch.ones(2, 4)
    part = distribute_tensor(x, mesh, [Shard(1)])
    return part.cumsum(-1).full_tensor(), x.cumsum(-1)


def logcumsumexp_of_the_last_dimension(mesh):
    """The same rule, the same dim=-1."""
    x = torch.zeros(2, 4)
    part = distribute_tensor(x, mesh, [Shard(1)])
    return part.logcumsumexp(-1).full_tensor(), x.logcumsumexp(-1)


def gather_with_an_index_in_parts(mesh):
    """Row 1 of an index takes from row 1 of the input, which rank 1 takes for row 0 of its part."""
    x, index = torch.arange(8.0).view(4, 2), torch.zeros(2, 1, dtype=torch.int64)
    whole = distribute_tensor(x, mesh, [Replicate()])
    part = distribute_tensor(index, mesh, [Shard(0)])
    return whole.gather(-1, part).full_tensor(), x.gather(-1, index)


def logsumexp_of_two_dimensions(mesh):
    """keepdim=True beside a dimension that is cut: the result has the length of one part."""
    x = torch.zeros(2, 4, 3)
    part = distribute_tensor(x, mesh, [Shard(1)])
    return part.logsumexp([0, 2], True).full_tensor(), x.logsumexp([0, 2], True)


def scatter_add_in_place_of_what_is_whole(mesh):
    """What is written to is a part that was cut of x, and thrown away."""
    x, index, rows = torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.int64), torch.ones(3, 2)
    whole = distribute_tensor(x, mesh, [Replicate()])
    parts = [distribute_tensor(each, mesh, [Shard(0)]) for each in (index, rows)]
    wanted = x.clone().scatter_add_(1, index, rows)
    return whole.scatter_add_(1, *parts).full_tensor(), wanted


def convolution_with_a_weight_in_parts(mesh):
    """The rule reads the input alone: a rank's half of the channels is said to be all of them."""
    x, weight = torch.ones(1, 1, 4), torch.ones(2, 1, 1)
    whole = distribute_tensor(x, mesh, [Replicate()])
    part = distribute_tensor(weight, mesh, [Shard(0)])
    return conv1d(whole, part).full_tensor(), conv1d(x, weight)


def fill_of_a_partial_sum(mesh):
    """Every rank fills its summand with threes, and their sum is six."""
    x = torch.ones(2, 4)
    part = distribute_tensor(x, mesh, [Shard(1)])
    return part.sum(1).fill_(3.0).full_tensor(), x.sum(1).fill_(3.0)


def shifted_bits(mesh):
    """``<<`` and ``>>`` give back what they are given, also of what is whole on every rank."""
    x = torch.arange(4)
    whole = distribute_tensor(x, mesh, [Replicate()])
    return (whole << 1).full_tensor(), x << 1


def column_of_what_is_cut_written_to(mesh):
    """The columns are gathered for it, and what is written to is that copy."""
    x, rows = torch.zeros(2, 4), torch.ones(2)
    part = distribute_tensor(x.clone(), mesh, [Shard(1)])
    part[:, 0] = distribute_tensor(rows, mesh, [Replicate()])
    x[:, 0] = rows
    return part.full_tensor(), x


def pixel_shuffle_of_unequal_parts(mesh):
    """Six rows on five ranks are 2, 2, 2, 0, 0, and become 4, 4, 4, 0, 0: not 3, 3, 3, 3, 0."""
    x = torch.arange(96.0).view(1, 4, 6, 4)
    part = distribute_tensor(x, mesh, [Shard(2)])
    return pixel_shuffle(part, 2).full_tensor(), pixel_shuffle(x, 2)


RULES = [
    mean_of_unequal_parts,
    cumsum_of_the_last_dimension,
    logcumsumexp_of_the_last_dimension,
    gather_with_an_index_in_parts,
    logsumexp_of_two_dimensions,
    scatter_add_in_place_of_what_is_whole,
    convolution_with_a_weight_in_parts,
    fill_of_a_partial_sum,
    shifted_bits,
    column_of_what_is_cut_written_to,
    pixel_shuffle_of_unequal_parts,
]
FIVE = [pixel_shuffle_of_unequal_parts]
"""The rules that need five ranks to show it; for the others two are enough."""


def outcome(rule) -> str:
    """What the ranks get: "wrong", "equal", or what is raised."""
    count = 5 if rule in FIVE else 2
    try:
        with LocalTensorMode(count):
            joined, whole = rule(init_device_mesh("cpu", (count,)))
            joined, whole = (getattr(t, "reconcile", lambda t=t: t)() for t in (joined, whole))
    except Exception as error:
        return type(error).__name__
    same = joined.shape == whole.shape and torch.allclose(joined, whole)
    return "equal" if same else "wrong"


if __name__ == "__main__":
    dist.init_process_group("fake", rank=0, world_size=5, store=FakeStore())
    for rule in RULES:
        print(rule.__name__, outcome(rule))
