"""What `register_op`, and a call of what it registered, refuse: what is wrong, and what to write.

>>> print(REFUSED["value-split (opaque)"]("a, ? -> a", parameter="bias", name="f"))
value_split names an input that is only replicated
  a, ? -> a
  'bias' of 'f' is annotated '?'
  hint: annotate its dimensions, or leave it out of value_split
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from dimsolve.ir.characters import shown
from dimsolve.ir.errors import AnnotationError, OperatorError, problems
from dimsolve.ir.operator import ReductionName

REDUCTIONS: tuple[str, ...] = get_args(ReductionName)

NO_ANNOTATION = problems(
    AnnotationError,
    """
    not-an-annotation: this is not an annotation
      {value} is of type {type}
      hint: give text, or a function of (*inputs, **kwargs) that returns it
    not-an-annotation (forgotten): register_op wants an annotation
      '{name}' stands in its place
      hint: write @ds.register_op("a b -> a b") above def {name}(...)
    """,
)

REFUSED = problems(
    OperatorError,
    """
    lambda: a lambda cannot be an operator
      the code of a plan calls its operators by name, and a lambda has none
      hint: write `def name(x: torch.Tensor): ...` at the top of a module and register that
    nested-function: a nested function cannot be an operator
      '{name}' is defined inside {home}, and the code of a plan imports its operators from a module
      hint: move '{name}' to the top of a module
    main-function: a function of __main__ cannot be imported elsewhere
      '{name}' is defined in the program that was started, and the ranks of a plan are others
      hint: move '{name}' to a module, or write code_impl_pattern="source" to copy its text
    module: a torch.nn.Module cannot be an operator
      '{name}' may hold weights, and those of a model are cut by its plan
      hint: register the function that the module calls, with the weights among its arguments
    not-a-function: this is not a function
      {value} is of type {type}
      hint: write a function at the top of a module that calls it, and register that
    not-a-function (asynchronous): a coroutine or generator cannot be an operator
      a call of '{name}' returns before anything is computed
      hint: write a plain function that returns tensors
    missing-types: {title}
      {parameters} of '{name}' {have} none, so it is not known what is a tensor
      hint: write for instance `{first}: torch.Tensor`, `{first}: int` or `{first}:
      Optional[torch.Tensor]`
    input-count: the number of inputs does not match
      {reason}
      hint: {hint}
    not-a-tensor: a value that is no tensor has dimensions
      '{operand}' is annotated for '{parameter}: {type}' of '{name}'
      hint: write '?' for '{parameter}', or leave it out if no tensor follows it
    reduction: there is no such reduction
      partial is {value}
      hint: partial is one of sum, max, min, prod, avg: what joins the parts of a '+' split
    code-impl-pattern: there is no such code_impl_pattern
      code_impl_pattern is {value}
      hint: write "import" to import the function where it runs, "source" to copy its text
    transform-rule: this is not a transform rule
      {value} is of type {type}
      hint: write TransformRule(("S(0)", "R"), ("P(sum)",))
    value-split (unknown): value_split names no input
      {value} is not an annotated input of '{name}'; {known}
      hint: value_split takes the names of parameters that are summands, such as a bias
    writes (unknown): writes names no input
      {value} is not an annotated input of '{name}'; {known}
      hint: writes takes the names of parameters that the function writes to
    writes (outputs): what a function writes to, it returns first
      '{name}' writes to {written}, and '{annotation}' has {outputs}
      hint: return what is written to, itself and no copy, before other results
    writes (absent): an input that is written to is absent
      '{parameter}' of '{name}' is no tensor in this call
    writes (unsaid): a function writes to an input that it is not said to write to
      '{parameter}' of '{name}' is changed by the call: later uses would read it as it was
      hint: register it with writes=["{parameter}"], and return '{parameter}' first
    value-split (opaque): value_split names an input that is only replicated
      '{parameter}' of '{name}' is annotated '?'
      hint: annotate its dimensions, or leave it out of value_split
    value-split (cut): value_split names an input that is cut itself
      '{parameter}' of '{name}' has {joined}: each rank has a part of it, and no summand
      hint: value_split takes the inputs without the '+' identifier, such as a bias
    annotation-function (failed): the annotation function failed
      that of '{name}' raised {type}: {message}
      hint: it is called as (*inputs, **kwargs); inputs are tensors, or None for absent ones
    annotation-function (no text): the annotation function gave no annotation
      that of '{name}' returned {value}, of type {type}
      hint: return text such as 'm k+, k+ n -> m n'
    call: '{name}' cannot be called like this
      {message}
    unannotated-tensor: a tensor was given where none is annotated
      '{parameter}' of '{name}' is a tensor in this call
      hint: annotate '{parameter}'; '?' if it may only be replicated
    optional-tensor: an optional tensor changed between tracing and running
      '{parameter}' of '{name}' was {was} when the model was traced and is {now} now
      hint: trace again with {now} for '{parameter}'; a plan holds for one of the two
    shadowed-operator: two operators have one path
      '{path}' was registered again for another function, and the model calls the older one
      ('{name}')
      hint: give the two functions different names: a graph knows its operators by their paths
    """,
)


def of_value(value: object, limit: int = 60) -> dict[str, str]:
    """Returns the words for a value: its text as it may stand in a sentence, and its type."""
    return {"value": shown(repr(value), limit), "type": type(value).__name__}


def missing_types(name: str, missing: Sequence[str]) -> OperatorError:
    """Parameters without type annotations."""
    several = len(missing) > 1
    which = ", ".join(f"'{parameter}'" for parameter in missing)
    return REFUSED["missing-types"](
        title="type annotations are missing" if several else "a type annotation is missing",
        parameters=f"parameter{'s' * several} {which}",
        name=name,
        have="have" if several else "has",
        first=missing[0],
    )


def too_many_inputs(
    text: str, name: str, annotated: int, parameters: Sequence[str]
) -> OperatorError:
    """More annotated inputs than parameters."""
    count = "1 input" if annotated == 1 else f"{annotated} inputs"
    has = f"{len(parameters)} parameter{'s' * (len(parameters) != 1)}"
    return REFUSED["input-count"](
        text,
        reason=f"{count} annotated, and '{name}' has {has}: {', '.join(parameters) or 'none'}",
        hint="annotate the first parameters, in order; "
        "leave out those at the end that are no tensors",
    )


def tensor_without_input(text: str, name: str, annotated: int, parameter: str) -> OperatorError:
    """A tensor parameter that the annotation says nothing of."""
    count = "1 input is" if annotated == 1 else f"{annotated} inputs are"
    return REFUSED["input-count"](
        text,
        reason=f"{count} annotated, and '{parameter}', the next parameter of '{name}', is a tensor",
        hint=f"annotate '{parameter}' too; '?' if it may only be replicated",
    )


def unknown_summand(name: str, given: str, inputs: Sequence[str]) -> OperatorError:
    """A name in value_split that is no annotated input."""
    known = f"its inputs are {', '.join(inputs)}" if inputs else "it has no inputs"
    return REFUSED["value-split (unknown)"](name=name, known=known, **of_value(given, 40))


def unknown_written(name: str, given: str, inputs: Sequence[str]) -> OperatorError:
    """A name in writes that is no annotated input."""
    known = f"its inputs are {', '.join(inputs)}" if inputs else "it has no inputs"
    return REFUSED["writes (unknown)"](name=name, known=known, **of_value(given, 40))


def too_few_outputs(text: str, name: str, written: int, outputs: int) -> OperatorError:
    """More inputs are written to than there are outputs."""
    return REFUSED["writes (outputs)"](
        name=name,
        annotation=text,
        written=f"{written} input{'s' * (written != 1)}",
        outputs=f"{outputs} output{'s' * (outputs != 1)}",
    )


def presence_changed(name: str, parameter: str, traced: bool) -> OperatorError:
    """An optional tensor is there at one time and not at the other."""
    was, now = ("a tensor", "None") if traced else ("None", "a tensor")
    return REFUSED["optional-tensor"](name=name, parameter=parameter, was=was, now=now)


def shadowed(name: str, path: str) -> OperatorError:
    """A function is called that another one of the same path has replaced."""
    return REFUSED["shadowed-operator"](name=name, path=path)
