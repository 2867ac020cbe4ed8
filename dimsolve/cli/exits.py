"""What a verdict or an error means to a script: the exit code.

A script asks "is this legal?" and goes on if the answer is 0. So 0 is a yes for all values, and
nothing else: *conditional* is a no for some value and exits with 1, like *illegal*; the condition
is in the answer.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dimsolve.ir.errors import DimsolveError
    from dimsolve.partition.legal_parts import LegalParts


class Exit(IntEnum):
    """The closed set of exit codes."""

    YES = 0
    NO = 1
    UNREADABLE = 2
    GAVE_UP = 3


_OF_VERDICT = {
    "legal": Exit.YES,
    "proved": Exit.YES,
    "conditional": Exit.NO,
    "illegal": Exit.NO,
    "refuted": Exit.NO,
    "unknown": Exit.GAVE_UP,
}


def exit_of_verdict(verdict: str) -> Exit:
    """Returns the exit code of a Legality's or a Proof's verdict.

    >>> exit_of_verdict("conditional")
    <Exit.NO: 1>
    """
    return _OF_VERDICT[verdict]


def exit_of_counts(counts: LegalParts) -> Exit:
    """Returns the exit code of legal counts: yes where there are any, also under a condition."""
    if counts.always or counts.conditional:
        return Exit.YES
    return Exit.GAVE_UP if counts.unknown else Exit.NO


def exit_of_error(error: DimsolveError) -> Exit:
    """Returns the exit code of an error: text that cannot be read is 2, a contradiction is a no."""
    from dimsolve.ir.errors import is_unreadable

    return Exit.UNREADABLE if is_unreadable(error) else Exit.NO
