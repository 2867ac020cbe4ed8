"""What `register_op` refuses, in words: what is wrong with the function, and what to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import AnnotationError, Diagnostic, OperatorError

REDUCTIONS = ("sum", "max", "min", "prod", "avg")


def _error(code: str, title: str, reason: str, hint: str, text: str = "") -> OperatorError:
    return OperatorError(Diagnostic(code=code, title=title, text=text, reason=reason, hint=hint))


def is_lambda() -> OperatorError:
    """A lambda has no name to be imported by."""
    return _error(
        "lambda",
        "a lambda cannot be an operator",
        "the code of a plan calls its operators by name, and a lambda has none",
        "write `def name(x: torch.Tensor): ...` at the top of a module and register that",
    )


def is_nested(qualname: str) -> OperatorError:
    """A function inside a function or a class cannot be imported."""
    home, _, name = qualname.rpartition(".")
    where = f"inside {home.removesuffix('.<locals>')}"
    return _error(
        "nested-function",
        "a nested function cannot be an operator",
        f"'{name}' is defined {where}, and the code of a plan imports its operators from a module",
        f"move '{name}' to the top of a module",
    )


def is_main(name: str) -> OperatorError:
    """A function of the program that was started cannot be imported by another."""
    return _error(
        "main-function",
        "a function of __main__ cannot be imported elsewhere",
        f"'{name}' is defined in the program that was started, and the ranks of a plan are others",
        f"move '{name}' to a module, or write code_impl_pattern=\"source\" to copy its text",
    )


def is_module(name: str) -> OperatorError:
    """A torch.nn.Module has weights, which belong to the model."""
    return _error(
        "module",
        "a torch.nn.Module cannot be an operator",
        f"'{name}' may hold weights, and those of a model are cut by its plan",
        "register the function that the module calls, with the weights among its arguments",
    )


def is_no_function(value: Any) -> OperatorError:
    """Something that is called, but is no function of a module."""
    return _error(
        "not-a-function",
        "this is not a function",
        f"{shown(repr(value), 60)} is of type {type(value).__name__}",
        "write a function at the top of a module that calls it, and register that",
    )


def lacks_types(name: str, missing: Sequence[str]) -> OperatorError:
    """Parameters without type annotations."""
    which = ", ".join(f"'{parameter}'" for parameter in missing)
    plural = len(missing) > 1
    return _error(
        "missing-types",
        "a type annotation is missing" if not plural else "type annotations are missing",
        f"parameter{'s' * plural} {which} of '{name}' {'have' if plural else 'has'} none, "
        "so it is not known what is a tensor",
        f"write for instance `{missing[0]}: torch.Tensor`, `{missing[0]}: int` "
        f"or `{missing[0]}: Optional[torch.Tensor]`",
    )


def too_many_inputs(
    text: str, name: str, annotated: int, parameters: Sequence[str]
) -> OperatorError:
    """More annotated inputs than parameters."""
    has = ", ".join(parameters) or "none"
    count = "1 input" if annotated == 1 else f"{annotated} inputs"
    return _error(
        "input-count",
        "the number of inputs does not match",
        f"{count} annotated, and '{name}' has {len(parameters)} parameter"
        f"{'s' * (len(parameters) != 1)}: {has}",
        "annotate the first parameters, in order; leave out those at the end that are no tensors",
        text,
    )


def tensor_without_input(text: str, name: str, annotated: int, parameter: str) -> OperatorError:
    """A tensor parameter that the annotation says nothing of."""
    count = "1 input is" if annotated == 1 else f"{annotated} inputs are"
    return _error(
        "input-count",
        "the number of inputs does not match",
        f"{count} annotated, and '{parameter}', the next parameter of '{name}', is a tensor",
        f"annotate '{parameter}' too; '?' if it may only be replicated",
        text,
    )


def input_is_no_tensor(
    text: str, name: str, operand: str, parameter: str, kind: str
) -> OperatorError:
    """A parameter annotated with dimensions whose type is not that of a tensor."""
    return _error(
        "not-a-tensor",
        "a value that is no tensor has dimensions",
        f"'{operand}' is annotated for '{parameter}: {kind}' of '{name}'",
        f"write '?' for '{parameter}', or leave it out if no tensor follows it",
        text,
    )


def unknown_reduction(partial: Any) -> OperatorError:
    """A reduction that does not exist."""
    return _error(
        "reduction",
        "there is no such reduction",
        f"partial is {shown(repr(partial))}",
        f"partial is one of {', '.join(REDUCTIONS)}: what joins the parts of a '+' split",
    )


def unknown_pattern(pattern: Any) -> OperatorError:
    """A code_impl_pattern that does not exist."""
    return _error(
        "code-impl-pattern",
        "there is no such code_impl_pattern",
        f"code_impl_pattern is {shown(repr(pattern))}",
        'write "import" to import the function where it runs, "source" to copy its text',
    )


def unknown_value_split(name: str, given: str, inputs: Sequence[str]) -> OperatorError:
    """A name in value_split that is no annotated input."""
    known = f"its inputs are {', '.join(inputs)}" if inputs else "it has no inputs"
    return _error(
        "value-split",
        "value_split names no input",
        f"{shown(repr(given))} is not an annotated input of '{name}'; {known}",
        "value_split takes the names of parameters that are summands, such as a bias",
    )


def opaque_summand(text: str, name: str, parameter: str) -> OperatorError:
    """An input in value_split that is ``?``."""
    return _error(
        "value-split",
        "value_split names an input that is only replicated",
        f"'{parameter}' of '{name}' is annotated '?'",
        "annotate its dimensions, or leave it out of value_split",
        text,
    )


def cut_summand(text: str, name: str, parameter: str, joined: Sequence[str]) -> OperatorError:
    """An input in value_split that every split with ``+`` cuts."""
    which = " and ".join(f"'{each}'" for each in joined)
    return _error(
        "value-split",
        "value_split names an input that is cut itself",
        f"'{parameter}' of '{name}' has {which}: each rank has a part of it, and no summand",
        "value_split takes the inputs without the '+' identifier, such as a bias",
        text,
    )


def annotation_forgotten(name: str) -> AnnotationError:
    """``@register_op`` without an annotation."""
    return AnnotationError(
        Diagnostic(
            code="not-an-annotation",
            title="register_op wants an annotation",
            reason=f"'{name}' stands in its place",
            hint=f'write @ds.register_op("a b -> a b") above def {name}(...)',
        )
    )


def is_asynchronous(name: str) -> OperatorError:
    """A coroutine or a generator: a call of it computes nothing yet."""
    return _error(
        "not-a-function",
        "a coroutine or generator cannot be an operator",
        f"a call of '{name}' returns before anything is computed",
        "write a plain function that returns tensors",
    )


def not_an_annotation(value: Any) -> AnnotationError:
    """The annotation is neither text nor a function."""
    return AnnotationError(
        Diagnostic(
            code="not-an-annotation",
            title="this is not an annotation",
            reason=f"{shown(repr(value), 60)} is of type {type(value).__name__}",
            hint="give text, or a function of (*inputs, **kwargs) that returns it",
        )
    )


def not_a_transform_rule(value: Any) -> OperatorError:
    """Something else among the transform rules."""
    return _error(
        "transform-rule",
        "this is not a transform rule",
        f"{shown(repr(value), 60)} is of type {type(value).__name__}",
        'write TransformRule(("S(0)", "R"), ("P(sum)",))',
    )


def annotation_function_failed(name: str, error: BaseException) -> OperatorError:
    """The annotation function raised an exception."""
    return _error(
        "annotation-function",
        "the annotation function failed",
        f"that of '{name}' raised {type(error).__name__}: {error}",
        "it is called as (*inputs, **kwargs); inputs are tensors, or None for absent ones",
    )


def annotation_function_gave(name: str, value: Any) -> OperatorError:
    """The annotation function returned something that is no text."""
    return _error(
        "annotation-function",
        "the annotation function gave no annotation",
        f"that of '{name}' returned {shown(repr(value), 60)}, of type {type(value).__name__}",
        "return text such as 'm k+, k+ n -> m n'",
    )


def call_does_not_fit(name: str, error: BaseException) -> OperatorError:
    """Arguments that the function does not take."""
    return _error(
        "call",
        f"'{name}' cannot be called like this",
        str(error),
        "",
    )


def unannotated_tensor(text: str, name: str, parameter: str) -> OperatorError:
    """A tensor was given for a parameter that is not annotated."""
    return _error(
        "unannotated-tensor",
        "a tensor was given where none is annotated",
        f"'{parameter}' of '{name}' is a tensor in this call",
        f"annotate '{parameter}'; '?' if it may only be replicated",
        text,
    )


def presence_changed(name: str, parameter: str, traced: bool) -> OperatorError:
    """An optional tensor is there at one time and not at the other."""
    was, now = ("a tensor", "None") if traced else ("None", "a tensor")
    return _error(
        "optional-tensor",
        "an optional tensor changed between tracing and running",
        f"'{parameter}' of '{name}' was {was} when the model was traced and is {now} now",
        f"trace again with {now} for '{parameter}'; a plan holds for one of the two",
    )


def shadowed(name: str, path: str) -> OperatorError:
    """A function is called that another one of the same path has replaced."""
    return _error(
        "shadowed-operator",
        "two operators have one path",
        f"'{path}' was registered again for another function, and the model calls the older one "
        f"('{name}')",
        "give the two functions different names: a graph knows its operators by their paths",
    )
