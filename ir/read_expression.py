"""The reader of dimensions, shapes, facts and claims: text in, trees out, nothing evaluated.

    read_dimension("8*s")               8*s
    read_shape("8*s, k")                (8*s, k)
    read_relation("k % 64 == 0")        k % 64 == 0
    read_relations("1 <= s <= 8")       1 <= s, s <= 8

The language: whole numbers, names, ``+ - * // %``, brackets, ``**`` with a small written-out
exponent, ``min``, ``max``, ``ceildiv``, ``mod`` and ``floordiv``; precedence as in Python. No text
ever reaches SymPy, whose own readers execute code. The same short text is read only once; the
functions named ``parse_...`` read it each time. The parser climbs precedences:

    relation   = sum comparison sum { comparison sum }       k % 64 == 0      1 <= s <= 8
    sum        = product { ("+" | "-") product }             8*s + 1
    product    = signed { ("*" | "//" | "%") signed }        s//2*2 is (s//2)*2
    signed     = ("-" | "+") signed | power                  -s**2 is -(s**2), -s//2 is (-s)//2
    power      = operand [ "**" number ]                     s**2
    operand    = number | name | "(" sum ")" | function "(" sum { "," sum } ")"
    function   = "min" | "max" | "ceildiv" | "mod" | "floordiv", and as SymPy and JAX print them

The depth of brackets and signs bounds the recursion here; the height and the degree of the tree are
bounded for whatever recurses over it, or multiplies it out, later. The terms of a sum follow one
another at one height (`dimsolve.ir.expression.terms`), so a sum may be long. What can be wrong
stands in a table of `Problem`; tests hold the errors word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from .characters import describe, find_lookalikes, hint_for, shown
from .checks import SHARED, lookalikes, too_long, wrong_type
from .errors import AnnotationError, Span, problems
from .expression import (
    SUMS,
    Comparison,
    Expression,
    Literal,
    Name,
    Operation,
    Operator,
    Relation,
    terms,
)

_TOKENS = frozenset(["+", "-", "*", "//", "%", "(", ")", ",", "==", "!=", "<=", ">=", "<", ">"])

_SPELLINGS = {
    "floor": "write a//b, which rounds down",
    "ceil": "write ceildiv(a, b)",
    "ceiling": "write ceildiv(a, b)",
    "pow": "write a**2",
    "abs": "write max(a, -a)",
    "Abs": "write max(a, -a)",
    "CleanDiv": "write a//b",
    "PythonMod": "write a % b",
    "Eq": "write a == b",
    "Ne": "write a != b",
    "Le": "write a <= b",
    "Lt": "write a < b",
    "Ge": "write a >= b",
    "Gt": "write a > b",
}
"""A function that is not ours -> how the same is written."""

_KEYWORDS = {
    "and": "give two facts",
    "or": "",
    "not": "write the opposite comparison, as '!=' for '=='",
    "if": "",
    "else": "",
    "in": "",
    "is": "write '=='",
    "lambda": "",
    "for": "",
}
"""A word that Python would read as an operator -> what to write."""


_WRONG = problems(
    AnnotationError,
    """
    too-many-operands: too many names and numbers
      a text has at most {limit:,} names and numbers
    too-deep: nested too deep
      brackets, signs and powers nest at most {limit} deep
    too-many-operations: too many operations
      at most {limit} operations may follow one on the result of the other
      hint: put brackets around parts of a long product
    power-too-large: power too large
      powers of powers may come to {limit} in all
    bad-exponent: exponent too large or unknown
      an exponent is a written-out number from 0 to {limit}
    unknown-function: unknown function
      '{name}' is none of min, max, ceildiv, floordiv and mod
      hint: {hint}
    operand-count: wrong number of operands
      {name} takes two {more}operands; here {are} {count}
    no-comparison: no comparison
      a fact or a claim compares two values
      hint: write ==, !=, <=, <, >= or > between them, as in 'k % 64 == 0'
    chained-comparison: more than one comparison
      one comparison belongs here, and this is the second
      hint: write each comparison by itself
    no-operand (empty): empty expression
      a number, a name or '(' belongs here
    no-operand: an operand is missing
      a number, a name or '(' belongs {where}, where {found}
    unclosed-bracket: '(' without ')'
      this bracket is not closed before {end}
    unopened-bracket: ')' without '('
      no bracket is open here
    more-than-one: more than one expression
      one expression belongs here, and ',' begins another
    unexpected-comparison: a comparison where none belongs
      '{token}' compares two values, and one value belongs here
      hint: {hint}
    no-operator: no operator between two operands
      {reason}
      hint: {hint}
    bad-name: neither a name nor a number
      '{word}' begins with {char}, and a name with a letter or '_'
      hint: {hint}
    unknown-character: a character that no expression has
      {char} is no part of the dimension language
      hint: {hint}
    unknown-character (/): '/' may leave a fraction
      a dimension is a whole number
      hint: write '//' to round down, or ceildiv(a, b) to round up
    unknown-character (=>): '=>' is no comparison
      values are compared with ==, !=, <=, <, >= and >
      hint: write '>='
    unknown-character (=<): '=<' is no comparison
      values are compared with ==, !=, <=, <, >= and >
      hint: write '<='
    unknown-character (=): '=' is no comparison
      values are compared with ==, !=, <=, <, >= and >
      hint: write '=='
    unknown-character (!): '!' is no comparison
      values are compared with ==, !=, <=, <, >= and >
      hint: write '!='
    unknown-character (^): '^' is no power
      '^' is a mark of annotations
      hint: write '**' for a power
    unknown-character ([): '[' in an expression
      nothing is indexed, and a shape needs no brackets
      hint: write '(' to group
    unknown-character (]): ']' in an expression
      nothing is indexed, and a shape needs no brackets
      hint: write ')' to group
    unknown-character (?): '?' in an expression
      '?' belongs to annotations
      hint: write None as the whole shape, or a name for a dimension that is not known
    unknown-character (&): '&' in an expression
      one text says one fact
      hint: give two facts
    unknown-character (|): '|' in an expression
      one text says one fact
      hint: write 's % 8 == 0' to say that 8 divides s
    unknown-character ("): a quote in an expression
      an expression is made of numbers, names and operators; no part of it is text
      hint: leave out the quotes
    unknown-character ('): a quote in an expression
      an expression is made of numbers, names and operators; no part of it is text
      hint: leave out the quotes
    unknown-character (:): ':' in an expression
      nothing is defined or sliced here
    unknown-character (.): '.' in an expression
      a dimension is a whole number, and names have no attributes
    """,
)


def _unknown_function(text: str, name: str, span: Span) -> AnnotationError:
    """``floor(a)``"""
    hint = _SPELLINGS.get(name, f"write '{shown(name)}*(' for a product" if len(name) == 1 else "")
    return _WRONG["unknown-function"](text, span, name=shown(name), hint=hint)


def _no_operand(text: str, tokens: Sequence[str], position: int, span: Span) -> AnnotationError:
    """``a + * b``, ``a +``, ``()``: something else where a number, a name or a bracket belongs."""
    token = tokens[position]
    if token[:1].isalnum() or not token.isascii():
        return _bad_word(text, token, span)
    if len(tokens) == 1:
        return _WRONG["no-operand (empty)"](text, span)
    where = f"after '{shown(tokens[position - 1])}'" if position else "at the beginning"
    found = f"'{token}' stands" if token else "the text ends"
    return _WRONG["no-operand"](text, span, where=where, found=found)


def _unexpected(
    text: str, tokens: Sequence[str], position: int, span: Span, opened: Span | None
) -> AnnotationError:
    """``a b``, ``2(a)``, ``a, b``, ``(a``, ``a)``: a whole expression, and then something else.

    opened: the bracket that is still open, if any.
    """
    token, before = tokens[position], tokens[position - 1]
    if token == "(" or token[:1].isalnum() or token.isidentifier() or not token.isascii():
        return _side_by_side(text, token, before, span)
    if token in ("", ",") and opened is not None:
        return _WRONG["unclosed-bracket"](
            text, opened, span, end=repr(token) if token else "the end"
        )
    if token == ")":
        return _WRONG["unopened-bracket"](text, span)
    if token == ",":
        return _WRONG["more-than-one"](text, span)
    hint = "leave out the brackets around a comparison" if opened else ""
    return _WRONG["unexpected-comparison"](text, span, token=token, hint=hint)


def _side_by_side(text: str, token: str, before: str, span: Span) -> AnnotationError:
    for word in (before, token):
        if word in _KEYWORDS:
            reason = f"'{word}' is no operator here"
            return _WRONG["no-operator"](text, span, reason=reason, hint=_KEYWORDS[word])
    if token != "(" and not token.isidentifier() and not token.isdecimal():
        return _bad_word(text, token, span)
    reason = f"'{shown(before)}' and '{shown(token)}' stand side by side"
    return _WRONG["no-operator"](text, span, reason=reason, hint="write '*' for a product")


def _bad_word(text: str, word: str, span: Span) -> AnnotationError:
    for offset, char in enumerate(word, span.start):
        if not ("a" + char).isidentifier():
            return _unknown_character(text, offset)
    is_number = word.replace("_", "").isdecimal()
    hint = "write a number without '_'" if is_number else "write '*' for a product, as in 2*a"
    return _WRONG["bad-name"](text, span, word=shown(word), char=describe(word[0]), hint=hint)


def _unknown_character(text: str, offset: int) -> AnnotationError:
    """``a/b``, ``a = b``, ``a[0]``, ``a.b``: any character that belongs to no token."""
    for foreign in (text[offset : offset + 2], text[offset]):
        if problem := _WRONG.get(f"unknown-character ({foreign})"):
            return problem(text, Span(offset, offset + len(foreign)))
    char = text[offset]
    hint = hint_for(char, _TOKENS)
    return _WRONG["unknown-character"](
        text, Span(offset, offset + 1), char=describe(char), hint=hint
    )


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
                raise _unknown_character(text, match.start())
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
        position = self.position
        start = self.starts[position]
        return Span(start, start + len(self.tokens[position]))

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
            raise _unexpected(self.text, self.tokens, position, self.span(), opened)
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
            raise _WRONG["bad-exponent"](self.text, self.since(at), limit=MAX_EXPONENT)
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
            raise _no_operand(self.text, self.tokens, self.position, span)
        if len(token) > MAX_DIGITS:
            raise SHARED["too-many-digits"](self.text, span, count=len(token), limit=MAX_DIGITS)
        self.position += 1
        return Literal(int(token), span)

    def _call(self, name: str, span: Span, depth: int) -> Expression:
        operator = _FUNCTIONS.get(name)
        if operator is None:
            raise _unknown_function(self.text, name, span)
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
            more, are = ("", "are") if count > 1 else ("or more " if many else "", "is")
            raise _WRONG["operand-count"](
                self.text, whole, name=name, more=more, are=are, count=count
            )
        return Operation(operator, tuple(operands), whole)

    def _span(self, position: int) -> Span:
        start = self.starts[position]
        return Span(start, start + len(self.tokens[position]))

    def _check_depth(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise _WRONG["too-deep"](self.text, self.span(), limit=MAX_DEPTH)

    def _refuse_many(self) -> None:
        words = [i for i, t in enumerate(self.tokens) if t.isidentifier() or t.isdecimal()]
        if len(words) > MAX_OPERANDS:
            at = self._span(words[MAX_OPERANDS])
            raise _WRONG["too-many-operands"](self.text, at, limit=MAX_OPERANDS)

    def _refuse_large(self, expression: Expression) -> None:
        """Walks the tree without recursion; raises where it is too high or has too large powers."""
        todo = [(expression, 1, 1)]
        while todo:
            node, height, degree = todo.pop()
            if not isinstance(node, Operation):
                continue
            if height > MAX_HEIGHT:
                raise _WRONG["too-many-operations"](self.text, node.span, limit=MAX_HEIGHT)
            if node.operator is Operator.POWER:
                base, exponent = node.operands
                assert isinstance(exponent, Literal)
                degree *= max(exponent.value, 1)
                if degree > MAX_DEGREE:
                    raise _WRONG["power-too-large"](self.text, expression.span, limit=MAX_DEGREE)
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


_CACHED_CHARACTERS = 64
"""Longer texts are read each time, so that hostile ones cannot fill the memory."""
_LIST = re.compile(r"\s*(?:\[([^][]*)\]|torch\.Size\(\s*\[([^][]*)\]\s*\))\s*")
"""A shape as Python prints a list, or torch a shape."""
_BETWEEN = re.compile(r"[\s,;\u00d7]+(?:[xX]\s+)?|(?<=[0-9])[xX](?=[0-9])")
_UNSEPARATED = ("no-operator", "bad-name", "unknown-character")
_WORD = re.compile(r"\w{1,20}")
"""What people write between dimensions, and the dimensions that they write so."""
_COMPARISONS = {comparison.value: comparison for comparison in Comparison}


def read_dimension(text: str) -> Expression:
    """Returns the tree of one dimension.

    Raises AnnotationError, with the place and what would work, for text that is none.

    >>> str(read_dimension("(s + 7)//8*8"))
    '(s + 7)//8*8'
    """
    return _dimension(text) if _is_short(text) else parse_dimension(text)


def read_shape(text: str) -> tuple[Expression, ...]:
    """Returns the trees of a shape's dimensions. ``""`` and ``"()"`` are the scalar's shape.

    Dimensions stand between commas. Brackets around the whole, round or square, and a comma at the
    end are allowed, and so is what torch prints. Raises AnnotationError like `read_dimension`;
    the hint writes ``2 3 4``, ``2x3x4`` and ``b; s`` with commas.

    >>> [str(dim) for dim in read_shape("8*s, k")], read_shape("()")
    (['8*s', 'k'], ())
    >>> [[str(dim) for dim in read_shape(text)] for text in ("[2, s]", "torch.Size([2, 3])")]
    [['2', 's'], ['2', '3']]
    """
    return _shape(text) if _is_short(text) else parse_shape(text)


def read_relation(text: str) -> Relation:
    """Returns the tree of one fact or claim, which is exactly one comparison.

    Raises AnnotationError like `read_dimension`, and for a chain of comparisons, which
    `read_relations` reads.

    >>> read_relation("k % 64 == 0").comparison
    <Comparison.EQ: '=='>
    """
    relations = read_relations(text)
    if len(relations) > 1:
        raise _WRONG["chained-comparison"](text, relations[1].span)
    return relations[0]


def read_relations(text: str) -> tuple[Relation, ...]:
    """Returns the trees of one or more comparisons; a chain means what it means in Python.

    Raises AnnotationError like `read_dimension`.

    >>> [str(relation) for relation in read_relations("1 <= s <= 8")]
    ['1 <= s', 's <= 8']
    """
    return _relations(text) if _is_short(text) else parse_relations(text)


def parse_dimension(text: str) -> Expression:
    """Returns what `read_dimension` returns, and reads the text each time."""
    parser = Parser(text)
    expression = parser.expression()
    parser.expect("")
    return expression


def parse_shape(text: str) -> tuple[Expression, ...]:
    """Returns what `read_shape` returns, and reads the text each time."""
    plain, listed = text, _LIST.fullmatch(text)
    if listed is not None:  # spaces for its brackets: places stay
        before, after = listed.span(listed.lastindex or 0)
        plain = " " * before + text[before:after] + " " * (len(text) - after)
    try:
        return _dims(plain)
    except AnnotationError as error:
        diagnostic = replace(error.diagnostic, text=text)
        if diagnostic.code not in _UNSEPARATED:
            raise AnnotationError(diagnostic) from None
        words = [word for word in _BETWEEN.split(plain.strip().strip("()")) if word]
        if len(words) > 1 and all(_WORD.fullmatch(word) for word in words):
            hint = f"write commas between the dimensions: {shown(', '.join(words), 60)}"
            diagnostic = replace(diagnostic, hint=hint)
        raise AnnotationError(diagnostic) from None


def _dims(text: str) -> tuple[Expression, ...]:
    parser = Parser(text)
    closing = ")" if _is_bracketed(parser.tokens) else ""
    opened = parser.span()
    if closing:
        parser.expect("(")
    dims: list[Expression] = []
    while parser.token() != closing:
        dims.append(parser.expression())
        if parser.token() != ",":
            break
        parser.expect(",")
    if closing:
        parser.expect(closing, opened)
    parser.expect("")
    return tuple(dims)


def parse_relations(text: str) -> tuple[Relation, ...]:
    """Returns what `read_relations` returns, and reads the text each time."""
    parser = Parser(text)
    start = parser.span().start
    left = parser.expression()
    relations: list[Relation] = []
    while comparison := _COMPARISONS.get(parser.token()):
        parser.expect(comparison.value)
        next_start = parser.span().start
        right = parser.expression()
        relations.append(Relation(left, comparison, right, text, parser.since(start)))
        left, start = right, next_start
    parser.expect("")
    if not relations:
        end = len(text.rstrip())
        raise _WRONG["no-comparison"](text, Span(end, end))
    return tuple(relations)


_dimension = lru_cache(maxsize=1024)(parse_dimension)
_shape = lru_cache(maxsize=1024)(parse_shape)
_relations = lru_cache(maxsize=1024)(parse_relations)


def _is_short(text: str) -> bool:
    if not isinstance(text, str):
        raise wrong_type(
            "the dimension, shape, fact or claim",
            text,
            "a text",
            "write it in the dimension language, such as '8*s' or 'k % 64 == 0'",
        )
    return len(text) <= _CACHED_CHARACTERS


def _is_bracketed(tokens: list[str]) -> bool:
    """Says whether brackets surround a whole shape: ``(a, b)`` and ``()``, but not ``(a)*(b)``."""
    if tokens[0] != "(" or tokens[-2] != ")":
        return False
    depth = 0
    commas = 0
    for position, token in enumerate(tokens[:-1]):
        depth += (token == "(") - (token == ")")
        commas += token == "," and depth == 1
        if depth == 0 and position < len(tokens) - 2:
            return False
    return commas > 0 or len(tokens) == 3
