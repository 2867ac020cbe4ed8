"""The reader of plans: JSON text that `Plan.to_json` wrote, and nothing else.

What is read has the form of a plan: every text in it can be read, every name names something. What
it says is checked against the graph that it is for, by `Plan.for_graph`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dimsolve.ir.excerpt import shown
from dimsolve.ir.strict_json import UnreadableJson, read_json

from .plan import VERSION, Plan
from .plan_errors import PLAN_AGAIN, PlanError, not_a_plan, plan_error
from .plan_form import check_form
from .planning.uncollected import uncollected


def read_plan(text: str | bytes) -> Plan:
    """Returns the plan; raises PlanError for another version of the schema, or what is no plan."""
    if not isinstance(text, str | bytes | bytearray):
        raise not_a_plan(f"it is a {type(text).__name__}, not text")
    with uncollected():
        try:
            data: Any = read_json(text)
        except UnreadableJson as error:
            raise not_a_plan(f"it is no JSON: {error.reason}") from None
        if not isinstance(data, dict):
            raise not_a_plan(f"it is a JSON {type(data).__name__}, not an object")
        version = data.get("version")
        if type(version) is not int or version != VERSION:
            raise _another_version(version)
        try:
            plan = Plan.model_validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            raise not_a_plan(first["msg"], first["loc"]) from None
        check_form(plan)
        return plan


def read_plan_file(path: str | Path) -> Plan:
    """Returns the plan in a file; raises PlanError where it cannot be read, or holds no plan."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise plan_error(
            "unreadable-file",
            "the plan's file cannot be read",
            f"{shown(str(path), 200)}: {error.strerror or type(error).__name__}",
            "dimsolve plan TARGET --mesh tp=2 -o plan.json writes one",
        ) from None
    return read_plan(text)


def _another_version(version: object) -> PlanError:
    return plan_error(
        "another-version",
        "the plan has another version",
        f"its version is {shown(repr(version))}; this dimsolve reads version {VERSION}",
        PLAN_AGAIN,
    )
