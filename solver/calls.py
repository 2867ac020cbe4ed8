"""`infer` of a function: the question is asked of what the function promises for the call.

    infer(torch.nn.functional.conv2d, ["n, c, h, w", "o, c, 3, 3"], arguments={"stride": 2})
    a b+ d^ f^, c b+ 3 3 -> a c e^ g^        (n, o, (h - 1)//2, (w - 1)//2) if h >= 3 and w >= 3

A function is given by itself, or by its path (``"torch.nn.functional.conv2d"``), and is registered
or one of the library. The shapes are those of its tensors in order, the arguments all the others by
name; a text is a length where its names are symbols of the shapes (``"2*h"``), several of them
between brackets or commas, True, False or None, a number, or else itself (``"bilinear"``). Tensors
that one parameter takes together (``torch.cat``) follow one another.

What the call needs beyond its annotation (a window that fits) is a condition of the answer.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.checks import nearest
from dimsolve.ir.errors import AnnotationError, DimsolveError, ShapeError, problems
from dimsolve.ir.expression import Relation
from dimsolve.ir.operator import Declaration, Operator, operator_of

from .algebra.dims import symbols_of
from .algebra.poly import symbol
from .graphs.deduction import StandIn, find_operator
from .graphs.names import path_of, paths_of
from .infer import Inputs, infer_for, infer_sizes, refuse_slips_of
from .proof.facts import read_facts
from .proof.prove import decide
from .proof.verdict import Always, Never
from .shapes import to_arguments, to_dim, to_inputs, to_shape
from .solution import Solution

Asked: TypeAlias = "str | Annotation | Callable[..., Any]"
"""An annotation, or a function by itself or by its path."""

_REFUSED = problems(
    AnnotationError,
    """
    unknown-operator: the library does not have this callable
      nothing is known of '{path}'
      hint: {hint}
    unknown-argument: there is no such argument
      {path} has no parameter '{name}'; its parameters are {known}
      hint: {hint}
    not-known: this call has no annotation
      {path}: {reason}
      hint: {hint}
    no-shapes: a function is asked about with the shapes of its tensors
      {path} takes {known}
      hint: {hint}
    """,
)
_IMPOSSIBLE = problems(
    ShapeError,
    """
    input-count: the number of inputs does not match
      {path} takes {room} besides the arguments that are given, {count} given
      hint: give the shapes of tensors in order, and all other arguments by name
    does-not-hold: the call is not possible with these lengths
      {path} needs {claim}, which never holds
    """,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, solved. declaration: what the function promises for the call; None where an
    annotation was asked about. arguments: lengths of identifiers that the caller gave.
    """

    solution: Solution
    declaration: Declaration | None
    arguments: Mapping[str, Any]


def infer(
    annotation: Asked,
    inputs: Inputs = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
) -> Solution:
    """Returns the output shapes of an operator, the lengths of its identifiers, and conditions.

    annotation: the operator's, or a function that the library has or that is registered, by itself
    or by its path. inputs: one shape per annotated input (see `dimsolve.solver.shapes`), or None to
    explore the operator with its identifiers as symbols; of a function, one per tensor. arguments:
    lengths of identifiers (of the arguments of a call, `same_named` returns these); of a function
    all its other arguments. facts: what is known of the symbols. `dimsolve.solver.infer.infer` says
    what a length is. Raises AnnotationError for what cannot be read, for an argument that is none,
    for a function that nothing is known of, and for a fact whose name is a slip for one of the
    question, and ShapeError where the inputs can never match.

    >>> infer("m k+, k+ n -> m n", ["4*s, k", "k, 16"]).outputs
    ((4*s, 16),)
    >>> infer("torch.flatten", ["b, 4, s"], arguments={"start_dim": 1}).outputs
    ((b, 4*s),)
    """
    if annotation.__class__ is str and "->" in annotation:
        return infer_for(annotation, inputs, arguments, facts)
    return ask(annotation, inputs, arguments=arguments, facts=facts).solution


