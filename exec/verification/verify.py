"""`verify`: does an annotation tell the truth? The function is run whole and split, and compared.

    verify(matmul_bias)        "m k+, n k+, n -> m n", the function is x @ w.T + bias
    'k' split into 2 parts: output 0 is off by 0.94 of its largest element
      hint: input 2 ('bias') is a summand: write value_split=("bias",)

Every identifier that may be split is: into 2, 3 and 4 parts, of several lengths, alone and beside
every other, on several mesh axes at once, in one process and in float64. Outputs, the gradients of
all inputs, and inputs that are written to must be equal to the whole. Inputs come from the caller,
from the library's examples, from the operator's own ``input_gen_fn``, or are made from the
annotation (`dimsolve.exec.verification.samples`). What was not run is told in notes.

What `verify` is asked with: counts, a seed, a device, calls; checked before anything runs.

verify(f, counts=2)            counts is not a list of counts: [2]
verify(f, args=torch.ones(3))  args is not a list of arguments: (tensor,)
verify(f, device="nope")       there is no such device

What `verify` did not run, in words: a yes is about what was run, and no more.

scaled(x: Tensor, *, by: float = 1.0)
not run: other values of by=1.0; longer inputs, dtypes but float64 and float32, inputs that are not
contiguous, state that earlier calls leave

From what `verify` is given to the operator that it means: a function, a class, a path, or data.

    torch.nn.functional.linear, "torch.matmul", "ops.py:my_op", MyFunction.apply

What is no operator is told with what it is instead, and what was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from dimsolve.ir.checks import (
    to_whole,
    written,
    wrong_type,
)
from dimsolve.ir.errors import Diagnostic, DimsolveError, OperatorError
from dimsolve.ir.operator import Operator, operator_of
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.rules.table import with_rules
from dimsolve.solver.graphs.deduction import find_operator
from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.layout import identifiers_of

from ..calls import Arguments, resolve
from ..registration.operator import Parameter, Promise
from .check_whole import lack_of_values
from .samples import OTHER_PARTS, RANKS, STAR_RANKS, has_star
from .splits import CheckSplits, check_samples
from .verification import Verification
from .whole import fixed_random

Example = tuple[Sequence[Any], Mapping[str, Any]]

MOST_PARTS = 1024
"""More parts than this are not run in one process."""


@dataclass(frozen=True, slots=True)
class Given:
    """The calls that are given, and how they are split."""

    examples: list[Example]
    counts: tuple[int, ...]
    seed: int
    device: str


def read_given(args: Any, kwargs: Any, examples: Any, counts: Any, seed: Any, device: Any) -> Given:
    """Returns what `verify` was asked with. Raises AnnotationError for parameters that cannot be
    read, and OperatorError for a device or a tensor that nothing can run on.
    """
    calls = _examples(examples)
    if args is not None or kwargs is not None:
        calls.append(_call("args", args, "kwargs", kwargs))
    for positional, named in calls:
        _check_tensors(Arguments(tuple(positional), dict(named)))
    number = to_whole("seed", seed, 0, 2**63 - 2)
    return Given(calls, _counts(counts), number, _device(device))


def _counts(counts: Any) -> tuple[int, ...]:
    hint = "give the numbers of parts, such as (2, 3, 4)"
    if not isinstance(counts, Iterable) or isinstance(counts, str | bytes | Mapping):
        raise wrong_type("counts", counts, "a list of counts", hint)
    found = tuple(to_whole("a count", count, 2, MOST_PARTS) for count in counts)
    if not found:
        raise wrong_type("counts", counts, "a list of at least one count", hint)
    return tuple(dict.fromkeys(found))


def _examples(examples: Any) -> list[Example]:
    hint = "give calls, such as [((x, w), {})]"
    if examples is None:
        return []
    if not isinstance(examples, Iterable) or isinstance(examples, str | Mapping | torch.Tensor):
        raise wrong_type("examples", examples, "a list of calls", hint)
    calls: list[Example] = []
    for number, example in enumerate(examples):
        if not isinstance(example, tuple | list) or len(example) != 2:
            raise wrong_type(f"example {number}", example, "a call (args, kwargs)", hint)
        names = f"args of example {number}", f"kwargs of example {number}"
        calls.append(_call(names[0], example[0], names[1], example[1]))
    return calls


def _call(args_name: str, args: Any, kwargs_name: str, kwargs: Any) -> Example:
    if not isinstance(args, tuple | list | None):
        hint = "give the arguments in a tuple, such as (x, w)"
        raise wrong_type(args_name, args, "a list of arguments", hint)
    if not isinstance(kwargs, Mapping | None) or not all(isinstance(n, str) for n in kwargs or ()):
        hint = 'give the arguments by name, such as {"dim": 0}'
        raise wrong_type(kwargs_name, kwargs, "a mapping of names to arguments", hint)
    return args or (), kwargs or {}


def _check_tensors(arguments: Arguments) -> None:
    for place, tensor in arguments.tensors():
        problem = lack_of_values(tensor)
        if problem:
            raise OperatorError(
                Diagnostic(
                    code="no-inputs",
                    title="a call cannot be run and split",
                    reason=f"argument {'.'.join(map(str, place))} {problem}",
                    hint="give tensors that are dense and hold values",
                )
            )


def _device(device: Any) -> str:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        first = str(error).partition("\n")[0]
        raise OperatorError(
            Diagnostic(
                code="device",
                title="nothing can run on this device",
                reason=f"device is {written(device)}: {first:.120}",
                hint='write "cpu", or "cuda" where there is a GPU',
            )
        ) from error
    return str(device)


_REST = "inputs that are not contiguous, state that earlier calls leave"
_GIVEN = f"dtypes but float64, {_REST}"
ALWAYS = f"longer inputs, dtypes but float64 and float32, {_REST}"
"""What is never run, in words: of a given call, and of inputs that are made."""


def not_run(operator: Operator, calls: Sequence[Any]) -> Iterator[str]:
    """Yields notes on what was not run."""
    promise = operator.declare
    if calls:
        yield f"not run: other lengths and values than those of the given call; {_GIVEN}"
        return
    if not isinstance(promise, Promise):
        yield f"not run: other lengths and values than those of the library's examples; {_GIVEN}"
        return
    missed = [*_ranks(promise), *_values(promise), ALWAYS]
    if operator.input_gen_fn is not None:
        missed.insert(0, "values that input_gen_fn does not make")
    yield f"not run: {'; '.join(missed)}"


def _ranks(promise: Promise) -> Iterator[str]:
    text = promise.annotation
    if not isinstance(text, str):
        yield f"tensors of more than {max(RANKS)} dimensions"
    elif has_star(read_annotation(text)):
        yield f"more than {max(STAR_RANKS)} dimensions for '*'"


def _values(promise: Promise) -> Iterator[str]:
    """Parameters that are no lengths keep the one value that they were called with."""
    text = promise.annotation
    names = identifiers_of(read_annotation(text)) if isinstance(text, str) else {}
    kept = [p for p in promise.parameters if _is_value(p) and p.name not in names]
    if kept:
        yield f"other values of {' and '.join(_shown(p) for p in kept)}"


def _is_value(parameter: Parameter) -> bool:
    return not parameter.is_tensor and not parameter.takes_rest


def _shown(parameter: Parameter) -> str:
    if not parameter.has_default:
        return parameter.name
    return f"{parameter.name}={written(parameter.default)}"


_REGISTER = 'register it: ds.register_op("m k+, k+ n -> m n")(function)'


def operator_for(target: Any) -> Operator:
    """Returns the operator that a function, a class or a path names. Raises OperatorError."""
    if isinstance(target, Operator):
        return target
    found = _at(target) if isinstance(target, str) else _of(target)
    if found is None:
        raise _unknown(target)
    return with_rules(found)


def _at(target: str) -> Operator | None:
    path = target.strip().replace(":", ".")
    found = find_operator(path)
    if found is not None:
        return found
    if not all(part.isidentifier() for part in path.split(".")):
        raise _no_path(target)
    try:
        value = resolve(path)
    except DimsolveError as error:
        raise (_module if "." not in path and find_spec(path) else _no_path)(target) from error
    if isinstance(value, ModuleType):
        raise _module(target)
    return _of(value) if callable(value) else None


def _of(function: Any) -> Operator | None:
    return operator_of(function) or find_operator(path_of(function))


def _error(title: str, reason: str, hint: str) -> OperatorError:
    return OperatorError(Diagnostic(code="unknown-operator", title=title, reason=reason, hint=hint))


def _unknown(target: Any) -> OperatorError:
    name = target if isinstance(target, str) else getattr(target, "__name__", written(target))
    reason = f"'{name}' is neither registered nor in the library"
    return _error("nothing is known of this function", reason, _REGISTER)


def _module(target: str) -> OperatorError:
    reason = f"'{target}' is a module, and a function is wanted"
    return _error("this is not a function", reason, f"write {target}:function")


def _no_path(target: str) -> OperatorError:
    if not target.strip(" .:"):
        reason, hint = "the target is empty", 'write "torch.matmul", or "module:function"'
    elif target.endswith(".py"):
        reason = f"'{target}' is a file, and a function is wanted"
        hint = f"write {target}:name"
    else:
        reason = f"'{target:.80}' can neither be imported nor is it registered"
        hint = _meant(target)
    return _error("there is no such function", reason, hint)


def _meant(target: str) -> str:
    from dimsolve.solver.operators import names

    known = names()
    last = target.rpartition(".")[2]
    close = [path for path in known if path.rpartition(".")[2] == last]
    close = close or get_close_matches(target, known, n=2)
    return f"did you mean {' or '.join(sorted(close, key=len)[:2])}?" if close else _REGISTER


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
    from dimsolve.solver.operators import examples

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
