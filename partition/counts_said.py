"""Many counts and their reasons in few words: those with one reason stand together.

{3: "v = 256 is never a multiple of 3", 5: "v = 256 is never a multiple of 5"}
3, 5: v = 256 is never a multiple of that count
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def ranges(counts: Sequence[int]) -> str:
    """Returns ascending counts as people write them.

    >>> ranges([3, 5, 6, 7, 9])
    '3, 5-7, 9'
    """
    runs: list[list[int]] = []
    for count in counts:
        if runs and count == runs[-1][-1] + 1:
            runs[-1].append(count)
        else:
            runs.append([count])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def together(texts: Mapping[int, str]) -> dict[str, list[int]]:
    """Returns each text with the counts that it is about.

    >>> together({3: "a", 4: "b", 6: "a"})
    {'a': [3, 6], 'b': [4]}
    """
    found: dict[str, list[int]] = {}
    for count, text in texts.items():
        found.setdefault(text, []).append(count)
    return found


def said_once(reasons: Mapping[int, str]) -> dict[int, str]:
    """Returns the reasons; those that are the same but for the count speak of "that count".

    >>> said_once({3: "8 is never a multiple of 3", 5: "8 is never a multiple of 5", 7: "other"})[5]
    '8 is never a multiple of that count'
    """
    general = {
        count: re.sub(rf"\bmultiple of {count}\b", "multiple of that count", reason)
        for count, reason in reasons.items()
    }
    shared = together(general)
    return {
        count: text if len(shared[text]) > 1 else reasons[count] for count, text in general.items()
    }
