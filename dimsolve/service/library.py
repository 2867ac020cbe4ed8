"""`/v1/annotate`: what torch's own callables promise for one call, as an annotation to ask about.

    {"operator": "torch.nn.functional.conv2d", "inputs": ["n, 64, 56, 56", "128, 64, 3, 3"],
     "arguments": {"stride": 2, "padding": 1}}
    {"annotation": "a (b 1)+ ..., ... -> ...", "inputs": [...], ...}

The annotation depends on the arguments: a stride changes what is summed. Which function is meant,
and how its arguments are read, is that of `dimsolve.solver.calls`. What comes back may be asked of
the other routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dimsolve.api.results import AnnotatedModel, ShapeText
from dimsolve.ir.characters import shown
from dimsolve.ir.checks import nearest
from dimsolve.ir.operator import Operator
from dimsolve.solver.algebra.dims import symbols_of
from dimsolve.solver.calls import laid_out, operator_named
from dimsolve.solver.graphs.deduction import StandIn
from dimsolve.solver.operators import names, specimens
from dimsolve.solver.operators.declare.entry import Example, Sample
from dimsolve.solver.shapes import to_dim, to_shape

from .questions import AnnotateQuestion
from .replies import Refusal


def annotated(question: AnnotateQuestion) -> AnnotatedModel:
    """Returns the annotation. Raises Refusal for what names no function and for a call of which
    there is no example, DimsolveError for a function or an argument that nothing is known of, and
    for shapes that cannot be read, or that the function does not take.
    """
    path = question.operator.strip()
    operator = operator_named(path)
    if operator is None:
        raise Refusal("no-such-operator", called=shown(path, 80), hint=_near(path))
    given = question.inputs
    if given is None:
        args, named = _example(operator, question.arguments)
    else:
        shapes = [None if shape is None else to_shape(shape) for shape in given]
        tensors = [None if s is None else StandIn(s, None, n) for n, s in enumerate(shapes)]
        args, named = _laid_out(operator, tensors, question.arguments)
    declared = operator.declare(*args, **named)
    lengths = {name: str(to_dim(value)) for name, value in declared.arguments.items()}
    return AnnotatedModel(
        operator=operator.path,
        tensors=tuple(_tensor_names(operator, args, named)),
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


def _laid_out(
    operator: Operator, tensors: Sequence[Any], arguments: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    dims = [dim for tensor in tensors if tensor is not None for dim in tensor.shape or ()]
    symbols = frozenset[str]().union(*[symbols_of(dim) for dim in dims if dim is not None])
    args, named, _ = laid_out(operator, tensors, arguments, symbols)
    return args, named


def _example(operator: Operator, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The library's example call; with other arguments, its tensors."""
    call: Example | None = next(iter(specimens(operator.path)), None)
    if call is None:
        raise Refusal("no-example-call", path=operator.path)
    made: list[StandIn] = []

    def stand_in(value: Any) -> Any:
        if isinstance(value, Sample):
            made.append(StandIn(to_shape(value.shape), value.dtype, len(made)))
            return made[-1]
        return type(value)(map(stand_in, value)) if isinstance(value, list | tuple) else value

    args = [stand_in(value) for value in call.args]
    named = {name: stand_in(value) for name, value in call.kwargs.items()}
    return _laid_out(operator, made, arguments) if arguments else (args, named)


def _tensors(value: Any) -> Iterator[StandIn]:
    if isinstance(value, StandIn):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _tensor_names(operator: Operator, args: Sequence[Any], named: dict[str, Any]) -> Iterator[str]:
    """The names of the parameters that take the tensors of a call."""
    own = [name for name in operator.parameters if not name.startswith("**")]
    rest = own[-1] if own and own[-1].startswith("*") else ""
    found: dict[str, int] = {}
    for name, value in [*zip((own + [rest] * len(args)), args, strict=False), *named.items()]:
        found[name] = found.get(name, 0) + len(list(_tensors(value)))
    for name, count in found.items():
        several = count > 1 or name.startswith("*")
        for place in range(count):
            yield f"{name.lstrip('*')}[{place}]" if several else name


def _shape_text(value: Any) -> ShapeText | None:
    dims = value.shape if isinstance(value, StandIn) else None
    return None if dims is None else tuple("?" if dim is None else str(dim) for dim in dims)
