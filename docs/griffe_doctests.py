"""Docstrings are Markdown with doctests: the reference shows those as code.

>>> infer("a -> a").outputs          a paragraph of a docstring that begins with >>>
((a,),)                              becomes a fenced block
"""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import griffe


def fenced(text: str) -> str:
    """Returns the text with a fence around every paragraph that is a doctest."""
    paragraphs = dedent(text).split("\n\n")
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>> ") else paragraph
        for paragraph in paragraphs
    )


class Doctests(griffe.Extension):
    """Changes docstrings as they are read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Fences the doctests of one object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
