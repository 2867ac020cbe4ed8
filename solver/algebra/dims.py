"""Lengths with floors, remainders, minima and maxima.

What no polynomial can express becomes an atom of its own, a `Call`. Making one applies only
rewrites that hold for all lengths wherever the call has a value (it has none where a divisor is
0): constants fold, exact quotients divide, a known multiple of the divisor leaves the floor, a
floor of a floor is one floor. Everything deeper is a proof, not a normal form, and lives in
`dimsolve.solver.proof.prove`.

    (4*a + 7)//4  ->  a + 1          (6*a)//4  ->  (3*a)//2          max(a, 3, 2, a)  ->  max(3, a)
    (a//b)//c  ->  a//(b*c)          (2*a + 1)//4  ->  a//2

`from_expression` makes a length of what was written. Its work is counted: text is short, and what
it stands for need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from math import gcd
from typing import assert_never

from dimsolve.ir.expression import Expression, Literal, Name, Operation, Operator, terms

from .budget import Budget, OutOfBudgetError
from .poly import (
    MAX_BITS,
    MAX_TERMS,
    UNIT,
    Dim,
    Monomial,
    Poly,
    TooLarge,
    atoms_of,
    build,
    content,
    divide_exactly,
    symbol,
    terms_of,
)

MAX_TEXT = 16_384
READ_STEPS = 12_000


class Function(Enum):
    """The closed set of functions that stay as atoms."""

    FLOORDIV = "//"
    MOD = "%"
    CEILDIV = "ceildiv"
    MIN = "min"
    MAX = "max"


class Call(str):
    """An atom that is a function of Dims: a string, whose canonical text is its identity.

    >>> call = next(iter(atoms_of(floor_div(symbol("a") + 1, 2))))
    >>> call, call.function.value, [str(a) for a in call.arguments]
    ('((a + 1)//2)', '//', ['a + 1', '2'])
    """

    __slots__ = ("arguments", "function")

    function: Function
    arguments: tuple[Dim, ...]

    def __new__(cls, function: Function, arguments: tuple[Dim, ...]) -> Call:
        text = _call_text(function, arguments)
        if len(text) > MAX_TEXT:
            raise TooLarge
        self = super().__new__(cls, text)
        self.function = function
        self.arguments = arguments
        return self


def _call_text(function: Function, arguments: tuple[Dim, ...]) -> str:
    match function:
        case Function.FLOORDIV | Function.MOD:
            sign = "//" if function is Function.FLOORDIV else " % "
            return f"({_operand_text(arguments[0], left=True)}{sign}{_operand_text(arguments[1])})"
        case Function.CEILDIV | Function.MIN | Function.MAX:
            return f"{function.value}({', '.join(str(argument) for argument in arguments)})"
        case _:
            assert_never(function)


def _operand_text(dim: Dim, *, left: bool = False) -> str:
    """Brackets where reading needs them: ``8*s`` is bare only on the left of ``//``."""
    if isinstance(dim, int):
        return str(dim) if dim >= 0 else f"({dim})"
    (monomial, coefficient), *more = dim.terms.items()
    if not more and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
        return str(monomial[0][0])
    bare = (
        left and not more and coefficient > 0 and not any(isinstance(a, Call) for a, _ in monomial)
    )
    return str(dim) if bare else f"({dim})"