def ask(
    annotation: Asked,
    inputs: Inputs,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    names: Collection[str] = (),
    prepare: Callable[[Operator], Operator] = lambda operator: operator,
) -> Question:
    """Returns a question solved. names: the question has more names than its shapes have. prepare:
    is given the operator of a function before it is asked.
    """
    operator = operator_named(annotation)
    if operator is None:
        solution = infer_for(annotation, inputs, arguments=arguments, facts=facts, names=names)  # type: ignore[arg-type]
        return Question(solution, None, arguments or {})
    declaration, symbols = declared(prepare(operator), inputs, to_arguments(arguments))
    solution = _solved(operator, declaration, facts, symbols)
    refuse_slips_of(solution, facts, symbols.union(names))
    return Question(solution, declaration, {})


_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def operator_named(asked: Any) -> Operator | None:
    """Returns the operator that a function or a path means; None for an annotation. Raises
    AnnotationError for a function that nothing is known of.

    >>> operator_named("torch.relu").path, operator_named("a -> a")
    ('torch.relu', None)
    """
    if isinstance(asked, str):
        path = asked.strip()
        if "->" in path or not _PATH.fullmatch(path):
            return None
        if "." not in path:
            try:
                return find_operator(paths_of(path)[0])
            except DimsolveError:
                return None
        found = find_operator(path)
    elif callable(asked):
        path = path_of(asked)
        found = operator_of(asked) or find_operator(path)
    else:
        return None
    if found is None:
        raise _unknown(path)
    return found


def _unknown(path: str) -> AnnotationError:
    from .operators import names

    home, _, last = path.rpartition(".")
    beside = [name for name in names() if name.startswith(f"{home}.")] or names()
    by_last = {name.rpartition(".")[2]: name for name in beside}
    close = [by_last[name] for name in get_close_matches(last, by_last, n=1)]
    hint = "dimsolve ops lists all; dimsolve.register_op annotates a function of your own"
    return _REFUSED["unknown-operator"](
        path=path, hint=f"did you mean {close[0]}?" if close else hint
    )


def declared(
    operator: Operator, inputs: Any, arguments: Mapping[str, Any]
) -> tuple[Declaration, frozenset[str]]:
    """Returns what an operator promises for tensors of these shapes and these other arguments, and
    the caller's symbols. Raises AnnotationError for a call that has no annotation.
    """
    takes = ", ".join(operator.parameters)
    if inputs is None:
        hint = 'give the shapes, such as ["n, c, h, w", "o, c, 3, 3"]'
        raise _REFUSED["no-shapes"](path=operator.path, known=takes, hint=hint)
    shapes = [to_shape(shape, f"input {n}") for n, shape in enumerate(to_inputs(inputs))]
    symbols = frozenset[str]().union(
        *[symbols_of(dim) for shape in shapes for dim in shape or () if dim is not None]
    )
    tensors = [None if s is None else StandIn(s, None, n) for n, s in enumerate(shapes)]
    args, kwargs, texts = laid_out(operator, tensors, arguments, symbols)
    declaration = operator.declare(*args, **kwargs)
    if declaration.returns == "value" or "?" in declaration.annotation:
        reason = declaration.frozen or "it gives no tensor"
        close = (get_close_matches(text, symbols, n=1) for text in texts)
        meant = next((found[0] for found in close if found), "")
        hint = f"did you mean the symbol '{meant}'?" if meant else "give an annotation in its place"
        raise _REFUSED["not-known"](path=operator.path, reason=reason, hint=hint)
    return declaration, symbols


TOGETHER = frozenset({"tensors", "arrays", "operands"})
"""Names of parameters that take several tensors in one list."""


