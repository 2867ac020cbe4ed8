"""`register_op`: a function becomes an operator by the one line that says how it may be cut.

    @ds.register_op("m k+, k+ n -> m n", name="matmul_custom")
    def matmul_custom(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, w)

    x: (6, 8), w: (8, 4)    k over 2 ranks: x (6, 4), w (4, 4), result (6, 4), P(sum)

The function stays what it was. Its promise stands in a table (`dimsolve.ir.operator`), where
tracing, planning and `verify` look it up; torch.compile takes it for one operator. All that is
given is checked before anything is registered.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import torch

from dimsolve.ir.annotation import MARKS, Annotation, Opaque
from dimsolve.ir.checks import as_whole, wrong_type
from dimsolve.ir.operator import Operator, ReductionName, register
from dimsolve.ir.read_annotation import read_annotation
from dimsolve.partition.rules.rule import TransformRule, check_cuts, check_fits
from dimsolve.solver.infer import infer
from dimsolve.solver.layout import identifiers_of, star_position

from . import errors
from .leaf import bare_function, leaf_class, leaf_function
from .promise import Parameter, Promise, forward_signature, parameters_of, summand

F = TypeVar("F", bound=Callable[..., Any])
_REST = inspect.Parameter.VAR_POSITIONAL


def register_op(
    annotation: str | Callable[..., str] | Annotation,
    name: str | None = None,
    code_impl_pattern: Literal["import", "source"] = "import",
    emit_fn: Callable[..., str] | None = None,
    transform_rules: Sequence[TransformRule] | None = None,
    input_gen_fn: Callable[..., Any] | None = None,
    *,
    value_split: Sequence[str | int] = (),
    partial: ReductionName = "sum",
    writes: Sequence[str | int] = (),
) -> Callable[[F], F]:
    """Returns a decorator that registers a function and gives back what behaves as it did.

    annotation: text, or a function of ``(*inputs, **kwargs)`` that returns it; the first parameters
    of the function are the annotated inputs. name: for policies and plans; None: the function's.
    For plans: code_impl_pattern ("import" the function, or copy its "source") and emit_fn (writes
    the call). transform_rules come before the rules of the marks. input_gen_fn gives the inputs
    that `verify` uses. value_split: the inputs that are summands. partial: what joins the parts of
    a ``+`` split. writes: the inputs that the function writes to; it returns them first, in this
    order.

    Functions of a module, autograd.Function classes or their ``apply``, and functions that
    torch.compile has wrapped can be registered. Raises OperatorError for what cannot, and
    AnnotationError for an annotation that cannot be read.
    """
    text = _text_of(annotation)
    _check_options(name, emit_fn, input_gen_fn)
    if not isinstance(partial, str) or partial not in errors.REDUCTIONS:
        raise errors.REFUSED["reduction"](**errors.of_value(partial, 40))
    if not isinstance(code_impl_pattern, str) or code_impl_pattern not in ("import", "source"):
        raise errors.REFUSED["code-impl-pattern"](**errors.of_value(code_impl_pattern, 40))
    rules = _rules(transform_rules)
    summands = to_inputs("value_split", value_split, "the summands among the parameters, such as")
    written = to_inputs("writes", writes, "what the function writes to, such as")

    def decorate(function: F) -> F:
        target: Any = _class_of_apply(function) or bare_function(function)
        if callable(text) and not callable(target):
            raise errors.NO_ANNOTATION["not-an-annotation (forgotten)"](
                name=getattr(text, "__name__", "f")
            )
        signature = _checked_signature(target, code_impl_pattern == "import" and emit_fn is None)
        is_class = isinstance(target, type)
        parameters = parameters_of(signature)
        own_name = name or target.__name__
        if isinstance(text, str):
            _check_annotation(text, own_name, parameters)
            _check_summands(text, own_name, parameters, summands)
            _check_rules(text, rules)
        promise = Promise(own_name, signature, parameters, text, summands, partial, rules, written)
        if isinstance(text, str) and all(p.kind is not _REST for p in parameters):
            count = len(read_annotation(text).inputs)
            promise.written([p.name for p in parameters][:count], text)
        operator = Operator(
            name=own_name,
            path=f"{target.__module__}.{target.__qualname__}{'.apply' * is_class}",
            declare=promise,
            code_impl_pattern=code_impl_pattern,
            emit_fn=emit_fn,
            transform_rules=rules,
            input_gen_fn=input_gen_fn,
            parameters=tuple("*" * p.takes_rest + p.name for p in parameters),
            defaults={p.name: p.default for p in parameters if p.has_default},
            function=target.apply if is_class else target,
        )
        if is_class:
            leaf_class(target)
            register(operator, target)
            return function
        leaf = leaf_function(target)
        register(operator, target, leaf)
        return cast(F, leaf)  # it is called as the function is

    return decorate


def _text_of(annotation: Any) -> str | Callable[..., str]:
    """The annotation as text, or the function that makes it."""
    if isinstance(annotation, Annotation):
        return annotation.text or str(annotation)
    if isinstance(annotation, str):
        return annotation
    if not callable(annotation):
        raise errors.NO_ANNOTATION["not-an-annotation"](**errors.of_value(annotation))
    # What stands in the annotation's place may be what should have been decorated.
    returned = getattr(annotation, "__annotations__", {}).get("return", "")
    if isinstance(annotation, type):
        forgotten = issubclass(annotation, torch.autograd.Function)
    else:
        forgotten = "Tensor" in (returned if isinstance(returned, str) else str(returned))
    if forgotten:
        raise errors.NO_ANNOTATION["not-an-annotation (forgotten)"](name=annotation.__name__)
    made: Callable[..., str] = annotation
    return made


def _check_options(name: Any, emit_fn: Any, input_gen_fn: Any) -> None:
    """Raises AnnotationError for a name that is no text, and for what is no function."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        hint = "policies and plans call the operator by it; leave it out for the function's own"
        raise wrong_type("name", name, "a name", hint)
    if emit_fn is not None and not callable(emit_fn):
        raise wrong_type("emit_fn", emit_fn, "a function", "it writes the call as text")
    if input_gen_fn is not None and not callable(input_gen_fn):
        hint = "it is given what `verify` wants inputs for, and returns a list of them"
        raise wrong_type("input_gen_fn", input_gen_fn, "a function", hint)


