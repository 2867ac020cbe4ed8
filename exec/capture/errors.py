"""Why a model cannot be captured as one graph, in the model's own terms: the line, and what torch
says of it.

    the model switches to inference mode at model.py:12
        with torch.inference_mode():
      tensors made there are marked for good, and what a rank makes of them is not
      hint: torch.no_grad() records no gradients either, and can be planned
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from dimsolve.ir.errors import DimsolveError, OperatorError, problems
from dimsolve.ir.graph import Source
from dimsolve.solver.graphs.names import source
from dimsolve.solver.graphs.system import Condition


class TraceError(DimsolveError):
    """A model that cannot be captured as one graph."""


TraceError.__module__ = "dimsolve"


_REFUSED = problems(
    TraceError,
    """
    nothing-captured: nothing was captured
      the model calls no torch function on its inputs
    no-model: this is no model
      {model!r:.60} is a {kind}
      hint: trace(model, args=(x,)), with a torch.nn.Module or a function
    no-call: the example is no call of {model}
      {error}; it takes {takes}
      hint: trace(model, args=({first},)); or kwargs={{"{first}": {first}}}
    a-part: this is a part of a model
      trace needs the model: a part is one rank's program, with this rank's parameters
      hint: trace the model that parallelize was given
    module-hook: {module} has a backward hook
      a graph holds what the model computes, and no hook on a module's gradients
      hint: remove the hook, trace the model, and register the hook on the part
    unknown-tensor: the model returns a tensor that its program does not make: {place}
      torch hands it out as an attribute of a tensor that the call was given
      hint: return it by itself, in a tuple, a list, a dict or a dataclass
    unknown-size: torch has made a number of the program that no length of an input tells
      it is {number}, the {what} of {name}
      hint: give the tensor by itself, in memory of its own: x.clone()
    excludes-example: the graph would need {condition}, and the example has {sizes}
      it comes from {origin}
      hint: give an example whose dynamic dimensions are all different and more than 1
    """,
)

_AT_A_LINE = problems(
    TraceError,
    """
    inference-mode: the model switches to inference mode{at}
      {code}tensors made there are marked for good, and what a rank makes of them is not
      hint: torch.no_grad() records no gradients either, and can be planned
    keeps-state: the model keeps '{name}' from one call to the next{at}
      {code}a program computes every call alike, with '{name}' as it is now
      hint: a buffer that is written in place is carried: self.count.add_(1), self.mean.copy_(mean)
    replaces-data: the model gives a tensor data of another shape or dtype{at}
      {code}what is held between calls keeps its shape and dtype
      hint: data of the same shape and dtype are written in place, like x.copy_(data)
    function-transform: the model transforms a function{at}
      {code}what torch.vmap, torch.func.grad and their kin run inside has no plan
      hint: write it for the whole batch, or register the function as an operator
    own-gradients: the model takes gradients of what it computes{at}
      {code}they follow how a tensor was made, and a rank has made parts of it
      hint: return what is differentiated, and take the gradients of what the part returns
    context-fn: torch.utils.checkpoint is given a context_fn{at}
      {code}it chooses among the operators that run on one device, and a rank runs others; a region
      is run again as a whole
      hint: leave context_fn out, or checkpoint smaller parts of the model
    reentrant-closure: a checkpoint that is reentrant takes its gradients by a closure{at}
      {code}torch gives none to a tensor that is no argument of checkpoint, and on a rank it would
      have one
      hint: checkpoint(..., use_reentrant=False), or give the tensor as an argument
    packed-encoder: a TransformerEncoder in evaluation is given a padding mask{at}
      {code}where no gradients are recorded torch leaves zeros at padded positions, and elsewhere
      not; a program computes every call alike
      hint: nn.TransformerEncoder(..., enable_nested_tensor=False), or of one that is made
      encoder.use_nested_tensor = False
    packed-sequence: the model packs sequences of unequal lengths{at}
      {code}pack_padded_sequence makes as many rows as the lengths tell, which only running does
      hint: give the RNN the padded batch, and leave out what stands beyond an end by a mask:
      torch.where(mask, out, 0); the last step of each row is out[rows, lengths - 1]
    generator: the model draws from a torch.Generator of its own{at}
      {code}a program draws from torch's default generator, whose seed every rank is given
      hint: draw without generator=, after torch.manual_seed; or give what is drawn as an input
    flex-attention: the model calls flex_attention{at}
      {code}torch records its gradient on a GPU only, and does not know it on meta
      hint: trace the model on a GPU, or without gradients; scaled_dot_product_attention with a mask
      (attn_implementation="sdpa" of transformers' models) needs neither, and is cut by heads
    unreachable: the model does what no program can call{at}
      {code}torch's capture calls {path} here, which has no import path
      hint: write it with tensor operators, or register it as an operator
    data-dependent: what the model does depends on data{at}
      {code}{message}
      hint: write it with tensor operators (torch.where), or register it as an operator
    not-captured: the model cannot be captured as one graph{at}
      {code}{message}
    not-captured (on meta): the model cannot be captured as one graph{at}
      {code}{message}
      hint: on meta torch.tensor(...) cannot be captured: make it by torch.full or torch.arange, or
      trace the model on cpu
    """,
)
"""What is refused with the line of the model: its place ends the title, its code begins the reason.
"""


def _refused(row: str, line: Source | None, **words: object) -> TraceError:
    shown = f"  {line.code}\n  " if line is not None and line.code else ""
    at = f" at {line}" if line is not None else ""
    return _AT_A_LINE[row]("", at=at, code=shown, **words)


nothing_captured = _REFUSED["nothing-captured"]
backward_hook = _REFUSED["module-hook"]
inference_mode = partial(_refused, "inference-mode")
keeps_state = partial(_refused, "keeps-state")
replaces_data = partial(_refused, "replaces-data")
function_transform = partial(_refused, "function-transform")
own_gradients = partial(_refused, "own-gradients")
context_function = partial(_refused, "context-fn")
reentrant_closure = partial(_refused, "reentrant-closure")
packed_encoder = partial(_refused, "packed-encoder")


def unreachable(path: str, line: Source | None) -> TraceError:
    """A model that has torch's capture call what no program can call."""
    return _refused("unreachable", line, path=path)


def a_part() -> TraceError:
    """What parallelize returned, in place of a model."""
    return _REFUSED["a-part"]()


def no_model(model: object) -> TraceError:
    """What is traced is nothing that can be called."""
    return _REFUSED["no-model"](model=model, kind=type(model).__name__)


def no_call(model: str, error: str, takes: Sequence[str]) -> TraceError:
    """An example with other arguments than the model takes."""
    listed = ", ".join(takes) or "no arguments"
    first = next((name for name in takes if name.isidentifier()), "x")
    return _REFUSED["no-call"](model=model, error=error, takes=listed, first=first)


def unknown_tensor(place: str) -> TraceError:
    """A model that returns, in an object, a tensor that the captured program does not make."""
    return _REFUSED["unknown-tensor"](place=place)


def unknown_size(number: str, what: str, name: str) -> TraceError:
    """A number that torch takes from an argument, and that is none of its lengths."""
    return _REFUSED["unknown-size"](number=number, what=what, name=name)


def excludes_example(condition: Condition, sizes: Mapping[str, int]) -> TraceError:
    """A graph that does not hold at the sizes of the example that it was captured from."""
    own = ", ".join(f"{n} = {sizes[n]}" for n in sorted(condition.claim.symbols()))
    return _REFUSED["excludes-example"](condition=condition, sizes=own, origin=condition.origin)


def refused(error: Exception) -> DimsolveError:
    """Returns the refusal for what torch raised."""
    if isinstance(error, DimsolveError):
        return error
    own = next((each for each in _causes(error) if isinstance(each, OperatorError)), None)
    if own is not None:
        return own
    line, text = _line_of(error), str(error)
    if _GRADIENTS.search(text):
        return own_gradients(line)
    if "checkpoint not implemented for" in text and "context_fn" in text:
        return context_function(line)
    if _raised_in(error, "packed_encoder"):
        return packed_encoder(line)
    if _raised_in(error, "_validate_device"):
        return _refused("flex-attention", line)
    said = text.partition("from user code")[0]
    if "pack_padded_sequence" in said:
        return _refused("packed-sequence", line)
    if _GENERATOR.search(said):
        return _refused("generator", line)
    code = "not-captured"
    if "convert all Tensors to FakeTensors" in text and "device='meta'" in text:
        code = "not-captured (on meta)"
    elif "ata-dependent" in text or "data dependent" in text.lower():
        code = "data-dependent"
    return _refused(code, line, message=_summary(text))


GRADIENTS = frozenset({"torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward"})
"""What goes back along how tensors were made, of which a rank has parts only."""

_GRADIENTS = re.compile(r"`torch\.autograd\.grad`|Tensor\.backward\(\)|torch/autograd/__init__\.py")


_GENERATOR = re.compile(r"\btorch\._C\.Generator\b|Variable\(Generator\)")
"""How torch tells a generator among what it does not take."""

_OWN = re.compile(r"Developer debug context: raised exception (.+)")
"""What the model's own code raised, or a function of torch's that it calls."""

_CONSTANT = re.compile(r"\(\[ConstantVariable\(\w+: (.+)\)\]\)$")
"""How older builds of torch write the one argument of an exception."""

_RAISED = re.compile(r"failed to run FX node .*?: got (\w+)\((['\"])(.+?)\2\)$", re.S | re.M)


def _summary(text: str) -> str:
    """The first lines of torch's message, without its stack and advice; of code that raises, what
    it raises, and of a call that fails on tensors without data, what the function says.
    """
    own = _OWN.search(text)
    if own is not None:
        return "it raises " + _CONSTANT.sub(r"(\1)", own[1])[:500]
    raised = _RAISED.search(text)
    if raised is not None:
        return f"{raised[1]}: {raised[3]}"[:500]
    kept = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith(("from user code", "Set TORCH", "Developer debug", "Hint:")):
            break
        kept.append(line.removeprefix("Explanation: "))
    return " ".join(filter(None, kept))[:500]


def _is_torchs(file: str) -> bool:
    """Whether a file is torch's Python, or what stands for it while a model is captured."""
    return "/torch/" in file or file.endswith("exec/capture/torch_python.py")


def _raised_in(error: BaseException, function: str) -> bool:
    """Whether a function of torch_python.py has refused what torch raised for."""
    stack = list(getattr(error, "real_stack", None) or [])
    return bool(stack) and stack[-1].name == function and _is_torchs(stack[-1].filename)


def _line_of(error: BaseException) -> Source | None:
    """The innermost line of the user's code that torch names for an error."""
    for seen in _causes(error):
        stack = getattr(seen, "real_stack", None)
        frames = [frame for frame in stack or () if not _is_torchs(frame.filename)]
        if frames:
            return source(frames[-1].filename, frames[-1].lineno or 0)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and what it was raised for."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
