"""The confusion matrix: our verdicts on transformers' own plans beside what transformers does.

    python -m tests.engines.matrix ours engine written    fills the cache, as far as the time allows
    python -m tests.engines.matrix every experts left counts   writes docs/tp-plans-counts.md
    python -m tests.engines.matrix table                  writes docs/tp-plans.md

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
CHOICES = ("ours", "every", "experts", "left", "counts", "engine", "written", "table")
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


NO_PLAN = "it has no plan"


def with_plan(folder: str) -> Any:
    """Returns the tiny model of a folder with a plan; a text where there is none."""
    model = built(folder)
    return model if isinstance(model, str) or model.tp_plan else NO_PLAN


def built(folder: str) -> Any:
    """Returns the tiny model of a folder; a text where there is none."""
    try:
        model = tiny.model_of(folder)
    except Exception as error:  # a configuration that cannot be small
        return f"{type(error).__name__}: {str(error)[:200]}"
    if sum(p.numel() for p in model.parameters()) > LARGEST:
        return "it has too many parameters"
    return model


def ours(cache: Cache, until: float, only: list[str]) -> None:
    """Audits every folder."""
    from dimsolve.exec.engines.audit import audit

    for folder in only or tiny.folders():
        if (folder in cache.known and not only) or time.monotonic() > until:
            continue
        model = with_plan(folder)
        if isinstance(model, str):
            cache.put(folder, {"left out": model})
            continue
        begun = time.monotonic()
        try:
            inputs = tiny.inputs_of(folder)
            found = audit(model, kwargs=inputs, counts=COUNTS, correct=False)
            counts = {str(each.count): asdict(each) for each in found.counts}
            cache.put(folder, {"counts": counts, "unused": found.unused, "plan": found.plan})
        except Exception as error:
            cache.put(folder, {"error": f"{type(error).__name__}: {str(error)[:300]}"})
        print(folder, f"{time.monotonic() - begun:.1f}", flush=True)
        del model
        gc.collect()


def every(cache: Cache, until: float, only: list[str]) -> None:
    """Asks for all counts: what is proved from the runs of 2 to 8, beside those of 9 to 16."""
    from dimsolve.exec.engines.audit import EXAMINED, _Audit

    for folder in only or tiny.folders():
        if (folder in cache.known and not only) or time.monotonic() > until:
            continue
        model = with_plan(folder)
        if isinstance(model, str):
            continue
        begun = time.monotonic()
        inputs = tiny.inputs_of(folder)
        asked = _Audit(model, dict(model.tp_plan), frozenset(), (), inputs)
        found = asked.run(EXAMINED, False)
        proved = asked.every([each for each in found.counts if each.count <= COUNTS[-1]])
        verdicts = {str(each.count): each.verdict for each in found.counts}
        cache.put(folder, {"verdicts": verdicts, "every": asdict(proved)})
        legal = [each.count for each in found.counts if each.verdict == "legal"]
        said = [count for count in proved.legal if count in EXAMINED]
        wrong = proved.kind != "examined" and said != (legal if proved.kind != "always" else said)
        print(folder, proved, f"{time.monotonic() - begun:.1f}", "WRONG" * wrong, flush=True)
        del model
        gc.collect()


def experts(cache: Cache, until: float, only: list[str]) -> None:
    """Audits every ``ep_plan`` beside what transformers does with it, on 2, 3 and 4 ranks."""
    from dimsolve.exec.engines.audit import audit, prepared

    from .engine import World, prepare

    for count in (2, 3, 4):
        world: World | None = None
        for folder in only or tiny.folders():
            key = f"{folder}/{count}"
            if (key in cache.known and not only) or time.monotonic() > until:
                continue
            model = built(folder)
            if isinstance(model, str) or not (model.ep_plan and model.tp_plan):
                continue
            inputs = tiny.inputs_of(folder)
            try:
                found = audit(model, ep_plan={}, counts=(count,), kwargs=inputs, correct=False)
                known = asdict(found.at(count))
            except Exception as error:
                known = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
            if world is None or not world.alive:
                world = World(count)
            with tempfile.TemporaryDirectory() as home:
                prepare(Path(home), prepared(model), inputs)
                answer = world.ask(home, type(model).__name__, None, count, {})
            cache.put(key, {"ours": known, "engine": answer})
            said = [known.get(n) for n in ("forward", "gradients", "error")]
            print(
                key, said, [f.get("reason") for f in known.get("findings", ())], answer, flush=True
            )
        if world is not None:
            world.close()


def _listed(words: set[str]) -> str:
    return " and ".join(sorted(words))


def left(cache: Cache, until: float, only: list[str]) -> None:
    """Notes the folders of which no tiny model is made, and why."""
    for folder in only or tiny.folders():
        if (folder in cache.known and not only) or time.monotonic() > until:
            continue
        model = built(folder)
        if isinstance(model, str):
            cache.put(folder, model)
        else:
            plans = [name for name in ("tp_plan", "ep_plan") if getattr(model, name, None)]
            cache.put(folder, plans)
        del model
        gc.collect()


def counts_page(home: Path) -> str:
    """Returns the page about all counts, experts, and the folders that are not built."""
    known, dealt, rest = (Cache(home / f"{n}.json").known for n in ("every", "experts", "left"))
    shown = {folder: each for folder, each in sorted(known.items()) if each["every"]}
    agree = [
        (verdict == "legal") == (int(count) in each["every"]["legal"])
        for each in shown.values()
        for count, verdict in each["verdicts"].items()
        if each["every"]["kind"] not in ("examined", "always")
    ]
    lines = [
        "# Plans of transformers, for all counts",
        "",
        "Made by `python -m tests.engines.matrix every experts left counts`, of the tiny models of",
        "[Plans of transformers](tp-plans.md). What is proved of all counts follows from runs of 2 "
        "to 8; 2 to 16",
        f"were then run one by one: of {len(agree)} answers {sum(agree)} are the same "
        f"({len(shown)} of the folders were asked).",
        "",
        "| folder | for all counts |",
        "|---|---|",
    ]
    for folder, each in shown.items():
        every_count = each["every"]
        said = {
            "condition": f"legal exactly where `{every_count['condition']}`",
            "never": "legal for no count",
            "always": "legal for every count",
            "examined": f"as far as it was run: {_cell(every_count['because'])}",
        }[every_count["kind"]]
        lines.append(f"| {folder} | {said} |")
    lines += ["", "## Plans that deal out experts", ""]
    cells: dict[tuple[str, str], int] = {}
    for each in dealt.values():
        engine = each["engine"]
        failed = any(engine.get(step) for step in ("load", "forward", "gradients"))
        ours_said = each["ours"]
        verdict = "error" if "error" in ours_said else ours_said["forward"]
        if verdict != "error" and ours_said["gradients"] == "illegal":
            verdict = "illegal"
        cell = (verdict, "fails or differs" if failed else "equal")
        cells[cell] = cells.get(cell, 0) + 1
    lines += [
        f"The models' own `ep_plan` on {_listed({key.rpartition('/')[2] for key in dealt})} ranks, "
        f"of folders that have a `tp_plan` too, {len(dealt)} questions:",
        "",
        "| our verdict | transformers: equal | transformers: fails or differs |",
        "|---|---:|---:|",
    ]
    for verdict in sorted({verdict for verdict, _ in cells}):
        pair = [cells.get((verdict, seen), 0) for seen in ("equal", "fails or differs")]
        lines.append(f"| {verdict} | {pair[0]} | {pair[1]} |")
    lines += ["", "## Folders that are not built", ""]
    absent = {folder: why for folder, why in rest.items() if isinstance(why, str)}
    lines += [f"Of {len(rest)} folders {len(absent)}:", "", "| folder | why |", "|---|---|"]
    lines += [f"| {folder} | {_cell(why)} |" for folder, why in sorted(absent.items())]
    return "\n".join([*lines, ""])


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
            model = with_plan(folder)
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


def written(cache: Cache, until: float, only: list[str], counts: tuple[int, ...]) -> None:
    """Writes plans for the folders that have none, and lets transformers run them."""
    from dimsolve.exec.engines.audit import prepared
    from dimsolve.exec.engines.written import write_tp_plan

    from .engine import World, prepare

    worlds: dict[int, World] = {}
    for folder in only or tiny.folders():
        for count in counts:
            key = f"{folder}/{count}"
            if (key in cache.known and not only) or time.monotonic() > until:
                continue
            model = built(folder)
            if isinstance(model, str) or model.tp_plan:
                cache.put(key, {"left out": model if isinstance(model, str) else "it has a plan"})
                continue
            inputs = tiny.inputs_of(folder)
            try:
                plan, found = write_tp_plan(model, count, kwargs=inputs)
            except Exception as error:
                cache.put(key, {"error": f"{type(error).__name__}: {str(error)[:300]}"})
                continue
            if not plan:
                cache.put(key, {"nothing": str(found)})
                continue
            world = worlds.get(count)
            if world is None or not world.alive:
                world = worlds[count] = World(count)
            with tempfile.TemporaryDirectory() as home:
                try:
                    prepare(Path(home), prepared(model), inputs)
                except Exception as error:
                    cache.put(key, {"one device": f"{type(error).__name__}: {str(error)[:300]}"})
                    continue
                answer = world.ask(home, type(model).__name__, plan, count)
            cache.put(key, {"plan": plan, "engine": answer})
            print(key, len(plan), answer, flush=True)
    for world in worlds.values():
        world.close()


def table(cache: Path, note: str) -> str:
    """Returns the page: the confusion matrix, the plans that are wrong, the plans that we wrote."""
    ours, engines, ours_written = (
        Cache(cache / f"{name}.json").known for name in ("ours", "engine", "written")
    )
    rows: dict[tuple[str, str, str], int] = {}
    wrong: dict[str, list[str]] = {}
    verdicts: dict[str, dict[int, str]] = {}
    for key, answer in sorted(engines.items()):
        folder, _, count = key.partition("/")
        known = ours.get(folder, {}).get("counts", {}).get(count)
        if "left out" in answer or "one device" in answer or known is None:
            continue
        forward = bool(answer.get("load") or answer.get("forward"))
        for part, failed in (
            ("forward", forward),
            ("gradients", forward or bool(answer.get("gradients"))),
        ):
            cell = (part, known[part], "fails or differs" if failed else "equal")
            rows[cell] = rows.get(cell, 0) + 1
        verdict = "illegal" if "illegal" in (known["forward"], known["gradients"]) else "legal"
        if "unknown" in (known["forward"], known["gradients"]) and verdict == "legal":
            verdict = "unknown"
        verdicts.setdefault(folder, {})[int(count)] = verdict
        if int(count) == 2 and verdict == "illegal":
            finding = known["findings"][-1]
            seen = answer.get("forward") or answer.get("gradients") or answer.get("load")
            wrong[folder] = [finding["module"], finding["reason"], seen]
    return _page(rows, wrong, verdicts, ours_written, note)


def _page(
    rows: dict[tuple[str, str, str], int],
    wrong: dict[str, list[str]],
    verdicts: dict[str, dict[int, str]],
    written: dict[str, Any],
    note: str,
) -> str:
    import torch
    import transformers

    lines = [
        "# The tensor-parallel plans of transformers, audited",
        "",
        f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}: "
        f"{len(verdicts)} folders with a causal LM and a plan of their own, each built tiny (two "
        "layers of width 64, 8 heads, 4 key heads), our verdict beside what transformers does on "
        "gloo ranks: load, forward, backward, compared with one "
        "device. Made by `python -m tests.engines.matrix ours engine written table`."
        + (f" {note}" if note else ""),
        "",
        "| | our verdict | transformers: equal | transformers: fails or differs |",
        "|---|---|---:|---:|",
    ]
    for part in ("forward", "gradients"):
        for verdict in ("legal", "unknown", "illegal"):
            cells = [rows.get((part, verdict, seen), 0) for seen in ("equal", "fails or differs")]
            lines.append(f"| {part} | {verdict} | {cells[0]} | {cells[1]} |")
    lines += ["", "## Plans that are wrong on two ranks", ""]
    lines += [
        "| folder | module | what the audit says | what transformers does |",
        "|---|---|---|---|",
    ]
    for folder, (module, reason, seen) in sorted(wrong.items()):
        lines.append(f"| {folder} | `{module}` | {_cell(reason)} | {_cell(seen)} |")
    lines += ["", "## Counts", "", "Of each folder, the counts for which its plan is right.", ""]
    counts = sorted({count for each in verdicts.values() for count in each})
    lines.append("| folder | " + " | ".join(map(str, counts)) + " |")
    lines.append("|---|" + "---|" * len(counts))
    marks = {"legal": "legal", "illegal": "", "unknown": "?"}
    for folder, found in sorted(verdicts.items()):
        cells = [marks[found[count]] if count in found else "not run" for count in counts]
        lines.append(f"| {folder} | {' | '.join(cells)} |")
    return "\n".join([*lines, *_written_lines(written), ""])


def _written_lines(written: dict[str, Any]) -> list[str]:
    """The part about plans that we wrote."""
    found: dict[str, dict[int, str]] = {}
    rules: dict[str, int] = {}
    for key, answer in written.items():
        folder, _, count = key.partition("/")
        if "engine" in answer:
            engine = answer["engine"]
            bad = next((engine[x] for x in ("load", "forward", "gradients") if engine.get(x)), "")
            found.setdefault(folder, {})[int(count)] = _cell(bad) if bad else "equal"
            rules[folder] = len(answer["plan"])
    if not found:
        return []
    equal = sum(set(each.values()) == {"equal"} for each in found.values())
    lines = [
        "",
        "## Plans that we wrote",
        "",
        f"{len(found)} folders have no plan; ours is loaded by transformers itself and run on "
        f"2 and 4 gloo ranks: {equal} are equal to one device, outputs and gradients.",
        "",
        "| folder | rules | 2 ranks | 4 ranks |",
        "|---|---:|---|---|",
    ]
    for folder, each in sorted(found.items()):
        asked = {n: f"{folder}/{n}" in written for n in (2, 4)}
        cells = [each.get(n, "nothing is cut" if asked[n] else "not run") for n in (2, 4)]
        lines.append(f"| {folder} | {rules[folder]} | {' | '.join(cells)} |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:160]


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", nargs="+", choices=CHOICES)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "matrix")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--note", default="", help="what was run when, for the page")
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
    if "every" in given.work:
        every(Cache(given.cache / "every.json"), until, given.only)
    if "experts" in given.work:
        experts(Cache(given.cache / "experts.json"), until, given.only)
    if "left" in given.work:
        left(Cache(given.cache / "left.json"), until, given.only)
    if "counts" in given.work:
        page = Path("docs/tp-plans-counts.md")
        page.write_text(counts_page(given.cache), encoding="utf-8")
    if "engine" in given.work:
        engine(Cache(given.cache / "engine.json"), until, given.only, tuple(given.counts))
    if "written" in given.work:
        written(Cache(given.cache / "written.json"), until, given.only, (2, 4))
    if "table" in given.work:
        Path("docs/tp-plans.md").write_text(table(given.cache, given.note), encoding="utf-8")
    if time.monotonic() < until:
        print("all done", flush=True)


if __name__ == "__main__":
    main()
