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

from . import request_problems
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


def paths_of(function: Any) -> tuple[str, ...]:
    """Returns the path of a function, or of all that a short name may mean, the likeliest first.

    >>> paths_of("unfold")
    ('torch.nn.functional.unfold', 'torch.Tensor.unfold')
    """
    if isinstance(function, str) and "." not in function:
        return full_paths(function)
    return (path_of(function),)


def full_path(name: str) -> str:
    """Returns the path that a short name means first. Raises DimsolveError where no operator has
    it.

    >>> full_path("ewise_add")
    'dimsolve.ewise_add'
    """
    return full_paths(name)[0]


@lru_cache(maxsize=1024)
def full_paths(name: str) -> tuple[str, ...]:
    """Returns the paths of the different operators that have a short name. Raises DimsolveError
    where none has it.
    """
    from ..library import canonical

    found = [home + name for home in HOMES if find_operator(home + name) is not None]
    if not found:
        raise request_problems.no_operator(name, _known_names())
    first: dict[str, str] = {}
    for path in found:
        first.setdefault(canonical(path) or path, path)
    return tuple(first.values())


def _known_names() -> set[str]:
    from ..library import names

    return {path.rpartition(".")[2] for path in names()}
