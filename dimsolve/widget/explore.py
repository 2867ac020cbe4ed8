"""The widget behind `dimsolve.explore`: the playground's JavaScript, answered by this process.

    page    {"view": "v1", "id": 7, "questions": [{"verb": "parse", "annotation": "m k -> k m"}]}
    kernel  {"view": "v1", "id": 7, "heard": True}
    kernel  {"view": "v1", "id": 7, "number": 0, "answer": {"status": 200, "answer": {...}}}

An anywidget takes one module, so the playground's files are joined into one, each in a function of
its own; nothing else is done to them. This module loads anywidget: `explore` imports it when it is
called.

`explore`: the playground in a notebook, answered by the kernel.

    ds.explore("m k+, k+ n -> m n", ["m, k", "k, n"], split={"k": 8})

It is the playground's own module in an anywidget: what the service does over HTTP, the same
functions do here, over the widget's comm. Before it stands a picture of the same question, so that
a viewer without JavaScript, or without a kernel, still shows something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anywidget
import traitlets

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.checks import wrong_type
from dimsolve.ir.display import render
from dimsolve.ir.errors import AnnotationError, Diagnostic, DimsolveError
from dimsolve.ir.expression import Relation
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.legality import check
from dimsolve.solver.infer import infer
from dimsolve.solver.proof.facts import to_facts
from dimsolve.solver.shapes import to_arguments, to_dim, to_shape

from .answers import Answering

if TYPE_CHECKING:
    from dimsolve.partition.legality import Legality
    from dimsolve.solver.solution import Solution


def explore(
    annotation: str | Annotation,
    inputs: Sequence[Any] | None = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    split: Mapping[str, Any] | None = None,
    contiguous: bool = False,
) -> Explorer:
    """Returns a widget that shows shapes, legal counts, and what every rank holds, as one types.

    annotation, inputs, arguments, facts: as for `dimsolve.infer`. split: identifiers and into how
    many parts, a mesh axis each: ``{"h": 8, "b": "n"}``. contiguous: as for `dimsolve.check`. What
    cannot be read is shown in the widget. Raises ImportError without ``anywidget``, and
    AnnotationError for a shape with a dimension that is None: a text cannot say it.
    """
    state = state_of(
        annotation,
        inputs,
        {} if arguments is None else arguments,
        facts,
        {} if split is None else split,
        contiguous,
    )
    try:
        pass
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("anywidget", "traitlets", "ipywidgets"):
            raise
        hint = "ds.explore needs the package anywidget: pip install 'dimsolve[notebook]'"
        raise ImportError(hint, name=error.name) from None
    return Explorer(state)


def state_of(
    annotation: str | Annotation,
    inputs: Sequence[Any] | None,
    arguments: Mapping[str, Any],
    facts: Iterable[str | Relation],
    split: Mapping[str, Any],
    contiguous: bool,
) -> State:
    """Returns the question as the playground keeps it.

    >>> state_of("(h t) -> h t", [["8*s"]], {"h": 8}, "s >= 2", {"t": 2}, False)["inputs"]
    ['8*s']
    """
    if not isinstance(split, Mapping):
        hint = 'give parts by identifier, such as {"h": 8}'
        raise wrong_type("split", split, "a mapping of identifiers to parts", hint)
    known = to_facts(facts)
    return {
        "annotation": annotation if isinstance(annotation, str) else annotation.text,
        "inputs": [_shape_text(shape, number) for number, shape in enumerate(inputs or ())],
        "args": ", ".join(
            f"{name}={_length_text(size)}" for name, size in to_arguments(arguments).items()
        ),
        "facts": ", ".join(map(str, known)),
        "contiguous": contiguous,
        "splits": {name: _length_text(parts) for name, parts in split.items()},
    }


def _shape_text(shape: Any, number: int) -> str:
    if shape is None or isinstance(shape, str):
        return shape or ""
    dims = to_shape(shape, f"input {number}") or ()
    if None in dims:
        reason = f"input {number} has a dimension that is None"
        hint = "give it a name of its own, or None for the whole input"
        raise AnnotationError(
            Diagnostic("unknown-dimension", "a dimension has no text", reason=reason, hint=hint)
        )
    return ", ".join(map(str, dims)) or "()"


def _length_text(length: Any) -> str:
    return length if isinstance(length, str) else str(to_dim(length))


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
        asked, known = (state["annotation"], _inputs(state)), _known(state)
        contiguous = bool(state.get("contiguous"))
        return {
            name: check(*asked, name, parts, contiguous=contiguous, **known)
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
