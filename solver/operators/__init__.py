"""What torch's own callables promise, as data.

find(path)         the operator of a function or a method, by the path that a captured model speaks
names()            all paths
examples(path)     calls with real tensors, for `verify`
summary(path)      one line for ``dimsolve ops``
"""

from __future__ import annotations

from .catalogue import Summary, examples, find, is_pointwise, specimens, summary
from .paths import canonical, names

__all__ = [
    "Summary",
    "canonical",
    "examples",
    "find",
    "is_pointwise",
    "names",
    "specimens",
    "summary",
]
