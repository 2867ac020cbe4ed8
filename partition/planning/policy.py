"""Policies: who decides what is cut along which axis.

"data"           every axis cuts the batch
"tensor"         every axis cuts parameters
"data+tensor"    axes whose names begin with dp cut the batch, the others parameters (the default)
"replicate"      nothing is cut
{"*.q_proj": {"tp": "n"}}      splits by name
PAS(graph, resource)           a function that calls graph.partition
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..mesh import Mesh
from ..plan_errors import plan_error
from .data import data
from .duties import Duties
from .function_policy import requests_from
from .mapping import requests_of
from .network import Network
from .requests import obey
from .state import AxisState
from .tensor import tensor

DEFAULT = "data+tensor"
DATA_AXIS = "dp"

Decide: TypeAlias = Callable[[AxisState, Duties], list[str]]


def _data_and_tensor(state: AxisState, duties: Duties) -> list[str]:
    return (data if state.axis.startswith(DATA_AXIS) else tensor)(state, duties)


def _replicate(state: AxisState, duties: Duties) -> list[str]:
    return []


NAMED: dict[str, Decide] = {
    "data": data,
    "tensor": tensor,
    "data+tensor": _data_and_tensor,
    "replicate": _replicate,
}
"""Policies by name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides operators along one axis; returns notes on what was left whole. ``name``: what the
    plan says about it.
    """

    name: str
    decide: Decide

    def __call__(self, state: AxisState, duties: Duties) -> list[str]:
        return self.decide(state, duties)

    def decides(self, axis: str) -> Decide:
        """Returns what decides along an axis."""
        if self.decide is _data_and_tensor:
            return data if axis.startswith(DATA_AXIS) else tensor
        return self.decide


def policy_of(policy: Any, network: Network, mesh: Mesh) -> Policy:
    """Returns the policy for a graph and a mesh. Raises PlanError for what is none."""
    if isinstance(policy, Policy):
        return policy
    if policy is None:
        policy = getattr(network.graph, "requested", None) or DEFAULT
    if isinstance(policy, str):
        if policy not in NAMED:
            raise _unknown(policy)
        return Policy(policy, NAMED[policy])
    if isinstance(policy, Mapping):
        requests = requests_of(policy, network, mesh)
        name = ", ".join(f"{pattern}: {dict(splits)}" for pattern, splits in policy.items())
    elif callable(policy):
        requests = requests_from(policy, network, mesh)
        name = getattr(policy, "__name__", "function")
    else:
        raise _unknown(policy)

    def decide(state: AxisState, duties: Duties) -> list[str]:
        obey(requests, state, duties)
        return []

    return Policy(name, decide)


def _unknown(policy: object) -> Exception:
    return plan_error(
        "unknown-policy",
        "there is no such policy",
        f"{policy!r:.60} is none",
        f"write {', '.join(NAMED)}, a mapping from node patterns to splits, or a function "
        "PAS(graph, resource)",
    )
