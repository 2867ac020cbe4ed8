"""`verify`: does an annotation tell the truth? The function is run whole and split, and compared.

    verify(matmul_bias)        "m k+, n k+, n -> m n", the function is x @ w.T + bias
    'k' split into 2 parts: output 0 is off by 0.94 of its largest element
      hint: input 2 ('bias') is a summand: write value_split=("bias",)

Every identifier that may be split is: into 2, 3 and 4 parts, alone and beside every other, on
several mesh axes at once, in one process and in float64. Outputs, the gradients of all inputs, and
inputs that are written to must be equal to the whole. Inputs come from the caller, from the
library's examples, from the operator's own ``input_gen_fn``, or are made from the annotation
(`dimsolve.exec.verification.sample_inputs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dimsolve.ir.errors import Diagnostic, OperatorError
from dimsolve.ir.operator import Operator
from dimsolve.ir.registry import operator_of
from dimsolve.partition.transforms import with_rules
from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.paths import path_of

from ..arguments import Arguments
from ..registration.promise import Promise
from ..resolve import resolve
from .check_splits import CheckSplits
from .fixed_random import fixed_random
from .sampled_calls import check_samples
from .verification import Verification

Example = tuple[Sequence[Any], Mapping[str, Any]]


def verify(
    target: Callable[..., Any] | Operator | str,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    examples: Iterable[Example] | None = None,
    counts: Sequence[int] = (2, 3, 4),
    seed: int = 0,
    device: str = "cpu",
) -> Verification:
    """Returns whether an operator's annotation holds, and which identifier lies, by how much.

    target: a registered function, an autograd.Function or its ``apply``, a function of the library
    or its path (``"torch.matmul"``), ``"module:function"``, or an Operator. args, kwargs: of one
    call; examples: several calls ``(args, kwargs)``; else inputs are made. Floating tensors are
    given as float64. counts: the numbers of parts; of a given call they split what they divide.
    device: where inputs are made. The answer is the same each time, and random numbers elsewhere go
    on as if nothing had run.

    Raises OperatorError for a target that nothing is known of, or whose inputs cannot be made.
    """
    operator = operator_for(target)
    given: list[Example] = list(examples or ())
    if args is not None or kwargs is not None:
        given.append((args or (), kwargs or {}))
    if not given and not isinstance(operator.declare, Promise):
        given = library_examples(operator)
    check = CheckSplits(operator.path, tuple(counts), seed)
    with fixed_random(seed):
        if given:
            for positional, named in given:
                check.call(operator, Arguments(tuple(positional), dict(named)))
        else:
            check_samples(operator, check, device)
    return check.verification()


def operator_for(target: Any) -> Operator:
    """Returns the operator that a function, a class or a path names. Raises OperatorError."""
    if isinstance(target, Operator):
        return target
    if isinstance(target, str):
        path = target.replace(":", ".")
        found = find_operator(path)
        if found is None:
            value = resolve(path)
            found = operator_of(value)
            if found is None and callable(value):
                found = find_operator(path_of(value))
    else:
        found = operator_of(target) or find_operator(path_of(target))
    if found is None:
        raise _unknown(target)
    return with_rules(found)


def library_examples(operator: Operator) -> list[Example]:
    """Returns the example calls that the library has for an operator."""
    from dimsolve.solver.library import examples

    found: list[Example] = list(examples(operator.path))
    if not found:
        raise _no_inputs(operator)
    return found


def _unknown(target: Any) -> OperatorError:
    name = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
    return OperatorError(
        Diagnostic(
            code="unknown-operator",
            title="nothing is known of this function",
            reason=f"'{name}' is neither registered nor in the library",
            hint='register it: ds.register_op("m k+, k+ n -> m n")(function)',
        )
    )


def _no_inputs(operator: Operator) -> OperatorError:
    return OperatorError(
        Diagnostic(
            code="no-inputs",
            title="there are no inputs to run on",
            reason=f"'{operator.name}' has no examples, and its declaration is not an annotation",
            hint="give a call: verify(target, args=(x, w))",
        )
    )
