"""TARGET: a model named on the command line, with an example of its inputs and the names of its
dynamic dimensions.

    dimsolve.examples.llama:tiny        a function of a module
    train.py:model                      a function of a file

The function takes nothing and returns ``(model, example_kwargs)``, or ``(model, example_kwargs,
dynamic)``; positional examples may be a tuple.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from dimsolve.ir.errors import AnnotationError, Diagnostic, DimsolveError, Problem

from .capture.dynamic import Dynamic
from .graph import Graph

_HINT = (
    "write module:function or file.py:function; the function returns "
    "(model, example_kwargs) or (model, example_kwargs, dynamic)"
)


_HUB = re.compile(r"[\w.-]+/[\w.-]+(?<!\.py)")
_CHECKPOINT = (
    "a target is a function: in a file model.py def made(): return "
    'AutoModelForCausalLM.from_pretrained("{name}"), {{"input_ids": torch.arange(8).view(1, 8)}}, '
    "and ask about model.py:made"
)

_BAD_TARGET = Problem(AnnotationError, "target", "this is no target", "{reason}", "{hint}")


@dataclass(frozen=True, slots=True)
class Target:
    """What a target's function returned."""

    name: str
    model: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic: Dynamic | None = None

    def trace(self) -> Graph:
        """Returns the graph of the model."""
        from .capture.trace import trace

        return trace(self.model, self.args, self.kwargs, dynamic=self.dynamic)

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of the example's dynamic dimensions, as far as tensors tell them."""
        from .capture.dynamic import given_sizes, leaves_of

        return given_sizes(leaves_of(self.model, self.args, self.kwargs, self.dynamic)) or {}


def load_target(text: str) -> Target:
    """Returns the target; AnnotationError where there is no such function, or it returns
    something else.
    """
    if text.strip() and (Path(text.strip()).is_dir() or _HUB.fullmatch(text.strip())):
        kind = "a folder" if Path(text.strip()).is_dir() else "a name of a model hub"
        hint = _CHECKPOINT.format(name=text.strip())
        raise _BAD_TARGET(text, reason=f"{text.strip()} is {kind}", hint=hint)
    factory = load_function(text)
    name = text.strip().rpartition(":")[2]
    try:
        returned = factory()
    except DimsolveError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(text, error, inspect.getsourcefile(inspect.unwrap(factory))) from error
    if not isinstance(returned, tuple) or not 2 <= len(returned) <= 3:
        raise _BAD_TARGET(text, reason=f"{name} returns {type(returned).__name__}", hint=_HINT)
    model, example, *dynamic = returned
    if not isinstance(example, Mapping | tuple | list):
        raise _BAD_TARGET(
            text, reason=f"{name} returns {type(example).__name__} for the example", hint=_HINT
        )
    args, kwargs = ((), example) if isinstance(example, Mapping) else (tuple(example), {})
    return Target(name, model, args, kwargs, dynamic[0] if dynamic else None)


def load_function(text: str, hint: str = _HINT) -> Callable[..., Any]:
    """Returns the function that ``module:function`` or ``file.py:function`` names; AnnotationError
    with the hint where there is none.
    """
    home, _, name = text.strip().rpartition(":")
    if not home or not name:
        raise _BAD_TARGET(text, reason="a module and a function are wanted", hint=hint)
    function = getattr(_module(text, home, hint), name, None)
    if not callable(function):
        raise _BAD_TARGET(text, reason=f"{home} has no function {name}", hint=hint)
    found: Callable[..., Any] = function
    return found


def _module(text: str, home: str, hint: str) -> Any:
    if not home.endswith(".py"):
        try:
            return import_module(home)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{home}.".startswith(f"{error.name}."):
                raise _failed(text, error) from error
            raise _BAD_TARGET(text, reason=str(error), hint=hint) from error
        except DimsolveError:
            raise
        except (Exception, SystemExit) as error:
            raise _failed(text, error) from error
    path = Path(home)
    if not path.is_file():
        raise _BAD_TARGET(text, reason=f"there is no file {home}", hint=hint)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # as python file.py does, for the files beside it
    try:
        spec.loader.exec_module(module)
    except DimsolveError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(text, error, str(path)) from error
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)
    return module


def _failed(text: str, error: BaseException, file: str | None = None) -> AnnotationError:
    """An error of the user's own code, with the line in their file. file: the target's own."""
    where, said = _line_of(error, file), str(error)
    if isinstance(error, SyntaxError):
        said = error.msg
    return AnnotationError(
        Diagnostic(
            code="target-failed",
            title=f"{text.strip()} raised {type(error).__name__}",
            reason="\n  ".join(filter(None, (said, where))),
        )
    )


def _line_of(error: BaseException, file: str | None) -> str:
    """The latest line of the target's own file; of code that is no part of Python's import where
    the file is not known.
    """
    if isinstance(error, SyntaxError) and error.filename is not None:
        line = (error.text or "").strip()
        return f"{Path(error.filename).name}:{error.lineno}: {line}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if file is not None and _is_same(frame.filename, file)]
    if not (own or frames):
        return ""
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.lineno}: {last.line}"


def _is_same(path: str, other: str) -> bool:
    return Path(path).resolve() == Path(other).resolve()