def floor_div(a: Dim, b: Dim) -> Dim:
    """Returns a // b, rounded down. Raises ZeroDivisionError where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = divide_exactly(a, b)
    if exact is not None:
        return exact
    # Parameters of a proof, which begin with $, may have any sign.
    positive = surely_positive(b) and not any(atom.startswith("$") for atom in atoms_of(b))
    inner = _inner_floor(a) if positive else None
    if inner is not None:
        x, y, k = inner
        return floor_div(x + k * y, y * b)
    if isinstance(b, int):
        if b < 0:
            a, b = -a, -b
        whole = {m: c // b for m, c in terms_of(a).items() if c // b and (c % b == 0 or not m)}
        rest = a - build(whole) * b if whole else a
        constant = terms_of(rest).get(UNIT, 0)
        common = gcd(content(rest - constant), b)
        rest = rest - constant % common
        return build(whole) + _floor_atom(_divided(rest, common), b // common)
    common_content = gcd(content(a), content(b))
    if common_content > 1:
        a, b = _divided(a, common_content), _divided(b, common_content)
    return _floor_atom(a, b)


def _inner_floor(a: Dim) -> tuple[Dim, Dim, Dim] | None:
    """(x, y, k) where a is x//y + k: then a//b is (x + k*y)//(y*b) for every b >= 1."""
    calls = [atom for atom in atoms_of(a) if isinstance(atom, Call)]
    if len(calls) != 1 or calls[0].function is not Function.FLOORDIV:
        return None
    call = calls[0]
    rest = a - symbol(call)
    if call in atoms_of(rest):
        return None
    x, y = call.arguments
    return x, y, rest


def surely_positive(dim: Dim) -> bool:
    """Whether a length is at least 1 at a glance: a sum of positive terms without calls.

    >>> surely_positive(8 * symbol("s") + 1), surely_positive(symbol("s") - 1)
    (True, False)
    """
    if isinstance(dim, int):
        return dim >= 1
    for monomial, coefficient in dim.terms.items():
        if coefficient < 0:
            return False
        for atom, _ in monomial:
            if atom.__class__ is not str:
                return False
    return True


def _divided(dim: Dim, by: int) -> Dim:
    quotient = divide_exactly(dim, by)
    assert quotient is not None
    return quotient


