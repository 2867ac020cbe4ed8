"""`/v1/annotate`: what torch's own callables promise for one call, as an annotation to ask about.

    {"operator": "torch.nn.functional.conv2d", "inputs": ["n, 64, 56, 56", "128, 64, 3, 3"],
     "arguments": {"stride": 2, "padding": 1}}
    {"annotation": "a (b 1)+ ..., ... -> ...", "inputs": [...], ...}

The annotation depends on the arguments: a stride changes what is summed. Inputs are the tensors of
the call in order, arguments all else by name. What comes back may be asked of the other routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field

from dimsolve.api.results import Expression, Model, ShapeText, Texts
from dimsolve.ir.characters import shown
from dimsolve.ir.checks import nearest
from dimsolve.ir.operator import Operator
from dimsolve.solver.graphs.deduction import StandIn
from dimsolve.solver.operators import find, names, specimens
from dimsolve.solver.operators.declare.entry import Example, Sample
from dimsolve.solver.shapes import to_dim, to_shape

from .questions import AnnotateQuestion, Shape
from .replies import Refusal


class AnnotatedModel(Model):
    """The annotation that holds for one call, and what the other routes take with it."""

    operator: str
    tensors: Texts = Field(description="the call's tensors by the names of the parameters")
    annotation: str
    inputs: tuple[ShapeText | None, ...] | None
    arguments: dict[str, Expression] = Field(description="lengths that the inputs do not give")
    value_split: tuple[int, ...]
    partial: str
    conditions: Texts = Field(description="what the call needs beyond its annotation")
    note: str = Field(description="why nothing can be split, where nothing can")


def annotated(question: AnnotateQuestion) -> AnnotatedModel:
    """Returns the annotation. Raises Refusal for names that there are not, DimsolveError for shapes
    that cannot be read, or that the function does not take.
    """
    path = question.operator.strip()
    operator = find(path)
    if operator is None:
        raise Refusal("no-such-operator", called=shown(path, 80), hint=_near(path))
    _check_names(operator, question.arguments)
    given = question.inputs
    call = _alike(specimens(path), given, operator)
    tensors = tuple(_tensor_names(operator, call))
    shapes = [each.shape for each in _samples(call)] if given is None else list(given)
    places = iter(shapes)
    stand_ins: list[StandIn] = []

    def stand_in(value: Any) -> Any:
        if isinstance(value, Sample):
            shape = next(places, None)
            if shape is None:
                return None
            dtype = value.dtype if given is None else None
            stand_ins.append(StandIn(to_shape(shape), dtype, len(stand_ins)))
            return stand_ins[-1]
        return type(value)(map(stand_in, value)) if isinstance(value, list | tuple) else value

    if given is None and not question.arguments:
        args = [stand_in(value) for value in call.args]
        named = {name: stand_in(value) for name, value in call.kwargs.items()}
    else:
        args, named = _bound(operator, call, stand_in, question.arguments)
    declared = operator.declare(*args, **named)
    lengths = {name: str(to_dim(value)) for name, value in declared.arguments.items()}
    return AnnotatedModel(
        operator=path,
        tensors=tensors,
        annotation=declared.annotation,
        inputs=None if given is None else tuple(map(_shape_text, declared.inputs)),
        arguments=lengths | {name: name for name in declared.fresh},
        value_split=declared.value_split,
        partial=declared.reduction,
        conditions=tuple(map(str, declared.needs)),
        note=declared.frozen,
    )


def _near(path: str) -> str:
    """The known path that is meant: by its last name, or as a whole."""
    last = path.rpartition(".")[2]
    same = [each for each in names() if each.rpartition(".")[2] == last]
    close = min(same, key=len) if same else nearest(path, names())
    return f"did you mean '{close}'?" if close else "/operators lists those that there are"


def _check_names(operator: Operator, arguments: dict[str, Any]) -> None:
    known = [name.lstrip("*") for name in operator.parameters]
    if any(name.startswith("**") for name in operator.parameters):
        return
    for name in arguments:
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean '{close}'?" if close else ""
            raise Refusal(
                "no-such-argument", called=shown(name, 80), known=", ".join(known), hint=hint
            )


def _alike(calls: Sequence[Example], given: Sequence[Shape] | None, operator: Operator) -> Example:
    """The example call that has as many tensors as are given."""
    if not calls:
        if given is None:
            raise Refusal("no-example-call", path=operator.path)
        return Example(tuple(Sample(()) for _ in given))
    counts = [len(list(_samples(call))) for call in calls]
    if given is None or len(given) in counts:
        return calls[0 if given is None else counts.index(len(given))]
    more = [call for call, count in zip(calls, counts, strict=True) if count > len(given)]
    if not more or not given:
        most = max(counts, default=0)
        raise Refusal("too-many-tensors", path=operator.path, most=most, given=len(given))
    return more[0]


def _samples(value: Any) -> Iterator[Sample]:
    if isinstance(value, Sample):
        yield value
    elif isinstance(value, Example):
        yield from _samples([*value.args, *value.kwargs.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _samples(item)


def _parameters(operator: Operator, count: int) -> list[str]:
    """The parameter of each of so many positional arguments."""
    own = [name for name in operator.parameters if not name.startswith("**")]
    rest = own[-1] if own and own[-1].startswith("*") else ""
    return (own + [rest] * count)[:count]


def _tensor_names(operator: Operator, call: Example) -> Iterator[str]:
    found: dict[str, list[Sample]] = {}
    positional = zip(_parameters(operator, len(call.args)), call.args, strict=True)
    for name, value in [*positional, *call.kwargs.items()]:
        found.setdefault(name, []).extend(_samples(value))
    for name, samples in found.items():
        several = len(samples) > 1 or name.startswith("*")
        for place in range(len(samples)):
            yield f"{name.lstrip('*')}[{place}]" if several else name


def _bound(
    operator: Operator, call: Example, stand_in: Any, arguments: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The call with its tensors where the example has them, and the arguments that are given."""
    positional = list(zip(_parameters(operator, len(call.args)), call.args, strict=True))
    held = [
        (name, stand_in(value))
        for name, value in [*positional, *call.kwargs.items()]
        if any(_samples(value))
    ]
    rest = next((name for name in operator.parameters if name.startswith("*")), "")
    given = dict(arguments)
    args = [value for name, value in held if name.startswith("*")]
    named = {name: value for name, value in held if not name.startswith("*")}
    if rest and rest.lstrip("*") in given:
        value = given.pop(rest.lstrip("*"))
        args += [to_dim(item) for item in (value if isinstance(value, list) else [value])]
    if args:  # what comes before *rest is positional too
        before = operator.parameters[: operator.parameters.index(rest)]
        args = [(named | given)[name] for name in before if name in named | given] + args
        named = {name: value for name, value in named.items() if name not in before}
        given = {name: value for name, value in given.items() if name not in before}
    tupled = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    return args, {name: value for name, value in named.items() if value is not None} | tupled


def _shape_text(value: Any) -> ShapeText | None:
    dims = value.shape if isinstance(value, StandIn) else None
    return None if dims is None else tuple("?" if dim is None else str(dim) for dim in dims)
