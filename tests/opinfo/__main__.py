"""How many operators of torch's database are annotated, traced, cut and equal to one device.

    python -m tests.opinfo                              all of them: minutes
    python -m tests.opinfo --name 'fft.*' --name conv   those whose names match, or have it inside
    python -m tests.opinfo --family linalg              those whose operators this family declares
    python -m tests.opinfo --keep found.jsonl           what is in the file is not run again

Prints a table of counts, and what is not annotated with its reason, what is refused with the words
of the refusal, and what is wrong. Exits with 1 where something is wrong, or where the table of what
has no annotation (`tests.opinfo.reasons`) is not what was found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.operators import canonical
from dimsolve.solver.operators.paths import family_of

from .harness import Outcome, entries, try_entry
from .reasons import WITHOUT


def family(entry: Any) -> str:
    """The family that declares the operator of an entry, "" where none is found by its names."""
    spellings = (path_of(entry.op), f"torch.{entry.name}", f"torch.Tensor.{entry.name}")
    found = (canonical(path) for path in spellings)
    return next((family_of(path) or "" for path in found if path), "")


def chosen(names: Sequence[str], families: Sequence[str]) -> dict[str, Any]:
    """The entries that match a name and a family; all where none is given."""

    def named(entry: str) -> bool:
        return any(fnmatchcase(entry, name) or name in entry for name in names)

    return {
        name: entry
        for name, entry in entries().items()
        if (not names or named(name))
        and (not families or any(part in family(entry) for part in families))
    }


def outcomes(wanted: dict[str, Any], samples: int, keep: Path | None) -> Iterator[Outcome]:
    """Yields what came of each entry, with a bar on stderr."""
    known: dict[str, Outcome] = {}
    if keep is not None and keep.exists():
        rows = map(json.loads, keep.read_text(encoding="utf-8").splitlines())
        known = {row["name"]: Outcome(**{k: _frozen(v) for k, v in row.items()}) for row in rows}
    columns = (TextColumn("{task.description:<40.40}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("", total=len(wanted))
        for name, entry in wanted.items():
            progress.update(task, description=name)
            found = known.get(name)
            if found is None:
                found = try_entry(entry, samples)
                if keep is not None:
                    with keep.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(found)) + "\n")
            progress.advance(task)
            yield found


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def table(found: Sequence[Outcome]) -> str:
    """The counts of entries, one a line."""
    rows = {
        "entries": len(found),
        "traced": sum(bool(each.traced) for each in found),
        "annotated": sum(bool(each.annotated) for each in found),
        "planned": sum(bool(each.planned) for each in found),
        "cut": sum(bool(each.cut) for each in found),
        "cut and equal": sum(each.equal for each in found),
        "of these random, equal in shape": sum(each.equal and each.random for each in found),
        "wrong": sum(bool(each.wrong) for each in found),
        "without annotation": sum(not each.annotated for each in found),
        "samples": sum(each.samples for each in found),
        "runs on ranks": sum(each.runs for each in found),
    }
    return "\n".join(f"{name:<32}{count:>7}" for name, count in rows.items())


def lists(found: Sequence[Outcome]) -> Iterator[str]:
    """Yields what is behind the counts: a heading, and a line for each entry."""
    rows = {
        "without annotation": [
            (each.name, WITHOUT.get(each.name, f"NO REASON IS GIVEN: {each.unknown or each.left}"))
            for each in found
            if not each.annotated
        ],
        "listed as without annotation, and annotated": [
            (each.name, WITHOUT[each.name])
            for each in found
            if each.annotated and each.name in WITHOUT
        ],
        "annotated and never cut": [
            (each.name, "; ".join(each.left) or "no length is a multiple of a small prime")
            for each in found
            if each.annotated and not each.cut
        ],
        "refused": [(each.name, text) for each in found for text in each.refused],
        "wrong": [(each.name, text) for each in found for text in each.wrong],
    }
    for heading, lines in rows.items():
        if lines:
            yield f"\n{heading}"
            yield from (f"  {name:<44} {text}" for name, text in lines)


def is_as_listed(found: Sequence[Outcome]) -> bool:
    """Whether nothing is wrong, and exactly what is listed has no annotation."""
    listed = all((each.name in WITHOUT) is not bool(each.annotated) for each in found)
    return listed and not any(each.wrong for each in found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--name", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--family", action="append", default=[], metavar="FAMILY")
    parser.add_argument("--samples", type=int, default=8, help="so many of each entry (8)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="outcomes, as JSON lines")
    given = parser.parse_args(arguments)
    found = list(outcomes(chosen(given.name, given.family), given.samples, given.keep))
    print("\n".join([table(found), *lists(found)]))
    return 0 if is_as_listed(found) else 1


if __name__ == "__main__":
    sys.exit(main())
