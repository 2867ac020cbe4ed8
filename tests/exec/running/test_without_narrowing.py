"""Law: inside, a float64 model stays float64 throughout; afterwards torch is as it was, also where
ranks are threads that overlap.
"""

from __future__ import annotations

from threading import Barrier, Thread

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from dimsolve.exec.running.comparable import without_dropout, without_narrowing


def test_overlapping_threads_leave_the_default_type_as_it_was() -> None:
    before = torch.get_default_dtype()
    both_in, first_out = Barrier(2), Barrier(2)

    def first() -> None:
        with without_narrowing():
            both_in.wait()
        first_out.wait()

    def second() -> None:
        with without_narrowing():
            both_in.wait()
            first_out.wait()
            assert torch.ones(1).dtype is torch.float64

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.get_default_dtype() is before


def test_named_and_default_types_are_wide_inside() -> None:
    x = torch.ones(3, dtype=torch.float64)
    with without_narrowing():
        assert x.float().dtype is torch.float64
        assert x.softmax(0, dtype=torch.float32).dtype is torch.float64
        assert torch.zeros(2).dtype is torch.float64
    assert x.float().dtype is torch.float32


def test_a_region_that_runs_again_runs_as_it_did_before() -> None:
    """torch refuses a region whose second run saves other tensors than its first one."""

    def attend(x: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(x, x, x, dropout_p=0.3).float()

    x = torch.randn(2, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    found = []
    for kept in (True, False):
        with without_dropout(), without_narrowing():
            result = attend(x) if kept else checkpoint(attend, x, use_reentrant=False)
            result.square().sum().backward()
        found.append(x.grad)
        x.grad = None
    assert found[0] is not None and torch.equal(found[0], found[1])