def _floor_atom(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    return symbol(Call(Function.FLOORDIV, (a, b)))


def mod(a: Dim, b: Dim) -> Dim:
    """Returns a % b, with the sign of b. Raises ZeroDivisionError where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if divide_exactly(a, b) is not None:
        return 0
    if isinstance(b, int) and b > 0:
        a = build({m: c % b for m, c in terms_of(a).items() if c % b})
        if isinstance(a, int):
            return a % b
    return symbol(Call(Function.MOD, (a, b)))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """Returns a / b, rounded up. Raises ZeroDivisionError where b is 0."""
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    exact = divide_exactly(a, b)
    return exact if exact is not None else symbol(Call(Function.CEILDIV, (a, b)))


def minimum(*dims: Dim) -> Dim:
    """Returns the least of one or more Dims."""
    return _extremum(Function.MIN, dims)


def maximum(*dims: Dim) -> Dim:
    """Returns the greatest of one or more Dims."""
    return _extremum(Function.MAX, dims)


def _extremum(function: Function, dims: tuple[Dim, ...]) -> Dim:
    flat: list[Dim] = []
    for dim in dims:
        atom = next(iter(atoms_of(dim)), None)
        if isinstance(atom, Call) and atom.function is function and dim == symbol(atom):
            flat.extend(atom.arguments)
        else:
            flat.append(dim)
    numbers = [dim for dim in flat if isinstance(dim, int)]
    rest: list[Dim] = sorted({dim for dim in flat if isinstance(dim, Poly)}, key=str)
    if numbers:
        rest.insert(0, min(numbers) if function is Function.MIN else max(numbers))
    return rest[0] if len(rest) == 1 else symbol(Call(function, tuple(rest)))


_COMPUTE: dict[Function, Callable[..., Dim]] = {
    Function.FLOORDIV: floor_div,
    Function.MOD: mod,
    Function.CEILDIV: ceil_div,
    Function.MIN: minimum,
    Function.MAX: maximum,
}


def apply(function: Function, arguments: Iterable[Dim]) -> Dim:
    """Returns the function's value, folded and rewritten as making the call again would."""
    return _COMPUTE[function](*arguments)


def line_in_call(dim: Dim) -> tuple[int, Call, int] | None:
    """Returns (slope, call, offset) where dim is slope*call + offset; None for another form.

    >>> line_in_call(2 * mod(symbol("n"), 8) - 3)
    (2, '(n % 8)', -3)
    """
    terms = dict(terms_of(dim))
    offset = terms.pop(UNIT, 0)
    if len(terms) != 1:
        return None
    ((monomial, slope),) = terms.items()
    call = monomial[0][0]
    if monomial != ((call, 1),) or not isinstance(call, Call):
        return None
    return slope, call, offset


def symbols_of(dim: Dim) -> set[str]:
    """Returns the symbols that occur, inside calls too."""
    names: set[str] = set()
    for atom in () if isinstance(dim, int) else atoms_of(dim):
        if isinstance(atom, Call):
            names.update(*(symbols_of(argument) for argument in atom.arguments))
        else:
            names.add(atom)
    return names


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Returns dim with symbols replaced, inside calls too, and folded again.

    Raises ZeroDivisionError where a divisor becomes 0.
    """
    if isinstance(dim, int):
        return dim
    total: Dim = 0
    for monomial, coefficient in dim.terms.items():
        term: Dim = coefficient
        for atom, exponent in monomial:
            if isinstance(atom, Call):
                base = apply(atom.function, [substitute(x, values) for x in atom.arguments])
            else:
                base = values[atom] if atom in values else symbol(atom)
            term = term * base**exponent
        total = total + term
    return total


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """Returns the value at integers for all symbols; ZeroDivisionError where it has none."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, term in dim.terms.items():
        for atom, exponent in monomial:
            if isinstance(atom, Call):
                base = apply(atom.function, [evaluate(x, values) for x in atom.arguments])
                assert isinstance(base, int)
            else:
                base = values[atom]
            term *= base**exponent
        total += term
    return total


def from_expression(expression: Expression) -> Dim:
    """Returns the canonical Dim of what was written.

    Raises ZeroDivisionError for a division by a constant 0 and `solver.poly.TooLarge` past its
    limits.
    """
    try:
        return _from_expression(expression, Budget(READ_STEPS))
    except OutOfBudgetError:
        raise TooLarge from None


def _from_expression(expression: Expression, budget: Budget) -> Dim:
    match expression:
        case Literal(value):
            return value
        case Name(name):
            return symbol(name)
        case Operation(Operator.ADD | Operator.SUBTRACT):
            return _sum(expression, budget)
        case Operation(operator, operands):
            dims = [_from_expression(operand, budget) for operand in operands]
            budget.spend(sum(_size(dim) for dim in dims))
            match operator:
                case Operator.MULTIPLY:
                    return _times(dims[0], dims[1], budget)
                case Operator.NEGATE:
                    return -dims[0]
                case Operator.POWER:
                    return _power(dims[0], dims[1], budget)
                case _:
                    return apply(Function(operator.value), dims)
        case _:
            assert_never(expression)


def _sum(expression: Expression, budget: Budget) -> Dim:
    """All terms at once: adding them one by one would copy the sum at each."""
    total: dict[Monomial, int] = {}
    for sign, term in terms(expression):
        dim = _from_expression(term, budget)
        budget.spend(_size(dim))
        for monomial, coefficient in terms_of(dim).items():
            part = coefficient if sign is Operator.ADD else -coefficient
            total[monomial] = total.get(monomial, 0) + part
    if len(total) > MAX_TERMS:
        raise TooLarge
    return build({monomial: c for monomial, c in total.items() if c})


def _size(dim: Dim) -> int:
    return 1 if isinstance(dim, int) else len(dim.terms)


def _power(base: Dim, exponent: Dim, budget: Budget) -> Dim:
    assert isinstance(exponent, int)
    result: Dim = 1
    for _ in range(exponent):
        result = _times(result, base, budget)
    return result


def _times(a: Dim, b: Dim, budget: Budget) -> Dim:
    budget.spend(_size(a) * _size(b))
    result = a * b
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise TooLarge
    return result
