"""The parameters that questions share, checked before anything is solved.

    infer("a -> a", 3)                 inputs is not a list of shapes
    infer("a -> a", "8*s")             a text is one shape: give ["8*s"]
    prove("s > 0", facts={"s": 2})     facts is not a list of relations

Types are told apart here, once; what the values mean is read in `dimsolve.solver.shapes` and
`dimsolve.ir.read_expression`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import index
from typing import Any

from dimsolve.ir.expression import Relation
from dimsolve.ir.wrong_types import wrong_type

_BYTES = bytes | bytearray | memoryview
_SHAPES_HINT = 'give one shape per annotated input, such as ["8*s, k", (8, "k")]'
_FACTS_HINT = 'give relations as text, such as ["k % 64 == 0", "s >= 2"]'


def to_inputs(inputs: Any) -> Sequence[Any]:
    """Returns the inputs where they are a sequence; AnnotationError for anything else."""
    if isinstance(inputs, str):
        hint = f"a text is one shape; give a list of shapes: [{inputs[:40]!r}]"
        raise wrong_type("inputs", inputs, "a list of shapes", hint)
    if not isinstance(inputs, Sequence) or isinstance(inputs, _BYTES):
        raise wrong_type("inputs", inputs, "a list of shapes", _SHAPES_HINT)
    return inputs


def to_arguments(arguments: Any) -> Mapping[str, Any]:
    """Returns the arguments by name, none for None; AnnotationError for what is no mapping."""
    if arguments is None:
        return {}
    hint = 'give lengths by name, such as {"h": 8}'
    if not isinstance(arguments, Mapping):
        raise wrong_type("arguments", arguments, "a mapping of names to lengths", hint)
    for name in arguments:
        if not isinstance(name, str):
            raise wrong_type("a name in arguments", name, "a text", hint)
    return arguments


def to_facts(facts: Any) -> tuple[str | Relation, ...]:
    """Returns the facts, one for a single text; AnnotationError for what are no facts."""
    if isinstance(facts, str | Relation):
        return (facts,)
    if not isinstance(facts, Iterable) or isinstance(facts, _BYTES | Mapping):
        raise wrong_type("facts", facts, "a list of relations", _FACTS_HINT)
    try:
        found = tuple(facts)
    except TypeError:  # such as a tensor without dimensions
        raise wrong_type("facts", facts, "a list of relations", _FACTS_HINT) from None
    for number, fact in enumerate(found):
        if not isinstance(fact, str | Relation):
            raise wrong_type(f"fact {number}", fact, "a relation", _FACTS_HINT)
    return found


def to_claim(claim: Any) -> str:
    """Returns the text of a claim; AnnotationError for anything else."""
    if not isinstance(claim, str):
        hint = "write a relation as text, such as 'n*(n + 1) % 2 == 0'"
        raise wrong_type("claim", claim, "a relation", hint)
    return claim


def as_whole(value: Any) -> int | None:
    """Returns the integer that a value is, also NumPy's or torch's; None for anything else.

    >>> as_whole(8), as_whole(True), as_whole(8.0)
    (8, None, None)
    """
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def to_whole(parameter: str, value: Any, least: int, most: int | None = None) -> int:
    """Returns a whole number within bounds, from an int or what has ``__index__``.

    >>> to_whole("up_to", 8, 1)
    8
    """
    expected = f"a whole number from {least}"
    expected += " on" if most is None else f" to {most:,}"
    number = as_whole(value)
    if number is None or number < least or (most is not None and number > most):
        raise wrong_type(parameter, value, expected)
    return number


def to_flag(parameter: str, value: Any) -> bool:
    """Returns True or False, from a bool or NumPy's; AnnotationError for anything else."""
    if isinstance(value, bool):
        return value
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise wrong_type(parameter, value, "True or False")


def to_choice(parameter: str, value: Any, choices: Collection[str]) -> str:
    """Returns one of a few words; AnnotationError that names them for anything else."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = choices
    raise wrong_type(parameter, value, f"one of {', '.join(others)} and {last}")
