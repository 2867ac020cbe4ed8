"""Checks that every reader and every call shares: types, bounds, and names that look like a slip.

    AnnotationError: inputs is not a list of shapes
      inputs is 3, an int
      hint: give one shape per annotated input, such as ["8*s, k", (8, "k")]

Every public function checks its parameters with these, so that a mistake in a call reads like any
other error and never surfaces inside the solver.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from numbers import Integral
from operator import index
from reprlib import Repr
from typing import Any

from .characters import point, shown
from .errors import AnnotationError, Span, problems

MAX_SHOWN = 60
LEAST_SLIP = 4
"""Letters of a word; of shorter ones every two differ by a letter or so."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = MAX_SHOWN
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

SHARED = problems(
    AnnotationError,
    """
    text-too-long: text too long
      {what} has at most {limit:,} characters; this text has {count:,}
    too-many-digits: number too long
      a number has at most {limit:,} digits; this one has {count:,}
    lookalikes: two names that look the same
      '{first}' has {ours} where '{second}' has {theirs}
      hint: write one of them at both places, or rename one
    wrong-type: {name} is not {expected}
      {name} is {value}
      hint: {hint}
    """,
)


def too_long(what: str, text: str, limit: int) -> AnnotationError:
    """Keeps as much of the text as a reader would have read: the rest is too much to pass on."""
    return SHARED["text-too-long"](
        text[:limit], Span(limit, limit), what=what, limit=limit, count=len(text)
    )


def lookalikes(text: str, names: tuple[str, str], spans: tuple[Span, Span]) -> AnnotationError:
    """Two different names that look the same."""
    first, second = names
    shorter = min(len(first), len(second))
    at = next((i for i in range(shorter) if first[i] != second[i]), shorter)
    ours, theirs = (point(name[at]) if at < len(name) else "nothing" for name in names)
    words = {"first": shown(first), "second": shown(second), "ours": ours, "theirs": theirs}
    return SHARED["lookalikes"](text, *spans, **words)


def wrong_type(parameter: str, value: object, expected: str, hint: str = "") -> AnnotationError:
    """Returns the error for a parameter of the wrong type.

    expected: what it should be, with its article.

    >>> print(wrong_type("up_to", True, "a positive integer"))
    up_to is not a positive integer
      up_to is True, a bool
    """
    return SHARED["wrong-type"](
        name=parameter, expected=expected, value=described(value), hint=hint
    )


def described(value: object) -> str:
    """Returns a value with its type, short enough for a sentence.

    >>> described(2.5), described(None), described({"a": 1})
    ('2.5, a float', 'None', "{'a': 1}, a dict")
    """
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[:1] in tuple("aeiouAEIOU") else "a"
    text = written(value)
    return f"{text}, {article} {name}" if text != "..." else f"{article} {name}"


def written(value: object) -> str:
    """Returns a value's own text, cut short; ``...`` where it has none that can be made.

    >>> written((1, 2)), written(10**5000)
    ('(1, 2)', '...')
    """
    try:
        return shown(_ADDRESS.sub("", _SHORT.repr(value)), MAX_SHOWN)
    except Exception:  # a foreign object may raise anything from its __repr__
        return "..."


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
    found = without_numpy(value)
    if isinstance(found, bool):
        return found
    raise wrong_type(parameter, value, "True or False")


def without_numpy(value: Any) -> Any:
    """Returns an integer of 64 bits or a truth value of NumPy's as Python's own, anything else as
    it is: shorter integers overflow where Python's do not.

    >>> import numpy as np
    >>> without_numpy(np.int64(7)), without_numpy(np.bool_(True)), without_numpy("7")
    (7, True, '7')
    """
    if type(value).__module__ != "numpy":
        return value
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    is_long = isinstance(value, Integral) and getattr(value, "itemsize", 0) == 8
    return int(value) if is_long else value


def to_choice(parameter: str, value: Any, choices: Collection[str]) -> str:
    """Returns one of a few words; AnnotationError that names them for anything else."""
    if isinstance(value, str) and value in choices:
        return value
    *others, last = choices
    raise wrong_type(parameter, value, f"one of {', '.join(others)} and {last}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that looks most like one that is not known; None where none does.

    >>> nearest("K", ["m", "k"]), nearest("hedas", ["heads", "k"]), nearest("q", ["heads"])
    ('k', 'heads', None)
    """
    names = list(known)
    alike = [each for each in names if _folded(each) == _folded(name)]
    close = alike or get_close_matches(name, names, n=1)
    return close[0] if close else None


def _folded(name: str) -> str:
    return name.replace("_", "").casefold()


def is_slip(name: str, meant: str) -> bool:
    """Whether one name is the other with another case, or with one letter inside a word dropped,
    added, changed, or changed places with the next.
    """
    if _folded(name) == _folded(meant):
        return True
    before = 0
    while before < min(len(name), len(meant)) and name[before] == meant[before]:
        before += 1
    after = 0
    most = min(len(name), len(meant)) - before
    while after < most and name[-1 - after] == meant[-1 - after]:
        after += 1
    one, other = name[before : len(name) - after], meant[before : len(meant) - after]
    inside = before and after and name[before - 1].isalpha() and name[-after].isalpha()
    if not inside or min(len(name), len(meant)) < LEAST_SLIP or not (one + other).isalpha():
        return False
    return max(len(one), len(other)) == 1 or (len(one) == 2 and one == other[::-1])
