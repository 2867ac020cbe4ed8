"""Writes out what a model maps with ``torch.vmap``, so that it can be cut like everything else.

Inside a mapping a tensor hides the dimension that is mapped over. torch runs every operator in
there by a rule that gives the operators for the whole batch, and these can be recorded:

    child = _add_batch_dim(h, 0, 1)        (batch, d) -> (d)
    linear = linear(child, weight, bias)   (d)                  mm = h @ weight.t()   (batch, d)
    tanh = tanh(linear)                    (d)                  add = mm + bias       (batch, d)
    whole = _remove_batch_dim(tanh, 1, batch, 0)                tanh = tanh(add)      (batch, d)

They are what runs on one device too, in the same order, and autograd sees only them: so the numbers
and the gradients are the same. A mapping stays as it was captured, and runs whole, where these
operators would not say all of it: random numbers (each row has its own), switches of gradients and
autocast, functions with a gradient of their own. There it must not write to a tensor from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch import predispatch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Interpreter, traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from ..modes import modes_kept
from .aten import line_of_the_model
from .errors import function_transform

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

BEGIN: Any = predispatch._vmap_increment_nesting
END: Any = predispatch._vmap_decrement_nesting
COPY: Any = torch.ops.aten.copy_.default
LOAD: Any = predispatch.lazy_load_decompositions
OF_MAPPING: frozenset[Any] = frozenset(
    {
        BEGIN,
        END,
        LOAD,
        predispatch._add_batch_dim,
        predispatch._remove_batch_dim,
    }
)
"""What torch.vmap itself calls."""

LINE = ("stack_trace", "nn_module_stack")
"""What a step says of where it is in the model."""


def write_out(module: GraphModule) -> None:
    """Writes out the mappings of a captured program, in place."""
    for each in module.modules():
        graph = getattr(each, "graph", None)
        if graph is None:
            continue
        for steps in list(_mappings(list(graph.nodes))):
            _write_out(each, steps)
        graph.lint()


def _mappings(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Yields the outermost mappings, from their first step to their last."""
    depth, start = 0, 0
    for place, node in enumerate(nodes):
        if node.target is BEGIN:
            if not depth:
                start = place - 1 if place and nodes[place - 1].target is LOAD else place
            depth += 1
        elif node.target is END:
            depth -= 1
            if not depth:
                yield list(nodes[start : place + 1])


def _write_out(module: torch.nn.Module, steps: Sequence[Node]) -> None:
    inside = set(steps)
    given = list(
        dict.fromkeys(n for step in steps for n in step.all_input_nodes if n not in inside)
    )
    returned = [step for step in steps if any(user not in inside for user in step.users)]
    traced = _recorded(steps, given, returned)
    if (
        traced is not None
        and all(map(_is_plain, steps))
        and all(map(_is_whole, traced.graph.nodes))
    ):
        _replace(steps, given, returned, traced, module)
        return
    # What runs whole has copies of what it is given: what is written to them is lost.
    writes = steps if traced is None else traced.graph.nodes
    if any(map(_writes, writes)):
        raise function_transform(line_of_the_model(steps[0]))


def _recorded(
    steps: Sequence[Node], given: Sequence[Node], returned: Sequence[Node]
) -> GraphModule | None:
    """Returns the operators that the steps run; None where they cannot be recorded. What is written
    to a tensor from outside is a copy into it.
    """
    fakes = [node.meta.get("example_value") for node in given]
    mode = next((fake.fake_mode for fake in fakes if isinstance(fake, FakeTensor)), None)
    if mode is None or any(fake is None for fake in fakes):
        return None

    def run(*values: Any) -> list[Any]:
        env = dict(zip(given, values, strict=True))
        for step in steps:
            with traceback.set_current_meta(step):
                args: Any = map_arg(step.args, env.__getitem__)
                kwargs: Any = map_arg(step.kwargs, env.__getitem__)
                if step.op == "call_method":
                    env[step] = getattr(args[0], str(step.target))(*args[1:], **kwargs)
                else:
                    function: Any = step.target
                    env[step] = function(*args, **kwargs)
        return [env[step] for step in returned]

    try:
        with modes_kept(), mode, traceback.preserve_node_meta(), enable_python_dispatcher():
            traced = make_fx(run)(*fakes)
            traced = make_fx(torch.func.functionalize(Interpreter(traced).run))(*fakes)
    except Exception:  # a rule that torch cannot record
        return None
    traced.graph.eliminate_dead_code()
    return traced


def _is_plain(step: Node) -> bool:
    """Whether a step of a mapping is a function of tensors that can be recorded."""
    if step.op != "call_function":
        return step.op == "call_method"
    if step.target in OF_MAPPING:
        return step.target is not BEGIN or step.args[1] == "error"
    path = f"{getattr(step.target, '__module__', '')}.{getattr(step.target, '__name__', '')}"
    return not (
        isinstance(step.target, torch._ops.HigherOrderOperator)
        or path.startswith(("torch.amp.", "torch._functorch.", "torch._C._functorch."))
        or "grad" in path
    )


def _is_whole(node: Node) -> bool:
    """Whether a recorded step says all that it does."""
    if node.op != "call_function":
        return node.op in ("placeholder", "get_attr", "output")
    if not isinstance(node.target, OpOverload):
        return True  # arithmetic with lengths
    return (
        node.target.namespace == "aten"
        and (not node.target._schema.is_mutable or node.target is COPY)
        and torch.Tag.nondeterministic_seeded not in node.target.tags
    )


def _writes(step: Node) -> bool:
    """Whether a step writes to a tensor."""
    if isinstance(step.target, OpOverload):
        return step.target._schema.is_mutable
    name = str(getattr(step.target, "__name__", step.target))
    return step.op != "placeholder" and name.endswith("_") and not name.endswith("__")


def _replace(
    steps: Sequence[Node],
    given: Sequence[Node],
    returned: Sequence[Node],
    traced: GraphModule,
    module: torch.nn.Module,
) -> None:
    """Puts the recorded steps in the place of the mapping's; constants go to the module."""
    graph = steps[0].graph
    env = dict(zip(traced.graph.find_nodes(op="placeholder"), given, strict=True))
    with graph.inserting_before(steps[0]):
        for node in traced.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            copied = env[node] = graph.node_copy(node, env.__getitem__)
            copied.meta = {key: node.meta[key] for key in LINE if key in node.meta}
            copied.meta["example_value"] = node.meta.get("val")
            if node.op == "get_attr":
                copied.target = f"{steps[0].name}{node.target}"
                setattr(module, copied.target, getattr(traced, str(node.target)))
    results: Any = traced.graph.output_node().args[0]
    for step, result in zip(returned, results, strict=True):
        step.replace_all_uses_with(env[result])
    for step in reversed(steps):
        graph.erase_node(step)
