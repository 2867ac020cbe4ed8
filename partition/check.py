"""`check`: may this identifier be split into so many parts, and what does every rank hold then?

The answer is a theorem about all values that satisfy the facts: *legal*; or the exact condition
under which it is: *conditional*; or *illegal*, with an evaluated counterexample where a length is
to blame; or *unknown*, with what was left to show.

    check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8)        conditional: k % 8 == 0
        inputs S(1), S(0)    outputs P(sum)    local inputs (m, k//8), (k//8, n)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict

from dimsolve.ir.annotation import Annotation
from dimsolve.ir.expression import Relation
from dimsolve.ir.wrong_types import wrong_type
from dimsolve.solver.algebra.poly import Dim, Poly, TooLarge
from dimsolve.solver.infer import Inputs, infer
from dimsolve.solver.parameters import as_whole, to_choice, to_flag
from dimsolve.solver.problems import too_large
from dimsolve.solver.shapes import MAX_NUMBER, dim_of_text, to_dim
from dimsolve.solver.solution import Solution

from .legality import Legality
from .obligations import Obligations
from .placement import Reduction
from .rules import NoRule, whole_rule
from .split import nothing_to_split, split_name
from .transform import TransformRule, choose_rule

_EXPRESSIONS = ("sympy.", "dimsolve.")
"""Where the types of expressions come from."""


def check(
    annotation: str | Annotation,
    inputs: Inputs,
    split: str | tuple[int, int],
    parts: Any,
    *,
    arguments: Mapping[str, Any] | None = None,
    facts: Iterable[str | Relation] = (),
    contiguous: bool = False,
    value_split: Collection[int] = (),
    partial: str = "sum",
) -> Legality:
    """Returns whether ``split`` may be cut into ``parts``, and what every rank holds.

    split: an identifier's name or (index, dim). parts: an int, or a dimension expression for a
    count not yet known. contiguous: allow only layouts in which every rank's part is one run.
    value_split: numbers of the inputs that are summands. partial: what joins the parts of a ``+``
    split (sum, max, min, prod, avg). Raises AnnotationError for a question that cannot be read and
    ShapeError where the inputs can never match; *illegal* is an answer.

    >>> check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8).conditions
    ('k % 8 == 0',)
    """
    solution = infer(annotation, inputs, arguments=arguments, facts=facts)
    return judge(
        solution,
        split,
        parts,
        arguments=arguments or {},
        **to_manner(solution, contiguous, value_split, partial),
    )


class Manner(TypedDict):
    """How a split is meant, beside what is split and into how many."""

    contiguous: bool
    value_split: tuple[int, ...]
    reduction: Reduction


def to_manner(solution: Solution, contiguous: Any, value_split: Any, partial: Any) -> Manner:
    """Returns the parameters that `check` and `legal_parts` share; AnnotationError for what they
    cannot be.
    """
    word = to_choice("partial", partial, [reduction.value for reduction in Reduction])
    return Manner(
        contiguous=to_flag("contiguous", contiguous),
        value_split=_to_summands(value_split, len(solution.layout.inputs)),
        reduction=Reduction(word),
    )


def _to_summands(value_split: Any, inputs: int) -> tuple[int, ...]:
    what = "a list of input numbers"
    hint = f"inputs are counted from 0; there {'is' if inputs == 1 else 'are'} {inputs}"
    if not isinstance(value_split, Collection) or isinstance(
        value_split, str | bytes | bytearray | Mapping
    ):
        raise wrong_type("value_split", value_split, what, hint)
    try:
        found = [(entry, as_whole(entry)) for entry in value_split]
    except TypeError:  # such as a tensor without dimensions
        raise wrong_type("value_split", value_split, what, hint) from None
    for entry, number in found:
        if number is None or not 0 <= number < inputs:
            raise wrong_type("an entry of value_split", entry, "the number of an input", hint)
    return tuple([number for _, number in found if number is not None])


def judge(
    solution: Solution,
    split: str | tuple[int, int],
    parts: Any,
    *,
    arguments: Mapping[str, Any],
    contiguous: bool = False,
    value_split: Collection[int] = (),
    reduction: Reduction = Reduction.SUM,
    transform_rules: Sequence[TransformRule] = (),
) -> Legality:
    """Returns the Legality of a split of shapes that are inferred already."""
    count = _to_count(parts)
    name = split_name(solution, split)
    if name is None:
        assert not isinstance(split, str)
        return Legality(solution, None, count, "illegal", nothing_to_split(solution, split))
    if isinstance(count, int) and count < 1:
        return Legality(
            solution, name, count, "illegal", f"{count} parts: a count is a positive integer"
        )
    try:
        rule = choose_rule(
            solution,
            name,
            transform_rules=transform_rules,
            value_split=value_split,
            reduction=reduction,
        )
    except TooLarge:
        raise too_large(solution.text) from None
    if isinstance(rule, NoRule) and count == 1:
        rule = whole_rule(solution, name)
    if isinstance(rule, NoRule):
        return Legality(solution, name, count, "illegal", rule.reason)
    obligations = Obligations(solution, rule, count, contiguous)
    try:
        return obligations.answer(tuple(arguments.items()))
    except TooLarge:
        return obligations.undecided(tuple(arguments.items()))


def _to_count(parts: Any) -> Dim:
    """The count as a Dim; that it must be positive is an obligation, not a matter of type."""
    count: Dim | None = None
    if isinstance(parts, str):
        count = dim_of_text(parts) if parts.strip() else None
    elif isinstance(parts, Poly) or str(type(parts).__module__).startswith(_EXPRESSIONS):
        count = to_dim(parts, "parts")
    else:
        count = as_whole(parts)
    if count is None or (isinstance(count, int) and abs(count) >= MAX_NUMBER):
        hint = 'give a positive integer, or a dimension expression such as "n"'
        raise wrong_type("parts", parts, "a count", hint)
    return count
