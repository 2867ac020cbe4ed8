"""From a Python function to the import path that names its operator, and from a short name to a
path.

    torch.nn.functional.relu     "torch.nn.functional.relu"
    torch.Tensor.view            "torch.Tensor.view"
    "exp"                        "torch.exp"

torch is never imported here: whoever holds a torch function has imported it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from .builtin_operators import PREFIX
from .deduction import find_operator

HOMES = (
    PREFIX,
    "torch.",
    "torch.nn.functional.",
    "torch.Tensor.",
    "torch.special.",
    "torch.linalg.",
    "_operator.",
)
"""Where a short name is looked up, in this order."""

_CLASSES = {
    "_VariableFunctionsClass": "torch.",
    "TensorBase": "torch.Tensor.",
    "Tensor": "torch.Tensor.",
}


def path_of(function: Any) -> str:
    """Returns the path of a function: where it is imported from.

    >>> import operator
    >>> path_of(operator.add), path_of("torch.exp")
    ('_operator.add', 'torch.exp')
    """
    if isinstance(function, str):
        return function if "." in function else full_path(function)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", "")
    if "<locals>" in str(name):
        name = getattr(function, "__name__", name)
    owner, _, last = str(name).rpartition(".")
    home = _CLASSES.get(owner)
    if home is not None:
        return home + last
    module = getattr(function, "__module__", None) or "torch"
    if module == "torch._tensor":
        module = "torch.Tensor"
    return f"{module}.{name}"


@lru_cache(maxsize=1024)
def full_path(name: str) -> str:
    """Returns the path of a short name; where no operator has it, that of a torch function.

    >>> full_path("ewise_add")
    'dimsolve.ewise_add'
    """
    for home in HOMES:
        if find_operator(home + name) is not None:
            return home + name
    return f"torch.{name}"