def laid_out(
    operator: Operator,
    tensors: Sequence[Any],
    arguments: Mapping[str, Any],
    symbols: Collection[str],
) -> tuple[list[Any], dict[str, Any], list[str]]:
    """Returns the arguments of a call, positional and by name: the tensors in order, where no
    argument is given by name; and the texts among them.
    """
    names = [name.lstrip("*") for name in operator.parameters if not name.startswith("**")]
    if not any(name.startswith("**") for name in operator.parameters):
        for name in arguments:
            if name not in names:
                raise _no_parameter(operator, name, names)
    texts: list[str] = []
    given = {
        name: value if name == "equation" else read_value(value, symbols, texts)
        for name, value in arguments.items()
    }
    rest, args, kwargs = deque(tensors), list[Any](), dict[str, Any]()
    in_order = True
    several = [place for place, name in enumerate(operator.parameters) if name.startswith("*")]
    spread = operator.parameters[: max(several, default=0)]
    for parameter in operator.parameters:
        name = parameter.lstrip("*")
        if parameter.startswith("**"):
            continue
        if name in given:
            value = given.pop(name)
            if parameter.startswith("*"):
                args.extend(value if isinstance(value, tuple) else (value,))
                continue
            # What comes behind all tensors is given by name: it may be known by name only.
            in_order = in_order and (bool(rest) or name in spread)
        elif not rest:
            in_order = False
            continue
        elif parameter.startswith("*"):
            args.extend(rest)
            rest.clear()
            continue
        elif name in TOGETHER:
            value = list(rest)
            rest.clear()
        else:
            value = rest.popleft()
        if in_order:
            args.append(value)
        else:
            kwargs[name] = value
    if rest:
        room, count = len(tensors) - len(rest), len(tensors)
        raise _IMPOSSIBLE["input-count"](path=operator.path, room=room, count=count)
    return args, {**kwargs, **given}, texts


def _no_parameter(operator: Operator, name: str, names: Sequence[str]) -> AnnotationError:
    close = nearest(name, names)
    return _REFUSED["unknown-argument"](
        path=operator.path,
        name=name,
        known=", ".join(names) or "none",
        hint=f"did you mean '{close}'?" if close else "",
    )


_WORDS = {"true": True, "false": False, "none": None}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)


def read_value(value: Any, symbols: Collection[str], texts: list[str]) -> Any:
    """Returns an argument: texts are read, lists become tuples. texts: receives those that are
    themselves.

    >>> read_value("(2, 3*h)", {"h"}, []), read_value("1e-5", (), []), read_value("same", (), [])
    ((2, Poly(3*h)), 1e-05, 'same')
    """
    if isinstance(value, list | tuple):
        return tuple(read_value(item, symbols, texts) for item in value)
    if not isinstance(value, str):
        return to_dim(value) if str(type(value).__module__).startswith("sympy.") else value
    text = value.strip()
    if text[:1] + text[-1:] in ("()", "[]") and _closes_at_end(text):
        return _listed(text[1:-1], symbols, texts)
    if len(_parts(text)) > 1:
        return _listed(text, symbols, texts)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        dim = to_dim(text)
    except DimsolveError:
        dim = symbol("?")
    if symbols_of(dim) <= set(symbols):
        return dim
    texts.append(text)
    return text


def _listed(text: str, symbols: Collection[str], texts: list[str]) -> tuple[Any, ...]:
    return tuple(read_value(part, symbols, texts) for part in _parts(text) if part.strip())


def _parts(text: str) -> list[str]:
    """A text taken apart at the commas that stand in no brackets."""
    depth, found = 0, [""]
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return found


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that opens a text closes at its end."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return place == len(text) - 1
    return False


def _solved(
    operator: Operator, declaration: Declaration, facts: Any, symbols: Collection[str]
) -> Solution:
    """The shapes of a call, with what it needs as conditions."""
    arguments = dict(declaration.arguments)
    for name in declaration.fresh:
        taken = {*symbols, *arguments}
        arguments[name] = symbol(
            next(
                n for n in (name, *(f"{name}_{i}" for i in range(len(taken) + 1))) if n not in taken
            )
        )
    shapes = [getattr(value, "shape", None) for value in declaration.inputs]
    solution = infer_sizes(declaration.annotation, shapes, arguments=arguments, facts=facts)
    conditions = list(solution.conditions)
    for claim in declaration.needs:
        known = read_facts([*solution.facts.relations, *conditions])
        decision = decide(claim.left, claim.comparison, claim.right, known)
        match decision:
            case Always():
                continue
            case Never():
                raise _IMPOSSIBLE["does-not-hold"](path=operator.path, claim=claim)
        conditions += [c for c in decision.conditions or (str(claim),) if c not in conditions]
    return replace(solution, conditions=tuple(conditions))
