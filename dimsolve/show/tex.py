r"""Lengths and relations as LaTeX, of what MathJax 2, MathJax 3 and KaTeX all understand.

    8*s//3 == k % 4         \left\lfloor \frac{8 s}{3} \right\rfloor = k \bmod 4
    batch_size              \mathrm{batch\_size}

Nothing that was written reaches the text unescaped; there is no HTML in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import assert_never

from dimsolve.ir.characters import visible
from dimsolve.ir.expression import (
    Comparison,
    Expression,
    Literal,
    Name,
    Operation,
    Operator,
    Relation,
    terms,
)

_COMPARE = {
    Comparison.EQ: "=",
    Comparison.NE: r"\neq",
    Comparison.LE: r"\leq",
    Comparison.LT: r"\lt",
    Comparison.GE: r"\geq",
    Comparison.GT: r"\gt",
}
_SPECIAL = {
    "_": r"\_",
    "%": r"\%",
    "#": r"\#",
    "&": r"\&",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "\\": r"\backslash ",
    "^": r"\wedge ",
    "~": r"\sim ",
    "<": r"\lt ",
    ">": r"\gt ",
    "`": r"\prime ",
}
_DOT = r"\cdot "
_SUM, _MOD, _PRODUCT, _ATOM = range(4)


def name_tex(name: str, colours: Mapping[str, str] | None = None) -> str:
    r"""Returns a name: one letter as a variable, a number after it as an index, else upright.

    >>> name_tex("k"), name_tex("d12"), name_tex("batch_size")
    ('k', 'd_{12}', '\\mathrm{batch\\_size}')
    """
    indexed = re.fullmatch(r"([A-Za-z])([0-9]+)", name)
    if indexed:
        text = f"{indexed[1]}_{{{indexed[2]}}}"
    elif len(name) == 1 and name != "_":
        text = name
    else:
        text = rf"\mathrm{{{''.join(_SPECIAL.get(c, c) for c in visible(name))}}}"
    colour = colours.get(name) if colours else None
    return rf"{{\color{{{colour}}}{{{text}}}}}" if colour else text


def text_tex(text: str) -> str:
    r"""Returns words that stand among mathematics. What TeX would read as a command stands outside
    of ``\text``, where all readers take its escape.

    >>> text_tex("argument n_heads")
    '\\text{argument n}\\_\\text{heads}'
    """
    pieces = re.split(r"([_%#&$^~<>{}`\\])", visible(text))
    return "".join(_SPECIAL.get(piece, rf"\text{{{piece}}}") for piece in pieces if piece)


def relation_tex(relation: Relation, colours: Mapping[str, str] | None = None) -> str:
    r"""Returns a fact, a claim or a condition.

    >>> from dimsolve.ir.read_expression import read_relation
    >>> relation_tex(read_relation("k % 64 != 0"))
    'k \\bmod 64 \\neq 0'
    """
    left, right = (expression_tex(side, colours) for side in (relation.left, relation.right))
    return f"{left} {_COMPARE[relation.comparison]} {right}"


def expression_tex(expression: Expression, colours: Mapping[str, str] | None = None) -> str:
    r"""Returns a length; ``colours`` of names, where they have any.

    >>> from dimsolve.ir.read_expression import read_dimension
    >>> expression_tex(read_dimension("(n + 1)*8 - ceildiv(s**2, 4)"))
    '\\left(n + 1\\right) \\, 8 - \\left\\lceil \\frac{s^{2}}{4} \\right\\rceil'
    """
    return _tex(expression, colours)[0]


def _tex(expression: Expression, colours: Mapping[str, str] | None) -> tuple[str, int]:
    """The text, and how tightly it holds together."""
    match expression:
        case Literal(value):
            return str(value), _ATOM
        case Name(name):
            return name_tex(name, colours), _ATOM
        case Operation(Operator.ADD | Operator.SUBTRACT):
            (_, first), *others = terms(expression)
            shown = [_tex(first, colours)[0]]
            for operator, term in others:
                at_least = _SUM if operator is Operator.ADD else _MOD
                shown.append(f" {operator.value} {_held(_tex(term, colours), at_least)}")
            return "".join(shown), _SUM
        case Operation(operator, operands):
            return _operation(operator, [_tex(operand, colours) for operand in operands])
        case _:
            assert_never(expression)


def _operation(operator: Operator, parts: list[tuple[str, int]]) -> tuple[str, int]:
    match operator:
        case Operator.ADD | Operator.SUBTRACT:
            raise AssertionError(operator)
        case Operator.NEGATE:
            return f"-{_held(parts[0], _PRODUCT)}", _SUM
        case Operator.MULTIPLY:
            left, right = _held(parts[0], _PRODUCT), _held(parts[1], _PRODUCT)
            if not left[-1:].isdecimal():
                return rf"{left} \, {right}", _PRODUCT
            return f"{left} {_DOT if right[:1].isdecimal() else ''}{right}", _PRODUCT
        case Operator.POWER:
            return f"{_held(parts[0], _ATOM)}^{{{parts[1][0]}}}", _PRODUCT
        case Operator.MOD:
            return rf"{_held(parts[0], _MOD)} \bmod {_held(parts[1], _ATOM)}", _MOD
        case Operator.FLOORDIV:
            return rf"\left\lfloor \frac{{{parts[0][0]}}}{{{parts[1][0]}}} \right\rfloor", _ATOM
        case Operator.CEILDIV:
            return rf"\left\lceil \frac{{{parts[0][0]}}}{{{parts[1][0]}}} \right\rceil", _ATOM
        case Operator.MIN | Operator.MAX:
            inner = ", ".join(text for text, _ in parts)
            return rf"\{operator.value}\left({inner}\right)", _ATOM
        case _:
            assert_never(operator)


def _held(part: tuple[str, int], at_least: int) -> str:
    """The text, in brackets where it holds together less than its place asks for."""
    text, own = part
    return text if own >= at_least else rf"\left({text}\right)"
