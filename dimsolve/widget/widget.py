"""The widget behind `dimsolve.explore`: the playground's JavaScript, answered by this process.

    page    {"view": "v1", "id": 7, "questions": [{"verb": "parse", "annotation": "m k -> k m"}]}
    kernel  {"view": "v1", "id": 7, "heard": True}
    kernel  {"view": "v1", "id": 7, "number": 0, "answer": {"status": 200, "answer": {...}}}

An anywidget takes one module, so the playground's files are joined into one, each in a function of
its own; nothing else is done to them. This module loads anywidget: `explore` imports it when it is
called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anywidget
import traitlets

from dimsolve.ir.display import render
from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.legality import check
from dimsolve.solver.calls import infer

from .answers import Answering

if TYPE_CHECKING:
    from dimsolve.partition.legality import Legality
    from dimsolve.solver.solution import Solution

State: TypeAlias = dict[str, Any]
"""What is asked, as the playground keeps it: texts as they are typed."""
STATIC = Path(__file__).parents[1] / "service" / "static"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


@lru_cache(maxsize=1)
def module_text() -> str:
    """Returns the widget's module: ``widget.js`` and all that it imports, joined."""
    parts: dict[str, str] = {}
    entry = _IMPORT.sub(_taken, _read("widget", parts))
    return "\n".join(["const modules = {};", *parts.values(), entry])


def _read(name: str, parts: dict[str, str]) -> str:
    """Returns a file's text, after adding those that it imports to ``parts``."""
    text = (STATIC / f"{name}.js").read_text(encoding="utf-8")
    for _, imported in _IMPORT.findall(text):
        if imported not in parts:
            body = _read(imported, parts)
            names = ", ".join(_EXPORT.findall(body))
            inside = _EXPORT.sub("", _IMPORT.sub(_taken, body))
            parts[imported] = (
                f"modules.{imported} = (() => {{\n{inside}return {{ {names} }};\n}})();"
            )
    return text


def _taken(found: re.Match[str]) -> str:
    return f"const {{{found[1]}}} = modules.{found[2]};\n"


class Explorer(anywidget.AnyWidget):
    """The playground in a notebook. Made by `dimsolve.explore`.

    ``state`` is what is asked now, also after it was changed in the page; assigning it changes the
    page. ``solution`` and ``legalities`` are the answers as `dimsolve.infer` and `dimsolve.check`
    give them.
    """

    _esm = module_text()
    _css = (STATIC / "app.css").read_text(encoding="utf-8")
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, state: State) -> None:
        super().__init__(state=state)
        self.answering = Answering()
        self.on_msg(_heard)

    @property
    def solution(self) -> Solution:
        """The shapes of what is asked now. Raises what `dimsolve.infer` raises."""
        return infer(self.state["annotation"], _inputs(self.state), **_known(self.state))

    @property
    def legalities(self) -> dict[str, Legality]:
        """The legality of every split that is asked about now, by identifier.

        As in the page, a split of a name that the annotation does not have is left aside.
        """
        state, names = self.state, self.solution.layout.marks
        annotation, inputs, known = state["annotation"], _inputs(state), _known(state)
        manner: dict[str, Any] = {
            "contiguous": bool(state.get("contiguous")),
            "uneven": bool(state.get("uneven")),
            "value_split": state.get("summands", ()),
            "partial": state.get("partial", "sum"),
        }
        return {
            name: check(annotation, inputs, name, parts, **manner, **known)
            for name, parts in state.get("splits", {}).items()
            if name in names
        }

    def _ipython_display_(self) -> None:
        """Shows the picture, then the widget."""
        from IPython.display import publish_display_data

        text = str(self.state.get("annotation", ""))
        for svg in pictures_of(self):
            publish_display_data({"image/svg+xml": svg, "text/plain": text})
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        publish_display_data(data, metadata)


def pictures_of(explorer: Explorer) -> list[str]:
    """Returns the question as SVG: a picture per split, or of the annotation without any."""
    try:
        legalities = explorer.legalities
        if legalities:
            return [render(legality, "svg") for legality in legalities.values()]
        return [render(read_annotation(explorer.state["annotation"]), "svg")]
    except DimsolveError:
        return []


def _heard(widget: Explorer, message: Mapping[str, Any], buffers: object) -> None:
    """Takes the questions of a message from the page: it is told that they are here, and answers
    as they come.
    """
    known = {"view": message["view"], "id": message["id"]}
    widget.send({**known, "heard": True})

    def tell(number: int, answer: dict[str, Any]) -> None:
        widget.send({**known, "number": number, "answer": answer})

    widget.answering.ask(message["view"], message["questions"], tell)


def _inputs(state: State) -> list[str | None] | None:
    """The shapes as `infer` takes them: none at all, or one entry per annotated input."""
    count = len(read_annotation(state["annotation"]).inputs)
    texts = [text.strip() for text in state.get("inputs", ())][:count]
    texts += [""] * (count - len(texts))
    return [None if text in ("", "?") else text for text in texts] if any(texts) else None


def _known(state: State) -> dict[str, Any]:
    pairs = (entry.partition("=") for entry in entries(state.get("args", "")))
    return {
        "arguments": {name.strip(): size.strip() for name, _, size in pairs},
        "facts": entries(state.get("facts", "")),
    }


def entries(text: str) -> list[str]:
    """Returns the entries of a list that was typed: commas outside brackets, and line ends, stand
    between two. The page reads them in the same way.

    >>> entries("n >= min(a, b), k % 2 == 0")
    ['n >= min(a, b)', 'k % 2 == 0']
    """
    found, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "\n" or (depth <= 0 and char in ",;"):
            found.append("")
            depth = 0
        else:
            found[-1] += char
    return [entry.strip() for entry in found if entry.strip()]
