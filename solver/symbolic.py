"""The edge to SymPy: what a user sees is a SymPy expression, what proofs work on is a `Dim`.

A symbol is ``Symbol(name, integer=True, positive=True)``. SymPy's own ``Mod`` and ``floor``
evaluate wrongly already when an expression is made (``Mod(z*(2*x + 2), 6)`` becomes 0), so `Mod`,
`FloorDiv` and `CeilDiv` here are functions of our own that evaluate on integers only. Conversion is
structural in both directions, memoised, and no text is ever given to SymPy but a symbol's name.

    Dim 8*s + (n//3)   <->   8*s + FloorDiv(n, 3)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dimsolve.ir.errors import AnnotationError, Problem

from .algebra.dims import Call, Function, apply, ceil_div, floor_div, maximum, minimum, mod
from .algebra.poly import Dim, Monomial, Poly, symbol

if TYPE_CHECKING:
    import sympy


@lru_cache(maxsize=4096)
def sympy_symbol(name: str) -> sympy.Symbol:
    """Returns the positive integer symbol of this name.

    >>> sympy_symbol("s").is_positive
    True
    """
    from sympy import Symbol

    return Symbol(name, integer=True, positive=True)


_UNREADABLE = Problem(
    AnnotationError,
    "not-a-dimension",
    "this SymPy expression is not a dimension",
    "{expression!s:.80}: {why}",
    'write it as text ("8*s"), or make it of Symbol(name, integer=True, positive=True)',
)
_FLOOR_TEX = r"\left\lfloor \frac{%s}{%s} \right\rfloor"
_CEIL_TEX = r"\left\lceil \frac{%s}{%s} \right\rceil"
_MOD_TEX = r"\left(\left(%s\right) \bmod \left(%s\right)\right)"


@lru_cache(maxsize=1)
def functions() -> dict[Function, Callable[..., Any]]:
    """Returns the SymPy function of each kind of call; made once, when SymPy is first needed."""
    from sympy import Integer, Max, Min
    from sympy.core.function import Function as SympyFunction

    def define(name: str, tex: str, compute: Callable[[Dim, Dim], Dim]) -> Any:
        def eval_(cls: Any, a: Any, b: Any) -> Any:
            if a.is_Integer and b.is_Integer and b != 0:
                return Integer(compute(int(a), int(b)))
            return None

        def latex(self: Any, printer: Any, exp: str | None = None) -> str:
            text = tex % tuple([printer._print(argument) for argument in self.args])
            return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

        body = {
            "eval": classmethod(eval_),
            "nargs": 2,
            "__module__": __name__,
            "is_integer": True,
            "_latex": latex,
        }
        return type(name, (SympyFunction,), body)

    return {
        Function.FLOORDIV: define("FloorDiv", _FLOOR_TEX, floor_div),
        Function.MOD: define("Mod", _MOD_TEX, mod),
        Function.CEILDIV: define("CeilDiv", _CEIL_TEX, ceil_div),
        Function.MIN: lambda *arguments: Min(*arguments, evaluate=False),
        Function.MAX: lambda *arguments: Max(*arguments, evaluate=False),
    }


def __getattr__(name: str) -> Any:
    """Hands out the functions by name, for imports and for pickling."""
    kinds = {"FloorDiv": Function.FLOORDIV, "Mod": Function.MOD, "CeilDiv": Function.CEILDIV}
    if name in kinds:
        return functions()[kinds[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def to_sympy(dim: Dim) -> sympy.Expr:
    """Returns the SymPy expression of a Dim.

    >>> to_sympy(8 * symbol("s") + 1)
    8*s + 1
    """
    return _number_to_sympy(dim) if isinstance(dim, int) else _poly_to_sympy(dim)


@lru_cache(maxsize=8192)
def _number_to_sympy(number: int) -> sympy.Expr:
    from sympy import Integer

    return Integer(number)


@lru_cache(maxsize=8192)
def _poly_to_sympy(dim: Poly) -> sympy.Expr:
    from sympy import Add

    terms = [_term_to_sympy(monomial, c) for monomial, c in dim.terms.items()]
    return terms[0] if len(terms) == 1 else Add(*terms)


def _term_to_sympy(monomial: Monomial, coefficient: int) -> sympy.Expr:
    from sympy import Integer, Mul, Pow

    factors = [_atom_to_sympy(a) if e == 1 else Pow(_atom_to_sympy(a), e) for a, e in monomial]
    if coefficient == 1 and len(factors) == 1:
        return factors[0]
    if len(factors) == 1:
        # A number and one factor are in SymPy's own order already; its constructor costs much more.
        return Mul._from_args((Integer(coefficient), factors[0]))
    return Mul(Integer(coefficient), *factors)


def _atom_to_sympy(atom: str) -> sympy.Expr:
    if isinstance(atom, Call):
        return functions()[atom.function](*(to_sympy(argument) for argument in atom.arguments))
    return sympy_symbol(atom)


@lru_cache(maxsize=8192)
def from_sympy(expression: sympy.Basic) -> Dim:
    """Returns the Dim of an expression of positive integer symbols and our functions.

    Raises AnnotationError for anything else: a symbol with other assumptions, a fraction, SymPy's
    Mod or floor.
    """
    from sympy import Add, Integer, Max, Min, Mul, Pow, Symbol

    match expression:
        case Integer():
            return int(expression)
        case Symbol():
            return _from_symbol(expression)
        case Add() | Mul():
            operands = [from_sympy(argument) for argument in expression.args]
            total = operands[0]
            for operand in operands[1:]:
                total = total + operand if isinstance(expression, Add) else total * operand
            return total
        case Pow(args=(base, Integer() as exponent)) if 0 < exponent <= 16:
            return from_sympy(base) ** int(exponent)
        case Max() | Min():
            dims = [from_sympy(argument) for argument in expression.args]
            return maximum(*dims) if isinstance(expression, Max) else minimum(*dims)
    for function, kind in functions().items():
        if type(expression) is kind:
            return apply(function, map(from_sympy, expression.args))
    why = "it is not made of integers, symbols, + - * **, and dimsolve's own functions"
    raise _UNREADABLE(expression=expression, why=why)


def _from_symbol(expression: Any) -> Dim:
    if expression != sympy_symbol(expression.name):
        why = "its assumptions are not those of dimsolve's symbols"
        raise _UNREADABLE(expression=expression, why=why)
    if not expression.name.isidentifier():
        raise _UNREADABLE(expression=expression, why="its name is not an identifier")
    return symbol(expression.name)
