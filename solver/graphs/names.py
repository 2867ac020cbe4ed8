"""Names for people: where in the user's code a call stands, and which path an operator has.

A place is the nearest frame outside of dimsolve and torch. Files are written relative to the
package that they were installed with, or to the working directory, so that a graph says the same on
every machine.

    transformers/models/llama/modeling_llama.py:269

A function's path is that by which it is imported; a short name has one too.

    torch.nn.functional.relu     "torch.nn.functional.relu"
    torch.Tensor.view            "torch.Tensor.view"
    "exp"                        "torch.exp"

torch is never imported here: whoever holds a torch function has imported it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from linecache import getline
from pathlib import Path
from typing import Any

from dimsolve.ir.graph import Source

from . import problems
from .deduction import PREFIX, find_operator

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
    if owner.startswith("pybind11_detail"):  # a function of torch._C, as older builds name it
        name = last
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
    from ..operators import canonical

    found = [home + name for home in HOMES if find_operator(home + name) is not None]
    if not found:
        raise problems.no_operator(name, _known_names())
    first: dict[str, str] = {}
    for path in found:
        first.setdefault(canonical(path) or path, path)
    return tuple(first.values())


def _known_names() -> set[str]:
    from ..operators import names

    return {path.rpartition(".")[2] for path in names()}


_OWN = ("dimsolve", "torch")


def caller() -> Source | None:
    """Returns the line that called dimsolve; None where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _OWN:
            return source(frame.f_code.co_filename, frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def source(filename: str, line: int) -> Source:
    """Returns the line of a file as a source."""
    return Source(relative(filename), line, getline(filename, line).strip())


@lru_cache(maxsize=1024)
def relative(filename: str) -> str:
    """Returns a file's name without what belongs to this machine.

    >>> relative("/somewhere/site-packages/transformers/models/llama/modeling_llama.py")
    'transformers/models/llama/modeling_llama.py'
    """
    parts = Path(filename).parts
    for marker in ("site-packages", "dist-packages"):
        if marker in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(marker) :])
    try:
        return Path(filename).resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return parts[-1] if parts else filename
