"""`verify`: does an annotation hold? The function is run whole and split, and compared.

    verify(matmul_bias)        "m k+, n k+, n -> m n", the function is x @ w.T + bias
    'k' split into 2 parts: output 0 is off by 0.94 of its largest element
      hint: input 2 ('bias') is a summand: write value_split=("bias",)

Every identifier that may be split is: into 2, 3 and 4 parts, of several lengths, alone and beside
every other, on several mesh axes at once, in one process and in float64. Outputs, the gradients of
all inputs, and inputs that are written to must be equal to the whole.

    verify.py         what is asked with, checked; the operator that is meant; what was not run
    samples.py        inputs from the annotation, where neither the caller nor the library has any
    whole.py          the call on one device; check_whole.py: its outputs against the annotation
    split_run.py      the same call on all ranks; compare.py: how far its parts are off
    diagnosis.py      which identifier is to blame, and what to write instead
    splits.py         all splits of all calls; verification.py: the answer
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from types import ModuleType
from typing import Any, overload

import torch
from torch import Tensor

from dimsolve.ir.checks import to_whole, written, wrong_type
from dimsolve.ir.errors import DimsolveError, OperatorError, problems
from dimsolve.ir.operator import Operator, operator_of
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.plan import Plan, PlanVerification
from dimsolve.partition.rules.table import with_rules
from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.layout import identifiers_of
from dimsolve.solver.operators import examples as examples_of
from dimsolve.solver.operators import names as known_names

from ..calls import Arguments, resolve
from ..registration.promise import Promise
from .check_whole import lack_of_values
from .samples import OTHER_PARTS, RANKS, STAR_RANKS, has_star
from .splits import CheckSplits, check_samples
from .verification import Verification
from .whole import fixed_random

Example = tuple[Sequence[Any], Mapping[str, Any]]

MOST_PARTS = 1024
"""More parts than this are not run in one process."""

_REGISTER = 'register it: ds.register_op("m k+, k+ n -> m n")(function)'

_REFUSED = problems(
    OperatorError,
    """
    unknown-operator: nothing is known of this function
      '{name}' is neither registered nor in the library
      hint: register it: ds.register_op("m k+, k+ n -> m n")(function)
    unknown-operator (module): this is not a function
      '{target}' is a module, and a function is wanted
      hint: write {target}:function
    unknown-operator (nowhere): there is no such function
      {reason}
      hint: {hint}
    no-inputs (no values): a call cannot be run and split
      argument {place} {lack}
      hint: give tensors that are dense and hold values
    no-inputs: there are no inputs to run on
      '{name}' has no examples, and its declaration is not an annotation
      hint: give a call: verify(target, args=(x, w))
    device: nothing can run on this device
      device is {device}: {message:.120}
      hint: write "cpu", or "cuda" where there is a GPU
    call: the function does not run on the given call
      '{name}' raised {error}: {message}
      hint: give the arguments of a call that runs: verify(target, args=(x, w), kwargs={{}})
    """,
)


@overload
def verify(target: Plan) -> PlanVerification: ...


@overload
def verify(
    target: Callable[..., Any] | Operator | str,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    examples: Iterable[Example] | None = None,
    counts: Sequence[int] = (2, 3, 4),
    seed: int = 0,
    device: str = "cpu",
) -> Verification: ...


def verify(
    target: Callable[..., Any] | Operator | Plan | str,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    examples: Iterable[Example] | None = None,
    counts: Sequence[int] = (2, 3, 4),
    seed: int = 0,
    device: str = "cpu",
) -> Verification | PlanVerification:
    """Returns whether an operator's annotation holds, and which identifier is to blame; of a plan
    that was searched for, whether what it says of its cost, its memory and its bound is true.

    target: a registered function, an autograd.Function or its ``apply``, a function of the library
    or its path (``"torch.matmul"``), ``"module:function"``, or an Operator. args, kwargs: of one
    call; examples: several calls ``(args, kwargs)``; else inputs are made. Floating tensors are
    given as float64. counts: the numbers of parts, 2 or more; of a given call they split what they
    divide. device: where inputs are made. The answer is the same each time, and random numbers
    elsewhere go on as if nothing had run.

    Raises OperatorError for a target that nothing is known of, or whose inputs cannot be made, and
    AnnotationError for parameters that cannot be read.
    """
    if isinstance(target, Plan):
        return target.verification()
    given = _given_calls(args, kwargs, examples)
    seed = to_whole("seed", seed, 0, 2**63 - 2)
    numbers, device = _counts(counts), _device(device)
    operator = operator_for(target)
    check = CheckSplits(operator.path, numbers, seed)
    calls, shortest = given, tuple[int, ...]()
    if not calls and not isinstance(operator.declare, Promise):
        calls, shortest = library_examples(operator, device), OTHER_PARTS
    with fixed_random(seed):
        for arguments in calls:
            _check_call(check, operator, arguments, shortest)
        if not calls:
            check_samples(operator, check, device)
    for note in _not_run(operator, given):
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
        first = str(error).partition("\n")[0]
        name = type(error).__name__
        raise _REFUSED["call"](name=operator.name, error=name, message=first) from error


def library_examples(operator: Operator, device: str = "cpu") -> list[Arguments]:
    """Returns the example calls that the library has for an operator, their tensors on a device."""
    found: list[Arguments] = []
    for args, kwargs in examples_of(operator.path):
        call = Arguments(args, kwargs)
        moved: dict[Any, Tensor] = {
            place: tensor.detach().to(device).requires_grad_(tensor.requires_grad)
            for place, tensor in call.tensors()
            if device != "cpu"
        }
        found.append(call.with_values(moved))
    if not found:
        raise _REFUSED["no-inputs"](name=operator.name)
    return found


def _given_calls(args: Any, kwargs: Any, examples: Any) -> list[Arguments]:
    """The calls that are given. Raises AnnotationError for what is none, and OperatorError for a
    tensor that cannot be split.
    """
    hint = "give calls, such as [((x, w), {})]"
    if not isinstance(examples, Iterable | None) or isinstance(examples, str | Mapping | Tensor):
        raise wrong_type("examples", examples, "a list of calls", hint)
    calls: list[Arguments] = []
    for number, example in enumerate(examples or ()):
        if not isinstance(example, tuple | list) or len(example) != 2:
            raise wrong_type(f"example {number}", example, "a call (args, kwargs)", hint)
        calls.append(_call(example[0], example[1], f" of example {number}"))
    if args is not None or kwargs is not None:
        calls.append(_call(args, kwargs))
    for call in calls:
        for place, tensor in call.tensors():
            if lack := lack_of_values(tensor):
                raise _REFUSED["no-inputs (no values)"](place=".".join(map(str, place)), lack=lack)
    return calls


def _call(args: Any, kwargs: Any, of: str = "") -> Arguments:
    if not isinstance(args, tuple | list | None):
        hint = "give the arguments in a tuple, such as (x, w)"
        raise wrong_type(f"args{of}", args, "a list of arguments", hint)
    if not isinstance(kwargs, Mapping | None) or not all(isinstance(n, str) for n in kwargs or ()):
        hint = 'give the arguments by name, such as {"dim": 0}'
        raise wrong_type(f"kwargs{of}", kwargs, "a mapping of names to arguments", hint)
    return Arguments(tuple(args or ()), dict(kwargs or {}))


def _counts(counts: Any) -> tuple[int, ...]:
    hint = "give the numbers of parts, such as (2, 3, 4)"
    if not isinstance(counts, Iterable) or isinstance(counts, str | bytes | Mapping):
        raise wrong_type("counts", counts, "a list of counts", hint)
    found = tuple(to_whole("a count", count, 2, MOST_PARTS) for count in counts)
    if not found:
        raise wrong_type("counts", counts, "a list of at least one count", hint)
    return tuple(dict.fromkeys(found))


def _device(device: Any) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        first = str(error).partition("\n")[0]
        raise _REFUSED["device"](device=written(device), message=first) from error
    return str(device)


def operator_for(target: Any) -> Operator:
    """Returns the operator that a function, a class, a path or data names. Raises OperatorError.

    ``torch.nn.functional.linear``, ``"torch.matmul"``, ``"ops.py:my_op"``, ``MyFunction.apply``
    """
    if isinstance(target, Operator):
        return target
    found = _at(target) if isinstance(target, str) else _of(target)
    if found is None:
        name = target if isinstance(target, str) else getattr(target, "__name__", written(target))
        raise _REFUSED["unknown-operator"](name=name)
    return with_rules(found)


def _of(function: Any) -> Operator | None:
    return operator_of(function) or find_operator(path_of(function))


def _at(target: str) -> Operator | None:
    path = target.strip().replace(":", ".")
    found = find_operator(path)
    if found is not None:
        return found
    if not all(part.isidentifier() for part in path.split(".")):
        raise _no_function(target)
    try:
        value = resolve(path)
    except DimsolveError as error:
        if "." not in path and find_spec(path):
            raise _REFUSED["unknown-operator (module)"](target=target) from error
        raise _no_function(target) from error
    if isinstance(value, ModuleType):
        raise _REFUSED["unknown-operator (module)"](target=target)
    return _of(value) if callable(value) else None


def _no_function(target: str) -> OperatorError:
    """The error for a path that leads nowhere, with what was probably meant."""
    if not target.strip(" .:"):
        reason, hint = "the target is empty", 'write "torch.matmul", or "module:function"'
    elif target.endswith(".py"):
        reason, hint = f"'{target}' is a file, and a function is wanted", f"write {target}:name"
    else:
        known, last = known_names(), target.rpartition(".")[2]
        close = [path for path in known if path.rpartition(".")[2] == last]
        close = close or get_close_matches(target, known, n=2)
        reason = f"'{target:.80}' can neither be imported nor is it registered"
        hint = f"did you mean {' or '.join(sorted(close, key=len)[:2])}?" if close else _REGISTER
    return _REFUSED["unknown-operator (nowhere)"](reason=reason, hint=hint)


_REST = "inputs that are not contiguous, state that earlier calls leave"
_GIVEN = f"dtypes but float64, {_REST}"
ALWAYS = f"longer inputs, dtypes but float64 and float32, {_REST}"
"""What is never run, in words: of a given call, and of inputs that are made."""


def _not_run(operator: Operator, given: Sequence[Any]) -> Iterator[str]:
    """Yields what was not run, in words: a yes is about what was run, and no more.

    scaled(x: Tensor, *, by: float = 1.0)      not run: other values of by=1.0; longer inputs, ...
    """
    promise = operator.declare
    if given or not isinstance(promise, Promise):
        those = "those of the given call" if given else "those of the library's examples"
        yield f"not run: other lengths and values than {those}; {_GIVEN}"
        return
    annotation = promise.annotation
    names: Iterable[str] = ()
    if isinstance(annotation, str):
        read = read_annotation(annotation)
        names = identifiers_of(read)
        ranks = f"more than {max(STAR_RANKS)} dimensions for '*'" if has_star(read) else ""
    else:
        ranks = f"tensors of more than {max(RANKS)} dimensions"
    # Parameters that are no lengths keep the one value that they were called with.
    kept = [
        f"{p.name}={written(p.default)}" if p.has_default else p.name
        for p in promise.parameters
        if not p.is_tensor and not p.takes_rest and p.name not in names
    ]
    generated = "values that input_gen_fn does not make" if operator.input_gen_fn else ""
    values = f"other values of {' and '.join(kept)}" if kept else ""
    yield f"not run: {'; '.join(filter(None, (generated, ranks, values, ALWAYS)))}"
