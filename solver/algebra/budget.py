"""A count of work, so that every question ends.

Deciding sums and products over the integers is undecidable in general, and much of what is
decidable is not cheap. Each question gets a number of steps; loops spend them, and past the last
one the question is given up: unknown, never a hang. Steps are counted, not seconds, so that the
same question always has the same answer.
"""

from __future__ import annotations


class OutOfBudgetError(ArithmeticError):
    """The question would take more work than it was given."""


class Budget:
    """Steps that are left. One step is about a microsecond of work.

    >>> budget = Budget(10)
    >>> budget.spend(4)
    >>> budget.left
    6
    """

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Takes steps; raises OutOfBudgetError where too few are left."""
        self.left -= steps
        if self.left < 0:
            raise OutOfBudgetError

    def part(self, steps: int) -> Budget:
        """Returns a budget of at most this many steps, taken from this one; `refund` it."""
        granted = max(0, min(steps, self.left))
        self.left -= granted
        return Budget(granted)

    def refund(self, part: Budget) -> None:
        """Takes back what a part did not use."""
        self.left += max(0, part.left)
        part.left = 0
