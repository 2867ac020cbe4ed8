"""Precedence climbing over the tokens of one text: the machine behind `read_expression`.

    relation   = sum comparison sum { comparison sum }       k % 64 == 0      1 <= s <= 8
    sum        = product { ("+" | "-") product }             8*s + 1
    product    = signed { ("*" | "//" | "%") signed }        s//2*2 is (s//2)*2
    signed     = ("-" | "+") signed | power                  -s**2 is -(s**2), -s//2 is (-s)//2
    power      = operand [ "**" number ]                     s**2
    operand    = number | name | "(" sum ")" | function "(" sum { "," sum } ")"
    function   = "min" | "max" | "ceildiv" | "mod" | "floordiv", and as SymPy and JAX print them

The depth of brackets and signs bounds this parser's own recursion; the height and the degree of the
tree are bounded for whatever recurses over it, or multiplies it out, later. The terms of a sum
follow one another at one height (`dimsolve.ir.expression.terms`), so a sum may be long.
"""

from __future__ import annotations

import re

from . import expression_errors as errors
from .character_errors import lookalikes, too_long, too_many_digits
from .expression import SUMS, Expression, Literal, Name, Operation, Operator, terms
from .lookalikes import find_lookalikes
from .span import Span

MAX_CHARACTERS = 16_384
MAX_DEPTH = 64
MAX_HEIGHT = 128
MAX_OPERANDS = 2_500
MAX_DIGITS = 100
MAX_EXPONENT = 16
MAX_DEGREE = 64

_TOKEN = re.compile(
    r"""
    ( [^\s\x00-/:-@\[-^`{-\x7f]+               # a name or a number
    | \*\* | // | [=!<>]= | [-+*%(),<>] )      # punctuation
    | \S                                       # what no expression has
    """,
    re.VERBOSE,
)

_SUM, _PRODUCT = 1, 2
_BINARY = {
    "+": (_SUM, Operator.ADD),
    "-": (_SUM, Operator.SUBTRACT),
    "*": (_PRODUCT, Operator.MULTIPLY),
    "//": (_PRODUCT, Operator.FLOORDIV),
    "%": (_PRODUCT, Operator.MOD),
}
_FUNCTIONS = {
    "min": Operator.MIN,
    "Min": Operator.MIN,
    "max": Operator.MAX,
    "Max": Operator.MAX,
    "mod": Operator.MOD,
    "Mod": Operator.MOD,
    "floordiv": Operator.FLOORDIV,
    "FloorDiv": Operator.FLOORDIV,
    "ceildiv": Operator.CEILDIV,
    "CeilDiv": Operator.CEILDIV,
}
"""Function name -> operation: our own spelling, and how SymPy, torch and JAX print the same."""


