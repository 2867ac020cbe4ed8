"""Values of the wrong type: which parameter, what came, what is expected.

    AnnotationError: inputs is not a list of shapes
      inputs is 3, an int
      hint: give one shape per annotated input, such as ["8*s, k", (8, "k")]

Every public function checks its parameters with these, so that a mistake in a call reads like any
other error and never surfaces inside the solver.
"""

from __future__ import annotations

import re
from reprlib import Repr

from .errors import AnnotationError, Diagnostic
from .excerpt import shown

MAX_SHOWN = 60
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = MAX_SHOWN
_VOWELS = "aeiouAEIOU"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def wrong_type(parameter: str, value: object, expected: str, hint: str = "") -> AnnotationError:
    """Returns the error for a parameter of the wrong type.

    expected: what it should be, with its article.

    >>> print(wrong_type("up_to", True, "a positive integer"))
    up_to is not a positive integer
      up_to is True, a bool
    """
    return AnnotationError(
        Diagnostic(
            code="wrong-type",
            title=f"{parameter} is not {expected}",
            reason=f"{parameter} is {described(value)}",
            hint=hint,
        )
    )


def described(value: object) -> str:
    """Returns a value with its type, short enough for a sentence.

    >>> described(2.5), described(None), described({"a": 1})
    ('2.5, a float', 'None', "{'a': 1}, a dict")
    """
    if value is None:
        return "None"
    name = type(value).__name__
    article = "an" if name[:1] in tuple(_VOWELS) else "a"
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
