"""The command line: the same verbs as in Python.

    $ dimsolve infer '(h t) k -> h t k' --input '8*s, k' --arg h=8
    output 0  8, s, k

Results go to stdout, diagnostics to stderr. The exit code is 0 for yes, 1 for no, 2 for a question
that cannot be read and 3 for one that was given up. Nothing heavy is imported before a verb needs
it.
"""

from .app import main

__all__ = ["main"]
