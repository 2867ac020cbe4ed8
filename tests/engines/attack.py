"""Plans that are altered at one place: whatever the audit calls legal, transformers agrees with.

    python -m tests.engines.attack llama mixtral

Styles are replaced, swapped, left out, added, put on parameters, on parents and on names that no
module has; transformers loads and runs each altered plan on two gloo ranks. A line for each, and
CONTRADICTED where the audit is.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dimsolve as ds
from dimsolve.exec.engines.audit import prepared
from dimsolve.partition.engines.tp_plan import RETIRED, STYLES

from . import tiny
from .engine import World, prepare


def altered(own: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """What is changed, and the rules that change it."""
    styles = sorted(STYLES)
    for number, (key, style) in enumerate(own.items()):
        other = styles[(styles.index(style) + 1 + number) % len(styles)]
        yield f"{key}: {other}", {key: other}
        yield f"{key}: left out", {key: "replicate"}
        if number % 2 == 0:
            yield f"{key}.weight: {style}", {key: "replicate", f"{key}.weight": style}
            yield (
                f"{key}: a packed style",
                {key: "packed_colwise" if "col" in style else "packed_rowwise"},
            )
        else:
            yield f"{key}: a retired style", {key: list(RETIRED)[number % len(RETIRED)]}
    keys = list(own)
    for one, two in zip(keys[::2], keys[1::2], strict=False):
        yield f"{one} and {two} swapped", {one: own[two], two: own[one]}
    first = next(key for key in keys if "*" in key)
    yield "a number", {first.replace("*", "0"): "replicate"}
    yield "a pattern", {first.replace("*", r"\\d+"): "colwise"}
    yield "a parent", {first.rpartition(".")[0]: "colwise"}
    yield "everything", {"*": "colwise"}
    yield "the head is left in parts", {"lm_head": "colwise"}
    yield "the head is cut in rows", {"lm_head": "rowwise_split_input"}
    yield "a norm is summed", {"model.norm": "replicated_with_grad_allreduce"}
    yield "a norm over the sequence", {"model.norm": "sequence_parallel"}


def main() -> None:
    """Asks both about every altered plan."""
    warnings.simplefilter("ignore")
    world = World(2)
    totals: Counter[tuple[str, str]] = Counter()
    for folder in sys.argv[1:]:
        model, inputs = tiny.model_of(folder), tiny.inputs_of(folder)
        with tempfile.TemporaryDirectory() as home:
            prepare(Path(home), prepared(model), inputs)
            for what, plan in altered(dict(model.tp_plan)):
                try:
                    found = ds.audit(model, plan, kwargs=inputs, counts=(2,), correct=False).at(2)
                    verdict, said = found.verdict, [str(each) for each in found.findings][:1]
                except Exception as error:
                    verdict, said = "raised", [f"{type(error).__name__}: {error}"]
                if not world.alive:
                    world = World(2)
                answer = world.ask(home, type(model).__name__, plan, 2)
                seen = next(
                    (answer[s] for s in ("load", "forward", "gradients") if answer.get(s)), ""
                )
                wrong = (verdict == "legal" and seen) or (verdict == "illegal" and not seen)
                totals[verdict, "differs" if seen else "equal"] += 1
                mark = "CONTRADICTED " if wrong else ""
                print(
                    f"{mark}{folder} {what}: {verdict} {said}; {seen[:90] or 'equal'}", flush=True
                )
    world.close()
    print(dict(totals))


if __name__ == "__main__":
    main()
