"""The reader of plans: JSON text that `Plan.to_json` wrote, and nothing else."""

from __future__ import annotations

from json import JSONDecodeError, loads
from typing import Any

from pydantic import ValidationError

from .plan import VERSION, Plan
from .plan_errors import PlanError, plan_error


def read_plan(text: str | bytes) -> Plan:
    """Returns the plan; raises PlanError for another version of the schema, or what is no plan."""
    try:
        data: Any = loads(text)
    except TypeError:
        raise _not_a_plan(f"it is a {type(text).__name__}, not text") from None
    except (JSONDecodeError, UnicodeDecodeError) as error:
        raise _not_a_plan(f"it is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise _not_a_plan(f"it is a JSON {type(data).__name__}, not an object")
    version = data.get("version")
    if version != VERSION:
        raise plan_error(
            "another-version",
            "the plan has another version",
            f"its version is {version!r:.40}; this dimsolve reads version {VERSION}",
            "make the plan anew: dimsolve.plan(graph, mesh, policy)",
        )
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _not_a_plan(f"at {where}: {first['msg']}") from None


def _not_a_plan(reason: str) -> PlanError:
    return plan_error("not-a-plan", "this is not a plan", reason, "Plan.to_json writes one")