class Parser:
    """The tokens of one text and how far they were read. Every method raises AnnotationError.

    >>> parser = Parser("8*s, k")
    >>> str(parser.expression()), parser.token()
    ('8*s', ',')
    """

    __slots__ = ("position", "starts", "text", "tokens")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise too_long("an expression", text, MAX_CHARACTERS)
        self.text = text
        self.tokens: list[str] = []
        self.starts: list[int] = []
        self.position = 0
        for match in _TOKEN.finditer(text):
            if match.lastindex is None:
                raise errors.unknown_character(text, match.start())
            self.tokens.append(match[1])
            self.starts.append(match.start())
        self.tokens.append("")
        self.starts.append(len(text))
        if len(self.tokens) > MAX_OPERANDS:
            self._refuse_many()
        if not text.isascii():
            self._refuse_lookalikes()

    def token(self) -> str:
        """Returns the next token; ``""`` at the end."""
        return self.tokens[self.position]

    def span(self) -> Span:
        """Returns where the next token stands."""
        start = self.starts[self.position]
        return Span(start, start + len(self.tokens[self.position]))

    def since(self, start: int) -> Span:
        """Returns the span from an offset to the end of the last token that was read."""
        last = self.position - 1
        return Span(start, self.starts[last] + len(self.tokens[last]))

    def expect(self, token: str, opened: Span | None = None) -> None:
        """Reads this token, ``""`` for the end; raises where another comes.

        ``opened``: the bracket that this token closes.
        """
        position = self.position
        if self.tokens[position] != token:
            raise errors.unexpected(self.text, self.tokens, position, self.span(), opened)
        self.position += 1

    def expression(self) -> Expression:
        """Reads one expression, as far as it goes."""
        first = self.position
        expression = self._climb(_SUM, 0)
        tokens = self.tokens[first : self.position]
        if len(tokens) > MAX_HEIGHT or tokens.count("**") > 1:
            self._refuse_large(expression)
        return expression

    def _climb(self, level: int, depth: int) -> Expression:
        """Reads operands and the operators between them that bind at least as tightly as level."""
        start = self.starts[self.position]
        left = self._signed(depth)
        while binary := _BINARY.get(self.tokens[self.position]):
            own_level, operator = binary
            if own_level < level:
                break
            self.position += 1
            right = self._signed(depth) if own_level == _PRODUCT else self._climb(_PRODUCT, depth)
            left = Operation(operator, (left, right), self.since(start))
        return left

    def _signed(self, depth: int) -> Expression:
        start = self.starts[self.position]
        token = self.tokens[self.position]
        if token == "-" or token == "+":
            self._check_depth(depth)
            self.position += 1
            signed = self._signed(depth + 1)
            if token == "+":
                return signed
            return Operation(Operator.NEGATE, (signed,), self.since(start))
        base = self._operand(token, depth)
        if self.tokens[self.position] != "**":
            return base
        self._check_depth(depth)
        self.position += 1
        at = self.starts[self.position]
        exponent = self._signed(depth + 1)
        if not isinstance(exponent, Literal) or exponent.value > MAX_EXPONENT:
            raise errors.bad_exponent(self.text, self.since(at), MAX_EXPONENT)
        return Operation(Operator.POWER, (base, exponent), self.since(start))

    def _operand(self, token: str, depth: int) -> Expression:
        if token == "(":
            self._check_depth(depth)
            opened = self.span()
            self.position += 1
            inner = self._climb(_SUM, depth + 1)
            self.expect(")", opened)
            return inner
        span = self.span()
        if token.isidentifier():
            self.position += 1
            if self.tokens[self.position] == "(":
                return self._call(token, span, depth)
            return Name(token, span)
        if not token.isdecimal():
            raise errors.no_operand(self.text, self.tokens, self.position, span)
        if len(token) > MAX_DIGITS:
            raise too_many_digits(self.text, span, len(token), MAX_DIGITS)
        self.position += 1
        return Literal(int(token), span)

    def _call(self, name: str, span: Span, depth: int) -> Expression:
        operator = _FUNCTIONS.get(name)
        if operator is None:
            raise errors.unknown_function(self.text, name, span)
        self._check_depth(depth)
        opened = self.span()
        operands: list[Expression] = []
        separator = "("
        while self.token() == separator:
            self.position += 1
            operands.append(self._climb(_SUM, depth + 1))
            separator = ","
        self.expect(")", opened)
        whole = self.since(span.start)
        count = len(operands)
        many = operator is Operator.MIN or operator is Operator.MAX
        if count < 2 or (count > 2 and not many):
            raise errors.operand_count(self.text, name, whole, count, many=many)
        return Operation(operator, tuple(operands), whole)

    def _span(self, position: int) -> Span:
        start = self.starts[position]
        return Span(start, start + len(self.tokens[position]))

    def _check_depth(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise errors.too_deep(self.text, self.span(), MAX_DEPTH)

    def _refuse_many(self) -> None:
        words = [i for i, t in enumerate(self.tokens) if t.isidentifier() or t.isdecimal()]
        if len(words) > MAX_OPERANDS:
            at = self._span(words[MAX_OPERANDS])
            raise errors.too_many_operands(self.text, at, MAX_OPERANDS)

    def _refuse_large(self, expression: Expression) -> None:
        """Walks the tree without recursion; raises where it is too high or has too large powers."""
        todo = [(expression, 1, 1)]
        while todo:
            node, height, degree = todo.pop()
            if not isinstance(node, Operation):
                continue
            if height > MAX_HEIGHT:
                raise errors.too_high(self.text, node.span, MAX_HEIGHT)
            if node.operator is Operator.POWER:
                base, exponent = node.operands
                assert isinstance(exponent, Literal)
                degree *= max(exponent.value, 1)
                if degree > MAX_DEGREE:
                    raise errors.power_too_large(self.text, expression.span, MAX_DEGREE)
                todo.append((base, height + 1, degree))
            elif node.operator in SUMS:
                todo += [(term, height + 1, degree) for _, term in terms(node)]
            else:
                todo += [(operand, height + 1, degree) for operand in node.operands]

    def _refuse_lookalikes(self) -> None:
        names = [token for token in self.tokens if token.isidentifier()]
        if alike := find_lookalikes(names):
            first, second = (self._span(self.tokens.index(name)) for name in alike)
            raise lookalikes(self.text, alike, (first, second))
