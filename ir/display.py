"""Data that can be shown, without knowing how it looks.

    class Annotation(Displayed): ...    IPython and rich ask it for ``_repr_svg_``, ``__rich__``
    render(annotation, "svg")           "<svg ..."

Pictures, typeset mathematics and terminal text are made in the face (`dimsolve.show`), which keeps
one table of what renders which class in which form. `render` looks there when something is first
shown, so no class of a result imports its own drawing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, TypeAlias

Form: TypeAlias = Literal["svg", "latex", "rich", "pretty", "text"]

RENDERERS = "dimsolve.show"
"""Its ``renderer(cls, form)`` gives the function for a class, or None."""


def render(value: object, form: Form) -> Any:
    """Returns a value in one form, None where the face has none for its class.

    form: ``svg`` and ``latex`` are texts, ``rich`` is anything that rich prints, ``pretty`` is a
    short text for an interactive session, ``text`` is the whole as plain text.

    >>> from dimsolve.ir.read_annotation import read_annotation
    >>> render(read_annotation("m n -> n m"), "svg")[:4]
    '<svg'
    """
    found = import_module(RENDERERS).renderer(type(value), form)
    return None if found is None else found(value)


class Displayed:
    """What notebooks and rich terminals ask a result for; all answers come from `render`."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        # IPython asks the first class that has one of both, and @dataclass writes a __repr__.
        if "__repr__" not in vars(cls):
            cls._repr_pretty_ = Displayed._repr_pretty_  # type: ignore[method-assign]

    def _repr_svg_(self) -> str | None:
        svg: str | None = render(self, "svg")
        return svg

    def _repr_latex_(self) -> str | None:
        latex: str | None = render(self, "latex")
        return latex

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        text = render(self, "pretty")
        printer.text(str(self) if text is None else text)

    def __rich__(self) -> Any:
        shown = render(self, "rich")
        return str(self) if shown is None else shown
