"""`verify`: does an annotation tell the truth? The function is run whole and split, and compared.

    verify(matmul_bias)        "m k+, n k+, n -> m n", the function is x @ w.T + bias
    'k' split into 2 parts: output 0 is off by 0.94 of its largest element
      hint: input 2 ('bias') is a summand: write value_split=("bias",)

Every identifier that may be split is: into 2, 3 and 4 parts, of several lengths, alone and beside
every other, on several mesh axes at once, in one process and in float64. Outputs, the gradients of
all inputs, and inputs that are written to must be equal to the whole. Inputs come from the caller,
from the library's examples, from the operator's own ``input_gen_fn``, or are made from the
annotation (`dimsolve.exec.verification.sample_inputs`). What was not run is told in notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from dimsolve.ir.errors import Diagnostic, DimsolveError, OperatorError
from dimsolve.ir.operator import Operator

from ..arguments import Arguments
from ..registration.promise import Promise
from .check_splits import CheckSplits
from .find_target import operator_for
from .fixed_random import fixed_random
from .given import Example, read_given
from .lengths import OTHER_PARTS
from .not_run import not_run
from .sampled_calls import check_samples
from .verification import Verification


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
    given as float64. counts: the numbers of parts, 2 or more; of a given call they split what they
    divide. device: where inputs are made. The answer is the same each time, and random numbers
    elsewhere go on as if nothing had run.

    Raises OperatorError for a target that nothing is known of, or whose inputs cannot be made, and
    AnnotationError for parameters that cannot be read.
    """
    given = read_given(args, kwargs, examples, counts, seed, device)
    operator = operator_for(target)
    check = CheckSplits(operator.path, given.counts, given.seed)
    calls = given.examples
    shortest: tuple[int, ...] = ()
    if not calls and not isinstance(operator.declare, Promise):
        calls, shortest = library_examples(operator, given.device), OTHER_PARTS
    with fixed_random(given.seed):
        if calls:
            for positional, named in calls:
                _check_call(check, operator, Arguments(tuple(positional), dict(named)), shortest)
        else:
            check_samples(operator, check, given.device)
    for note in not_run(operator, given.examples):
        check.note(note)
    return check.verification()


def _check_call(
    check: CheckSplits, operator: Operator, arguments: Arguments, shortest: tuple[int, ...]
) -> None:
    """Checks a given call. Raises OperatorError where the function does not run on it."""
    try:
        check.call(operator, arguments, shortest)
    except DimsolveError:
        raise
    except Exception as error:
        raise _does_not_run(operator, error) from error


def library_examples(operator: Operator, device: str = "cpu") -> list[Example]:
    """Returns the example calls that the library has for an operator, their tensors on a device."""
    from dimsolve.solver.library import examples

    found: list[Example] = []
    for args, kwargs in examples(operator.path):
        call = Arguments(args, kwargs)
        moved: dict[Any, Tensor] = {
            place: tensor.detach().to(device).requires_grad_(tensor.requires_grad)
            for place, tensor in call.tensors()
            if device != "cpu"
        }
        call = call.with_values(moved)
        found.append((call.args, call.kwargs))
    if not found:
        raise _no_inputs(operator)
    return found


def _does_not_run(operator: Operator, error: Exception) -> OperatorError:
    first = str(error).partition("\n")[0]
    return OperatorError(
        Diagnostic(
            code="call",
            title="the function does not run on the given call",
            reason=f"'{operator.name}' raised {type(error).__name__}: {first}",
            hint="give the arguments of a call that runs: verify(target, args=(x, w), kwargs={})",
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
