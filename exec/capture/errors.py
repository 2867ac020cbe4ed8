"""Why a model cannot be captured as one graph, in the model's own terms: the line, and what
torch says of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from dimsolve.ir.errors import Diagnostic, DimsolveError
from dimsolve.ir.graph import Source
from dimsolve.solver.graphs.names import source
from dimsolve.solver.graphs.system import Condition


class TraceError(DimsolveError):
    """A model that cannot be captured as one graph."""


TraceError.__module__ = "dimsolve"


def nothing_captured() -> TraceError:
    """A model that calls no torch function."""
    return TraceError(
        Diagnostic(
            code="nothing-captured",
            title="nothing was captured",
            reason="the model calls no torch function on its inputs",
        )
    )


def backward_hook(name: str) -> TraceError:
    """A module with a hook on its gradients."""
    return TraceError(
        Diagnostic(
            code="module-hook",
            title=f"{name} has a backward hook",
            reason="a graph holds what the model computes, and no hook on a module's gradients",
            hint="remove the hook, trace the model, and register the hook on the part",
        )
    )


def inference_mode(line: Source | None) -> TraceError:
    """A model that computes in inference mode, which marks tensors for good."""
    where = f" at {line}" if line is not None else ""
    code = f"  {line.code}\n  " if line is not None and line.code else ""
    return TraceError(
        Diagnostic(
            code="inference-mode",
            title=f"the model switches to inference mode{where}",
            reason=f"{code}tensors made there are marked for good, and what a rank makes of "
            "them is not",
            hint="torch.no_grad() records no gradients either, and can be planned",
        )
    )


def keeps_state(name: str, line: Source | None) -> TraceError:
    """A model that computes with what an earlier call left in it."""
    where = f" at {line}" if line is not None else ""
    code = f"  {line.code}\n  " if line is not None and line.code else ""
    return TraceError(
        Diagnostic(
            code="keeps-state",
            title=f"the model keeps '{name}' from one call to the next{where}",
            reason=f"{code}a program computes every call alike, with '{name}' as it is now",
            hint="a buffer that is written in place is carried: self.count.add_(1), "
            "self.mean.copy_(mean)",
        )
    )


def unknown_tensor(place: str) -> TraceError:
    """A model that returns, in an object, a tensor that the captured program does not make."""
    return TraceError(
        Diagnostic(
            code="unknown-tensor",
            title=f"the model returns a tensor that its program does not make: {place}",
            reason="torch hands it out as an attribute of a tensor that the call was given",
            hint="return it by itself, in a tuple, a list, a dict or a dataclass",
        )
    )


def excludes_example(condition: Condition, sizes: Mapping[str, int]) -> TraceError:
    """A graph that does not hold at the sizes of the example that it was captured from."""
    own = ", ".join(f"{n} = {sizes[n]}" for n in sorted(condition.claim.symbols()))
    return TraceError(
        Diagnostic(
            code="excludes-example",
            title=f"the graph would need {condition}, and the example has {own}",
            reason=f"it comes from {condition.origin}",
            hint="give an example whose dynamic dimensions are all different and more than 1",
        )
    )


def unreachable(path: str, line: Source | None) -> TraceError:
    """A model that has torch's capture call what no program can call."""
    where = f" at {line}" if line is not None else ""
    code = f"  {line.code}\n  " if line is not None and line.code else ""
    return TraceError(
        Diagnostic(
            code="unreachable",
            title=f"the model does what no program can call{where}",
            reason=f"{code}torch's capture calls {path} here, which has no import path",
            hint="write it with tensor operators, or register it as an operator",
        )
    )


def replaces_data(line: Source | None) -> TraceError:
    """A model that gives a tensor other data, of another shape or dtype."""
    where = f" at {line}" if line is not None else ""
    code = f"  {line.code}\n  " if line is not None and line.code else ""
    return TraceError(
        Diagnostic(
            code="replaces-data",
            title=f"the model gives a tensor data of another shape or dtype{where}",
            reason=f"{code}what is held between calls keeps its shape and dtype",
            hint="data of the same shape and dtype are written in place, like x.copy_(data)",
        )
    )


def function_transform(line: Source | None) -> TraceError:
    """A model that transforms functions: torch.vmap, torch.func.grad and their kin."""
    where = f" at {line}" if line is not None else ""
    code = f"  {line.code}\n  " if line is not None and line.code else ""
    return TraceError(
        Diagnostic(
            code="function-transform",
            title=f"the model transforms a function{where}",
            reason=f"{code}what torch.vmap, torch.func.grad and their kin run inside has no plan",
            hint="write it for the whole batch, or register the function as an operator",
        )
    )


def context_function(line: Source | None) -> TraceError:
    """A checkpoint that chooses with ``context_fn`` what is kept and what is computed again."""
    where = f" at {line}" if line is not None else ""
    code = f"  {line.code}\n  " if line is not None and line.code else ""
    return TraceError(
        Diagnostic(
            code="context-fn",
            title=f"torch.utils.checkpoint is given a context_fn{where}",
            reason=f"{code}it chooses among the operators that run on one device, and a rank runs "
            "others; a region is run again as a whole",
            hint="leave context_fn out, or checkpoint smaller parts of the model",
        )
    )


def refused(error: Exception) -> DimsolveError:
    """Returns the refusal for what torch raised."""
    if isinstance(error, DimsolveError):
        return error
    line = _line_of(error)
    text = str(error)
    if "checkpoint not implemented for" in text and "context_fn" in text:
        return context_function(line)
    summary = _summary(text)
    where = f" at {line}" if line is not None else ""
    code, title = "not-captured", f"the model cannot be captured as one graph{where}"
    hint = ""
    if "ata-dependent" in text or "data dependent" in text.lower():
        code = "data-dependent"
        title = f"what the model does depends on data{where}"
        hint = "write it with tensor operators (torch.where), or register it as an operator"
    if "convert all Tensors to FakeTensors" in text and "device='meta'" in text:
        hint = (
            "on meta torch.tensor(...) cannot be captured: make it by torch.full or torch.arange, "
            "or trace the model on cpu"
        )
    code_line = [f"  {line.code}"] if line is not None and line.code else []
    return TraceError(Diagnostic(code, title, reason="\n  ".join([*code_line, summary]), hint=hint))


def _summary(text: str) -> str:
    """The first lines of torch's message, without its stack and advice."""
    lines = [line.strip() for line in text.splitlines()]
    kept = []
    for line in lines:
        if line.startswith(("from user code", "Set TORCH", "Developer debug", "Hint:")):
            break
        line = line.removeprefix("Explanation: ")
        if line:
            kept.append(line)
    return " ".join(kept)[:500]


def _line_of(error: BaseException) -> Source | None:
    """The innermost line of the user's code that torch names for an error."""
    seen: BaseException | None = error
    while seen is not None:
        stack = getattr(seen, "real_stack", None)
        frames = [frame for frame in stack or () if "/torch/" not in frame.filename]
        if frames:
            return source(frames[-1].filename, frames[-1].lineno or 0)
        seen = seen.__cause__ or seen.__context__
    return None
