"""What `register_op` is given beside the annotation, checked before anything is registered.

register_op("a -> a", name="")                    name is not a name
register_op("a+ b, a+ b -> b", value_split="x")   'x' is cut where 'a' is: it is no summand
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from dimsolve.ir.annotation import Mark, Opaque
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.ir.wrong_types import wrong_type
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.parameters import as_whole

from . import registration_errors as errors
from .parameters import Parameter


def check_options(name: Any, emit_fn: Any, input_gen_fn: Any) -> None:
    """Raises AnnotationError for a name that is no text, and for what is no function."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        hint = "policies and plans call the operator by it; leave it out for the function's own"
        raise wrong_type("name", name, "a name", hint)
    if emit_fn is not None and not callable(emit_fn):
        raise wrong_type("emit_fn", emit_fn, "a function", "it writes the call as text")
    if input_gen_fn is not None and not callable(input_gen_fn):
        hint = "it is given what `verify` wants inputs for, and returns a list of them"
        raise wrong_type("input_gen_fn", input_gen_fn, "a function", hint)


def to_summands(value_split: Any) -> tuple[str | int, ...]:
    """Returns the entries of value_split; AnnotationError for what is no name and no number.

    >>> to_summands("bias"), to_summands([2])
    (('bias',), (2,))
    """
    hint = 'give the summands among the parameters, such as ("bias",)'
    if isinstance(value_split, str):
        return (value_split,)
    if not isinstance(value_split, Collection) or isinstance(value_split, bytes | Mapping):
        raise wrong_type("value_split", value_split, "a list of parameters", hint)
    found: list[str | int] = []
    for entry in value_split:
        number = entry if isinstance(entry, str) else as_whole(entry)
        if number is None:
            raise wrong_type("an entry of value_split", entry, "a parameter's name", hint)
        found.append(number)
    return tuple(found)


def check_summands(
    text: str, name: str, parameters: tuple[Parameter, ...], summands: tuple[str | int, ...]
) -> None:
    """Raises OperatorError for a summand that is no input, has no dimensions, or is cut itself by
    every split that joins parts.
    """
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    annotation = read_annotation(text)
    inputs = [p.name for p in parameters][: len(annotation.inputs)]
    joined = {n for n, found in identifiers_of(annotation).items() if found.mark is Mark.SUM}
    starred = "*+" in text.replace(" ", "")
    for given in summands:
        if given not in inputs and given not in range(len(inputs)):
            raise errors.unknown_value_split(name, str(given), inputs)
        number = given if isinstance(given, int) else inputs.index(given)
        operand = annotation.inputs[number]
        if isinstance(operand, Opaque):
            raise errors.opaque_summand(text, name, inputs[number])
        words = str(operand).replace("(", " ").replace(")", " ").split()
        own = {word.rstrip("+") for word in words}
        if joined and not starred and joined <= own:
            raise errors.cut_summand(text, name, inputs[number], sorted(joined))


def is_generator_or_coroutine(function: Any) -> bool:
    """Whether calling the function does not run it."""
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )
