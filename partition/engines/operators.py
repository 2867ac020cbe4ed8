"""An operator's rule in the words of other engines: DTensor's strategies, Shardy, JAX.

    to_shardy("m k+, k+ n -> m n", ["8, 4", "4, 6"])
    .text    #sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=4, k=6} reduction={j}>
    .rule    m k, k n -> m n                    as jax's custom_partitioning takes it

    register_sharding(torch.ops.mylib.mm.default)(to_register_sharding("m k+, k+ n -> m n"))

A name is a factor there. What is summed (``+``) is a reduction factor; what may not be cut (``^``,
numbers, a name that no output has) must be replicated. What these engines have no word for is
refused: a ``?``, a name that stands twice in one tensor, summands beside a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dimsolve.ir.annotation import Mark
from dimsolve.ir.errors import OperatorError, Problem
from dimsolve.ir.operator import Declaration, Operator, operator_of
from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.names import full_path
from dimsolve.solver.infer import infer_sizes
from dimsolve.solver.layout import Pattern, names_in
from dimsolve.solver.solution import Solution

from ..placement import Partial, Placement, Reduction, Shard
from ..rules.rule import NoRule, choose_rule
from ..rules.table import rules_of
from ..torch_placements import to_torch

NOT_SAID = Problem(
    OperatorError,
    "cannot-say",
    "the operator cannot be said as {format}",
    "{reason}",
    "{hint}",
)


@dataclass(frozen=True, slots=True)
class Shardy:
    """A sharding rule. rule: for jax's ``custom_partitioning``, with ``factor_sizes``: of factors
    that are no whole dimension anywhere. sizes: of all factors; reduction, replicated: those that
    are summed, and those that must not be cut.
    """

    rule: str
    text: str
    sizes: Mapping[str, int]
    factor_sizes: Mapping[str, int]
    reduction: tuple[str, ...] = ()
    replicated: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def to_shardy(
    annotation: str, inputs: Any = None, *, arguments: Mapping[str, Any] | None = None
) -> Shardy:
    """Returns the operator's sharding rule. inputs: shapes of numbers, as for `dimsolve.infer`.

    Raises OperatorError for what Shardy has no word for, and where a length is no number.

    >>> print(to_shardy("(h t) k+, k+ n -> h t n", ["6, 4", "4, 5"], arguments={"h": 2}))
    #sdy.op_sharding_rule<([ij, k], [k, l])->([i, j, l]) {i=2, j=3, k=4, l=5} reduction={k}>
    """
    solution = infer_sizes(annotation, inputs, arguments=arguments)
    layout = solution.layout
    rows = (*layout.inputs, *layout.outputs)
    if any(row is None for row in rows):
        raise _cannot("Shardy", "an operand is '?'", "give every operand its dimensions")
    if not layout.inputs:
        reason = "it has no operand, and Shardy reads no rule without one"
        raise _cannot("Shardy", reason, "shard what it makes where it is used")
    names = _Factors(solution)
    factors = [names.of(row or ()) for row in rows]
    for number, row in enumerate(factors):
        every = [name for dim in row for name in dim]
        if len(set(every)) < len(every):
            reason = f"a name stands twice in operand {number}"
            raise _cannot("Shardy", reason, "Shardy has one place for a factor in a tensor")
    count = len(layout.inputs)
    used = dict.fromkeys(name for row in factors for dim in row for name in dim)
    outputs = {name for row in factors[count:] for dim in row for name in dim}
    reduction, replicated = [], []
    for name in used:
        mark = layout.marks.get(name, Mark.FROZEN)
        if mark.joins and name not in outputs:
            reduction.append(name)
        elif (
            mark.joins
            or not mark.splits
            or any(name not in {n for dim in row for n in dim} for row in factors[count:])
        ):
            replicated.append(name)
    letters = dict(zip(used, _letters(), strict=False))
    sizes = {name: names.sizes[name] for name in used}
    parts = [", ".join(f"{letters[name]}={sizes[name]}" for name in used)]
    texts = [
        "[" + ", ".join("".join(letters[n] for n in dim) for dim in row) + "]" for row in factors
    ]
    sides = f"({', '.join(texts[:count])})->({', '.join(texts[count:])})"
    extra = [
        f" {word}={{{', '.join(letters[name] for name in chosen)}}}"
        for word, chosen in (("reduction", reduction), ("need_replication", replicated))
        if chosen
    ]
    text = f"#sdy.op_sharding_rule<{sides} {{{parts[0]}}}{''.join(extra)}>"
    written = [" ".join(map(_compound, row)) for row in factors]
    rule = f"{', '.join(written[:count])} -> {', '.join(written[count:])}"
    alone = {dim[0] for row in factors for dim in row if len(dim) == 1}
    needed = {name: size for name, size in sizes.items() if name not in alone}
    return Shardy(rule, text, sizes, needed, tuple(reduction), tuple(replicated))


class _Factors:
    """The factors of dimensions: names, and one for every number."""

    def __init__(self, solution: Solution) -> None:
        self.sizes: dict[str, int] = {}
        for name, length in solution.values.items():
            if not isinstance(length, int):
                reason = f"the length of {name} is {length}, no number"
                raise _cannot("Shardy", reason, "give the inputs their shapes: '8, 4'")
            self.sizes[name] = length

    def of(self, row: tuple[Pattern, ...]) -> list[tuple[str, ...]]:
        """The factors of every dimension of a tensor; a dimension of one element has one too."""
        return [tuple(map(self._factor, pattern.atoms or (1,))) for pattern in row]

    def _factor(self, atom: str | int) -> str:
        if isinstance(atom, str):
            return atom
        name = f"number{len(self.sizes)}"
        self.sizes[name] = atom
        return name


def _compound(factors: tuple[str, ...]) -> str:
    return factors[0] if len(factors) == 1 else f"({' '.join(factors)})"


def _letters() -> list[str]:
    """Shardy's own names of factors: i to z, then z_1, z_2, ..."""
    first = [chr(code) for code in range(ord("i"), ord("z") + 1)]
    return [*first, *(f"z_{number}" for number in range(1, 512))]


def _cannot(format: str, reason: str, hint: str) -> OperatorError:
    return NOT_SAID(format=format, reason=reason, hint=hint)


Strategy = list[tuple[list[Any], list[Any]]]


def to_register_sharding(operator: Any) -> Callable[..., Strategy]:
    """Returns the function that `torch.distributed.tensor.experimental.register_sharding` takes.

    operator: an annotation, a registered operator, or a path of the library, ``"torch.mm"``. The
    function gives all placements along one mesh axis that the operator's rules prove, for any
    number of ranks, which need not divide lengths: a dimension that is a product is cut where only
    one of its factors is longer than 1, and one that a mean is taken over is not. Raises
    OperatorError for an operator that draws random numbers or writes to its inputs.
    """
    found = _operator(operator)

    def shardings(*args: Any, **kwargs: Any) -> Strategy:
        import torch

        given = [_meta(torch, value) for value in args]
        named = {name: _meta(torch, value) for name, value in kwargs.items()}
        values = [leaf for value in (*given, *named.values()) for leaf in _leaves(value)]
        sized: set[str] = set()
        if found is None:
            tensors = [value for value in values if hasattr(value, "shape")]
            shapes: list[Any] = [tuple(value.shape) for value in tensors]
            solution = infer_sizes(operator, shapes)
            split: dict[str, Any] = {}
        else:
            declaration = found.declare(*given, **named)
            if declaration.random:
                reason = f"{found.name} draws random numbers, each rank its own"
                raise _cannot("DTensor", reason, "draw them outside, and give them as an input")
            tensors = list(declaration.inputs)
            shapes = [None if t is None else tuple(t.shape) for t in tensors]
            solution = infer_sizes(
                declaration.annotation, shapes, arguments=dict(declaration.arguments)
            )
            split = {
                "value_split": declaration.value_split,
                "reduction": Reduction(declaration.reduction),
                "transform_rules": (
                    *declaration.transform_rules,
                    *rules_of(found.path, declaration),
                ),
            }
            if declaration.frozen or _set_anew(found, declaration, args, kwargs):
                return [_row([], [], solution, values, tensors)]
            star = solution.layout.star
            sized = {n for text in declaration.sizes.values() for n in _names_of(text, star)}
        rows = [_row([], [], solution, values, tensors)]
        for name in solution.layout.marks:
            rule = choose_rule(solution, name, **split)
            if isinstance(rule, NoRule) or solution.values[name] == 1 or name in sized:
                continue
            local = rule.transform is not None and (rule.transform.local or rule.transform.modifier)
            # Parts of unequal lengths have means that do not weigh the same.
            means = any(p == Partial(Reduction.AVG) for p in rule.outputs)
            if not local and not means and _sole((*rule.inputs, *rule.outputs), solution):
                rows.append(_row(rule.inputs, rule.outputs, solution, values, tensors))
        return rows

    return shardings


