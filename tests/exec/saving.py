"""What the tests' ranks do to save a model at one mesh and load it at another."""

from __future__ import annotations

import torch

import dimsolve as ds

from . import seed_models


def losses(folder: str, mesh: dict[str, int], *, save: bool) -> list[float]:
    """Returns three losses after loading, or after saving, a checkpoint in the folder."""
    import torch.distributed.checkpoint as dcp

    model, example, _, _ = seed_models.reshape_over_t()
    policy = {"reshape": dict.fromkeys(mesh, "t")}
    part = ds.parallelize(model, ds.plan(ds.trace(model, kwargs=example), mesh, policy))
    if save:
        dcp.save(part.state_dict(), checkpoint_id=folder)
    else:
        with torch.no_grad():
            for parameter in part.parameters():
                parameter.zero_()
        state = part.state_dict()
        dcp.load(state, checkpoint_id=folder)
        part.load_state_dict(state)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        loss = part(**example).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found
