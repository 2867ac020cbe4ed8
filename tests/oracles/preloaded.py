"""What every rank of the tests needs, loaded once in the process that ranks are forked from.

Importing torch, its compiler and SymPy costs a process seconds, and so does the first graph that is
traced. No rank pays for them again. No thread may run here: a fork would lose it.
"""

from __future__ import annotations

import gc

import torch
import torch.distributed

import dimsolve as ds

torch.set_num_threads(1)
ds.plan(
    ds.trace(
        torch.nn.Linear(4, 4), kwargs={"input": torch.ones(2, 4)}, dynamic={"input": {0: "batch"}}
    ),
    {"tp": 2},
)
torch.compiler.reset()
gc.collect()
gc.freeze()  # what is here is not looked through again by every rank
gc.set_threshold(100_000, 50, 50)  # as in tests/conftest.py
