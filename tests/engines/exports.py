"""How many of the library's operators DTensor, Shardy and JAX can be told, and why not the others.

    python -m tests.engines.exports

For the examples of every operator: the strategies for DTensor's `register_sharding` are made of the
call, with a placement for every result and argument; the sharding rule is parsed by Shardy and read
by jax from its own text. What is refused is counted by its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import dimsolve as ds
from dimsolve.exec.calls import Call
from dimsolve.exec.verification.verify import library_examples, operator_for
from dimsolve.ir.errors import DimsolveError, OperatorError
from dimsolve.solver.operators import names


def strategies(name: str, call: Any) -> None:
    """Raises OperatorError where DTensor cannot be told, AssertionError where what is made has not
    one placement for every result and argument.
    """
    rows = ds.to_register_sharding(name)(*call.arguments.args, **dict(call.arguments.kwargs))
    results = {len(outputs) for outputs, _ in rows}
    given = {sum(each is not None for each in inputs) for _, inputs in rows}
    assert len(results) == 1, f"{name}: {results} results"
    assert given == {len(call.arguments.tensors())}, f"{name}: {given} tensors"


def rule(name: str, call: Any) -> None:
    """Raises DimsolveError where Shardy cannot be told, and what Shardy or jax raise."""
    from jax._src import custom_partitioning_sharding_rule as jax_rule
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    declaration = call.declaration
    shapes = [None if t is None else tuple(t.shape) for t in declaration.inputs]
    annotation, arguments = declaration.annotation, dict(declaration.arguments)
    made = ds.to_shardy(annotation, shapes, arguments=arguments)
    outputs = ds.infer(annotation, shapes, arguments=arguments).outputs
    with mlir.make_ir_context(), ir.Location.unknown():
        assert str(ir.Attribute.parse(made.text)) == made.text
        read = jax_rule.str_to_sdy_sharding_rule(
            made.rule,
            reduction_factors=made.reduction,
            need_replication_factors=made.replicated,
            **made.factor_sizes,
        )
        types = [
            [ir.RankedTensorType.get([int(str(n)) for n in s], ir.F32Type.get()) for s in side]
            for side in (shapes, outputs)
        ]
        text = str(jax_rule.sdy_sharding_rule_to_mlir(read, *types))
    assert text.replace(", custom>", ">") == made.text, name


def main() -> None:
    """Prints the totals."""
    found: dict[str, Counter[str]] = {"register_sharding": Counter(), "Shardy, JAX": Counter()}
    for name in names():
        try:
            calls = [
                Call(operator_for(name), a) for a in library_examples(operator_for(name), "cpu")
            ]
        except OperatorError:
            calls = []
        for format, ask in (("register_sharding", strategies), ("Shardy, JAX", rule)):
            reasons = [_asked(ask, name, call) for call in calls] or ["it has no example to run"]
            # One call that can be said is enough; else the reason is that of the first.
            found[format]["" if "" in reasons else reasons[0]] += 1
            for reason in reasons:
                if reason.startswith("!"):
                    print(format, name, reason, flush=True)
    for format, reasons_of in found.items():
        print(f"{format}: {reasons_of['']} of {sum(reasons_of.values())} operators")
        for reason, number in reasons_of.most_common():
            if reason:
                print(f"  {number:4} {reason}")


def _asked(ask: Any, name: str, call: Any) -> str:
    """Why a call cannot be said; "" where it can."""
    try:
        ask(name, call)
    except DimsolveError as error:
        reason = str(error.diagnostic.reason)
        return re.sub(r"'[^']*'|[\w.]+(?= writes)|\d+", "...", reason)
    except Exception as error:
        return f"! {type(error).__name__}: {str(error)[:120]}"
    return ""


if __name__ == "__main__":
    main()
