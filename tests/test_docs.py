"""What the documentation shows is what happens: the README's examples and every doctest."""

from __future__ import annotations

import doctest
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dimsolve

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
MODULES = sorted(module.name for module in pkgutil.walk_packages(dimsolve.__path__, "dimsolve."))


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    """Every ``$ dimsolve ...`` of the README with what is shown below it."""
    found = []
    for block in blocks("console"):
        _, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
        for part in parts:
            command = re.match(r"(?:.*\\\n)*.*\n", part)
            assert command is not None
            found.append((command[0], part[command.end() :]))
    return found


@pytest.mark.parametrize(("command", "shown"), sessions())
def test_readme_commands_print_what_it_shows(command: str, shown: str) -> None:
    words = shlex.split(command)
    assert words[0] == "dimsolve"
    run = subprocess.run(
        [sys.executable, "-P", "-m", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if words[1] == "run" else subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert unmeasured(run.stdout) == unmeasured(shown)


def unmeasured(text: str) -> str:
    """The text without times, and without what rounding makes of losses: machines differ."""
    text = re.sub(r"\b\d+\.\d ms", "... ms", text.strip())
    return re.sub(r"\b\d\.\de-\d\d\b", "...e-07", re.sub(r"(loss \d\.\d{3})\d+", r"\1", text))


def test_the_readme_has_examples() -> None:
    """Guards the tests above against a README whose blocks are not found."""
    assert len(sessions()) >= 5
    assert any(">>> " in block for block in blocks("python"))


@pytest.mark.parametrize("block", blocks("python"))
def test_readme_python_prints_what_it_shows(block: str) -> None:
    test = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted > 0 and results.failed == 0


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
    picture = (ROOT / "docs" / "images" / f"{name}.svg").read_text()
    assert calls[name]()._repr_svg_() == picture.strip()
    assert f"](docs/images/{name}.svg)" in README