def to_inputs(option: str, given: Any, what: str) -> tuple[str | int, ...]:
    """Returns the inputs that an option names; AnnotationError for what is no name and no number.

    >>> to_inputs("writes", "x", ""), to_inputs("writes", [2], "")
    (('x',), (2,))
    """
    hint = f'give {what} ("bias",)'
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Collection) or isinstance(given, bytes | Mapping):
        raise wrong_type(option, given, "a list of parameters", hint)
    found: list[str | int] = []
    for entry in given:
        number = entry if isinstance(entry, str) else as_whole(entry)
        if number is None:
            raise wrong_type(f"an entry of {option}", entry, "a parameter's name", hint)
        found.append(number)
    return tuple(found)


def _rules(given: Any) -> tuple[TransformRule, ...]:
    rules = (given,) if isinstance(given, TransformRule) else tuple(given or ())
    for rule in rules:
        if not isinstance(rule, TransformRule):
            raise errors.REFUSED["transform-rule"](**errors.of_value(rule))
    return rules


def _class_of_apply(function: Any) -> Any:
    owner = getattr(function, "__self__", None)
    is_apply = getattr(function, "__name__", "") == "apply" and isinstance(owner, type)
    return owner if is_apply and _is_a(owner, torch.autograd.Function) else None


def _is_a(value: Any, kind: type) -> bool:
    """Whether a value is of a class, or a class derived from it."""
    return issubclass(value if isinstance(value, type) else type(value), kind)


def _checked_signature(target: Any, importable: bool) -> inspect.Signature:
    """The signature of what can be registered; OperatorError for everything else."""
    if _is_a(target, torch.nn.Module):
        raise errors.REFUSED["module"](name=getattr(target, "__name__", type(target).__name__))
    is_class = _is_a(target, torch.autograd.Function)
    if not is_class and not inspect.isfunction(target):
        raise errors.REFUSED["not-a-function"](**errors.of_value(target))
    name, qualname = target.__name__, target.__qualname__
    lazy = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
    if lazy or inspect.isgeneratorfunction(target):
        raise errors.REFUSED["not-a-function (asynchronous)"](name=name)
    if name == "<lambda>":
        raise errors.REFUSED["lambda"]()
    if "." in qualname:
        home, _, last = qualname.rpartition(".")
        raise errors.REFUSED["nested-function"](name=last, home=home.removesuffix(".<locals>"))
    if target.__module__ == "__main__" and importable:
        raise errors.REFUSED["main-function"](name=name)
    if is_class:
        return forward_signature(target)
    signature = inspect.signature(target)
    missing = [p.name for p in parameters_of(signature) if not p.type and not p.takes_rest]
    if missing:
        raise errors.missing_types(name, missing)
    return signature


def _check_annotation(text: str, name: str, parameters: tuple[Parameter, ...]) -> None:
    annotation = read_annotation(text)
    count = len(annotation.inputs)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    named = [p for p in parameters if not p.takes_rest]
    if count > len(named):
        raise errors.too_many_inputs(text, name, count, [p.name for p in named])
    for operand, parameter in zip(annotation.inputs, named, strict=False):
        may_be_tensor = parameter.is_tensor or parameter.type in ("Any", "typing.Any", "object", "")
        if not isinstance(operand, Opaque) and not may_be_tensor:
            raise errors.REFUSED["not-a-tensor"](
                text, operand=operand, parameter=parameter.name, type=parameter.type, name=name
            )
    for parameter in named[count:]:
        if parameter.is_tensor:
            raise errors.tensor_without_input(text, name, count, parameter.name)


def _check_summands(
    text: str, name: str, parameters: tuple[Parameter, ...], summands: tuple[str | int, ...]
) -> None:
    """Raises OperatorError for a summand that is no input, has no dimensions, or is cut itself by
    every split that joins parts.
    """
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    annotation = read_annotation(text)
    inputs = [p.name for p in parameters][: len(annotation.inputs)]
    joined = {n for n, found in identifiers_of(annotation).items() if found.mark.joins}
    starred = "*+" in text.replace(" ", "")
    for given in summands:
        number = summand(given, name, inputs)
        operand = annotation.inputs[number]
        if isinstance(operand, Opaque):
            raise errors.REFUSED["value-split (opaque)"](text, parameter=inputs[number], name=name)
        words = str(operand).replace("(", " ").replace(")", " ").split()
        if joined and not starred and joined <= {word.rstrip(MARKS) for word in words}:
            which = " and ".join(f"'{each}'" for each in sorted(joined))
            raise errors.REFUSED["value-split (cut)"](
                text, parameter=inputs[number], name=name, joined=which
            )


def _check_rules(text: str, rules: tuple[TransformRule, ...]) -> None:
    """What can be checked before a call: nothing of a rule where ``*`` leaves the ranks open."""
    if any(star_position(o) is not None for o in read_annotation(text).operands):
        return
    for rule in rules:
        check_fits(rule, infer(text))
        check_cuts(rule, infer(text))
