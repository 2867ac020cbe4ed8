"""The confusion matrix: our verdicts on transformers' own plans beside what transformers does.

    python -m tests.engines.matrix ours engine       fills the cache, as far as the time allows
    python -m tests.engines.matrix table             writes docs/engines-matrix.md

Answers are kept in a folder (``--cache``), so that the work can be done in pieces.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import tiny

COUNTS = (2, 3, 4, 5, 6, 7, 8)
LARGEST = 6_000_000
"""Models of more parameters are left out: they cannot be built tiny."""


class Cache:
    """Answers by folder, in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def put(self, key: str, value: Any) -> None:
        """Keeps an answer."""
        self.known[key] = value
        self.path.write_text(json.dumps(self.known, indent=0, sort_keys=True))


def built(folder: str) -> Any:
    """Returns the tiny model of a folder with a plan; a text where there is none."""
    try:
        model = tiny.model_of(folder)
    except Exception as error:  # a configuration that cannot be small
        return f"{type(error).__name__}: {str(error)[:200]}"
    if sum(p.numel() for p in model.parameters()) > LARGEST:
        return "it has too many parameters"
    return model if model.tp_plan else "it has no plan"


def ours(cache: Cache, until: float, only: list[str]) -> None:
    """Audits every folder."""
    from dimsolve.exec.engines.audit import audit

    for folder in only or tiny.folders():
        if (folder in cache.known and not only) or time.monotonic() > until:
            continue
        model = built(folder)
        if isinstance(model, str):
            cache.put(folder, {"left out": model})
            continue
        begun = time.monotonic()
        try:
            found = audit(model, kwargs=tiny.inputs_of(folder), counts=COUNTS)
            counts = {str(each.count): asdict(each) for each in found.counts}
            cache.put(folder, {"counts": counts, "unused": found.unused, "plan": found.plan})
        except Exception as error:
            cache.put(folder, {"error": f"{type(error).__name__}: {str(error)[:300]}"})
        print(folder, f"{time.monotonic() - begun:.1f}", flush=True)
        del model
        gc.collect()


def engine(cache: Cache, until: float, only: list[str], counts: tuple[int, ...] = COUNTS) -> None:
    """Asks transformers itself, count by count, so that a world serves many folders."""
    from dimsolve.exec.engines.audit import prepared

    from .engine import World, prepare

    world: World | None = None
    for count in counts:
        for folder in only or tiny.folders():
            key = f"{folder}/{count}"
            if (key in cache.known and not only) or time.monotonic() > until:
                continue
            model = built(folder)
            if isinstance(model, str):
                for each in COUNTS:
                    cache.put(f"{folder}/{each}", {"left out": model})
                continue
            if world is None or world.count != count or not world.alive:
                if world is not None:
                    world.close()
                world = World(count)
            with tempfile.TemporaryDirectory() as home:
                try:
                    prepare(Path(home), prepared(model), tiny.inputs_of(folder))
                except Exception as error:
                    cache.put(key, {"one device": f"{type(error).__name__}: {str(error)[:300]}"})
                    continue
                cache.put(key, world.ask(home, type(model).__name__, None, count))
            print(key, cache.known[key], flush=True)
        if world is not None:
            world.close()
            world = None


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", nargs="+", choices=("ours", "engine", "table"))
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "matrix")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--counts", nargs="*", type=int, default=list(COUNTS))
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * given.minutes
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if "ours" in given.work:
        ours(Cache(given.cache / "ours.json"), until, given.only)
    if "engine" in given.work:
        engine(Cache(given.cache / "engine.json"), until, given.only, tuple(given.counts))
    if time.monotonic() < until:
        print("all done", flush=True)


if __name__ == "__main__":
    main()