def _operator(operator: Any) -> Operator | None:
    """The operator; None for an annotation. OperatorError where it has no pure result."""
    if isinstance(operator, str) and "->" in operator:
        return None
    known = operator_of(operator)
    if known is None and isinstance(operator, str):
        known = find_operator(operator if "." in operator else full_path(operator))
    if known is None:
        raise _cannot("DTensor", f"{operator!r:.80} is no operator", "give an annotation or a path")
    if known.mutates:
        raise _cannot("DTensor", f"{known.name} writes to its inputs", "register its pure variant")
    return known


def _meta(torch: Any, value: Any) -> Any:
    """A tensor without data in place of what DTensor passes for one."""
    if type(value) in (list, tuple):
        return type(value)(_meta(torch, item) for item in value)
    meta = getattr(value, "tensor_meta", None)
    if meta is None:
        return value
    return torch.empty(tuple(meta.shape), dtype=meta.dtype, device="meta")


def _leaves(value: Any) -> list[Any]:
    """What DTensor has a placement for, of one argument: a list of tensors has one for each."""
    if isinstance(value, list | tuple) and any(hasattr(item, "shape") for item in value):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _names_of(text: str, star: tuple[str, ...]) -> tuple[str, ...]:
    """The identifiers of a size argument: DTensor passes the whole's sizes to every rank."""
    return (*names_in(f"-> {text}"), *(star if "*" in text else ()))


def _set_anew(
    found: Operator, declaration: Declaration, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a rank's call must pass a parameter that this one leaves to its default."""
    given = {**dict(zip(found.parameters, args, strict=False)), **kwargs}
    fixed = declaration.fixed.items()
    return any(value not in (given.get(name), (given.get(name),)) for name, value in fixed)


def _sole(placements: tuple[Placement, ...], solution: Solution) -> bool:
    """Whether every cut dimension is one factor: parts of it are parts of that, of any count."""
    layout = solution.layout
    for placement, row in zip(placements, (*layout.inputs, *layout.outputs), strict=True):
        if isinstance(placement, Shard):
            if row is None or not placement.contiguous:
                return False
            pattern = row[placement.dim]
            lengths = [a if isinstance(a, int) else solution.values[a] for a in pattern.atoms]
            if sum(length != 1 for length in lengths) > 1:
                return False
    return True


def _row(
    inputs: Any, outputs: Any, solution: Solution, given: list[Any], tensors: list[Any]
) -> tuple[list[Any], list[Any]]:
    """The placements of all outputs and of all arguments, named ones last, None for what is no
    tensor.
    """
    import torch.distributed.tensor as dt

    made = [to_torch(p) for p in outputs] or [dt.Replicate() for _ in solution.layout.outputs]
    placed = {
        id(tensor): to_torch(placement)
        for tensor, placement in zip(tensors, inputs, strict=bool(inputs))
        if tensor is not None
    }
    return made, [
        placed.get(id(value), dt.Replicate()) if hasattr(value, "shape") else None
        for value in given
    ]
