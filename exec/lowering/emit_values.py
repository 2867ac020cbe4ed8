"""Values in emitted source: what an argument of a step is as Python text.

slice(None, 8, None) in an index     :8
torch.float32                        torch.float32
the node x_1                         x_1
a device                             device, which the module's function is given
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any

import torch
from torch.fx import Node as Step

from .lowering_errors import not_emitted


def value_text(value: Any) -> str:
    """Returns a value as Python text; LoweringError for an object that no text makes.

    >>> value_text((1, [True, None], {"p": 0.5})), value_text(float("inf"))
    ("(1, [True, None], {'p': 0.5})", 'float("inf")')
    """
    match value:
        case Step():
            return value.name
        case float() if value != value or value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        case None | bool() | int() | float() | complex() | str():
            return repr(value)
        case EllipsisType():
            return "..."
        case torch.dtype() | torch.memory_format() | torch.layout():
            return str(value)
        case torch.device():
            return "device"
        case slice():
            bounds = (value.start, value.stop, value.step)
            return f"slice({', '.join(value_text(bound) for bound in bounds)})"
        case tuple():
            inner = ", ".join(value_text(item) for item in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        case list():
            return f"[{', '.join(value_text(item) for item in value)}]"
        case dict():
            pairs = (f"{key!r}: {value_text(item)}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:
            raise not_emitted("", f"an argument of type {type(value).__name__}")


def operand_text(value: Any) -> str:
    """Returns a value as an operand: a negative number in brackets."""
    text = value_text(value)
    return f"({text})" if isinstance(value, int | float) and value < 0 else text


def index_text(index: Any) -> str:
    """Returns what stands between the brackets of an index.

    >>> index_text((slice(None, 3), ..., None)), index_text((0,))
    (':3, ..., None', '0,')
    """
    if isinstance(index, tuple):
        items = ", ".join(_item_text(item) for item in index)
        return items + "," if len(index) == 1 else items or "()"
    return _item_text(index)


def _item_text(item: Any) -> str:
    if not isinstance(item, slice):
        return value_text(item)
    start, stop, step = (
        "" if bound is None else value_text(bound) for bound in (item.start, item.stop, item.step)
    )
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
