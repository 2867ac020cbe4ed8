"""What the documentation shows is what happens: README, the site's pages, and every doctest."""

from __future__ import annotations

import doctest
import os
import pkgutil
import re
import shlex
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dimsolve

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PAGES = {"README.md": README} | {
    str(path.relative_to(ROOT)): path.read_text() for path in sorted(DOCS.rglob("*.md"))
}
TRAIN = DOCS / "scripts" / "train.py"
MODULES = sorted(module.name for module in pkgutil.walk_packages(dimsolve.__path__, "dimsolve."))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, str, str]]:
    """Every ``$ dimsolve ...`` with its page, and what is shown below it."""
    found = []
    for page in PAGES:
        for block in blocks(page, "console"):
            _, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
            for part in parts:
                command = re.match(r"(?:.*\\\n)*.*\n", part)
                assert command is not None
                found.append((page, command[0], part[command.end() :]))
    return found


@pytest.mark.parametrize(("page", "command", "shown"), sessions())
def test_commands_print_what_is_shown(page: str, command: str, shown: str) -> None:
    words = shlex.split(command)
    assert words[0] == "dimsolve"
    run = subprocess.run(
        [sys.executable, "-P", "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if {"run", "--json"} & set(words) else subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert unmeasured(run.stdout) == unmeasured(shown)


def unmeasured(text: str) -> str:
    """The text without times, and without what rounding makes of losses: machines differ."""
    text = re.sub(r"\b\d+\.\d ms", "... ms", text.strip())
    return re.sub(r"\b\d\.\de-\d\d\b", "...e-07", re.sub(r"(loss \d\.\d{3})\d+", r"\1", text))


def test_the_pages_have_examples() -> None:
    """Guards the tests around it against pages whose blocks are not found."""
    assert len(sessions()) >= 15
    assert len(pages_with_python()) >= 8


def pages_with_python() -> list[str]:
    return [page for page in PAGES if any(">>> " in block for block in blocks(page, "python"))]


@pytest.mark.parametrize("page", pages_with_python())
def test_a_page_prints_what_it_shows(page: str) -> None:
    """All blocks of a page are one session."""
    text = "\n".join(block for block in blocks(page, "python") if ">>> " in block)
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted > 0 and results.failed == 0


INCLUDED = re.compile(r'--8<-- "([\w.]+)(?::(\d+):(\d+))?"\n')


@pytest.mark.parametrize("page", PAGES)
def test_all_python_of_a_page_is_run(page: str) -> None:
    """A block is a session, or lines of a script that a test starts; lines begin and end where the
    script's own paragraphs do.
    """
    for block in blocks(page, "python"):
        if ">>> " in block:
            continue
        included = INCLUDED.fullmatch(block)
        assert included is not None, block
        name, first, last = included.groups()
        lines = (DOCS / "scripts" / name).read_text().splitlines()
        if first is not None:
            assert lines[int(first) - 2] == "" and lines[int(first) - 1] != ""
            assert lines[int(last) - 1] != "" and lines[int(last)] == ""


def test_links_lead_to_pages_that_there_are() -> None:
    """Those of the README; the site's are checked by ``mkdocs build --strict``."""
    links = re.findall(r"\]\(([\w./-]+)\)", README)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_site_has_every_page_once_and_every_public_name() -> None:
    listed = re.findall(r"^ +- [\w ,]+: ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    shown = {
        name for text in PAGES.values() for name in re.findall(r"^::: dimsolve\.(\w+)$", text, re.M)
    }
    assert shown == set(dimsolve.__all__)


def test_the_training_script_runs_on_two_nodes_goes_on_elsewhere_and_equals_one_device(
    tmp_path: Path,
) -> None:
    """Two nodes of two ranks, then two ranks from the checkpoint; and all of it on one rank."""
    first = trained(tmp_path / "parts", nodes=2, ranks=2, dp=2, tp=2, steps=3)
    second = trained(tmp_path / "parts", nodes=1, ranks=2, dp=1, tp=2, steps=5)
    alone = trained(tmp_path / "one", nodes=1, ranks=1, dp=1, tp=1, steps=5)
    assert first[0].startswith("step 1 loss")
    assert second[0] == "resumed at step 3"
    assert unmeasured("\n".join([*first[:3], *second[1:]])) == unmeasured("\n".join(alone))


def trained(folder: Path, *, nodes: int, ranks: int, **options: int) -> list[str]:
    """What the first rank of the script says."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run"),
                *("--nnodes", str(nodes), "--nproc-per-node", str(ranks), "--node-rank", str(node)),
                *("--master-addr", "127.0.0.1", "--master-port", str(port)),
                *(str(TRAIN), *given, "--folder", str(folder)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for node in range(nodes)
    ]
    told = [process.communicate(timeout=900) for process in processes]
    assert all(process.returncode == 0 for process in processes), told[0][1][-3000:]
    return told[0][0].splitlines()


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0


def test_most_modules_are_seen() -> None:
    """Guards the test above against an empty list: all rooms are walked."""
    assert {name.split(".")[1] for name in MODULES} >= {"ir", "solver", "partition", "exec", "cli"}


@pytest.mark.parametrize("name", ["legality", "held"])
def test_the_readme_shows_what_is_drawn(name: str) -> None:
    calls = {
        "legality": lambda: dimsolve.check("m k+, k+ n -> m n", ["m, k", "k, n"], "k", 8),
        "held": lambda: dimsolve.held((4, 6), ["S(0)", "P(sum)"], "dp=2, tp=2"),
    }
    picture = (DOCS / "images" / f"{name}.svg").read_text()
    assert calls[name]()._repr_svg_() == picture.strip()
    assert f"](docs/images/{name}.svg)" in README
