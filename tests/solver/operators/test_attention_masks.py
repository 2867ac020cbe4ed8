"""Law: a mask fits attention exactly where torch takes it: it is laid on the scores of query and
key, which the value's batch does not spread.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import dimsolve as ds

Shape = tuple[int, ...]


@pytest.mark.parametrize("batches", list(product((1, 3), repeat=4)), ids=str)
def test_the_batch_of_a_mask(batches: Shape) -> None:
    query, key, value, mask = batches
    shapes = [(query, 2, 5, 4), (key, 2, 6, 4), (value, 2, 6, 7), (mask, 1, 5, 6)]
    tensors = [torch.rand(shape) for shape in shapes]
    try:
        wanted = tuple(scaled_dot_product_attention(*tensors[:3], attn_mask=tensors[3]).shape)
    except RuntimeError:
        wanted = None
    graph = ds.Graph()
    inputs = [graph.input(f"x{n}", shape, "float32") for n, shape in enumerate(shapes)]
    if wanted is None:
        with pytest.raises(ds.ShapeError):
            graph.call(scaled_dot_product_attention, *inputs)
    else:
        assert graph.call(scaled_dot_product_attention, *inputs).dims == wanted
