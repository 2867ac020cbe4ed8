"""`explore`: the playground in a notebook, answered by the kernel.

    ds.explore("m k+, k+ n -> m n", ["m, k", "k, n"], split={"k": 8})

It is the playground's own module in an anywidget (`widget`): what the service does over HTTP, the
same functions do here, over the widget's comm. Before it stands a picture of the same question, so
that a viewer without JavaScript, or without a kernel, still shows something.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.checks import wrong_type
from dimsolve.ir.errors import AnnotationError, Diagnostic
from dimsolve.ir.expression import Relation
from dimsolve.solver.proof.facts import to_facts
from dimsolve.solver.shapes import to_arguments, to_dim, to_shape

if TYPE_CHECKING:
    from .widget import Explorer, State


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
        from .widget import Explorer
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
