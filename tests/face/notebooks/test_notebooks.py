"""The notebooks as they are committed: run from the beginning, with pictures that need no script,
and with nothing in them that another machine or another run would change.

``pytest --nbmake notebooks`` runs them, and so their assertions; here their outputs are read.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbconvert
import nbformat
import pytest

from tests.oracles.pictures import read_picture

FOLDER = Path(__file__).parents[3] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = [path for path in NOTEBOOKS if path.name < "05"]
"""Those that load no model: they are run here once more, and must give what they show."""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


class Page(HTMLParser):
    """What is left of a page where no script runs: its pictures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.hidden = 0
        self.svgs: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "template"):
            self.hidden += 1
        source = dict(attrs).get("src") or ""
        head = "data:image/svg+xml;base64,"
        if tag == "img" and source.startswith(head) and not self.hidden:
            self.svgs.append(base64.b64decode(source.removeprefix(head)).decode())

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "template"):
            self.hidden -= 1


def outputs(notebook: Any) -> list[Any]:
    """All outputs of a notebook, in order."""
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def pictures(notebook: Any) -> list[str]:
    """The SVG texts among the outputs."""
    data = [output.get("data", {}) for output in outputs(notebook)]
    return [each["image/svg+xml"] for each in data if "image/svg+xml" in each]


def test_there_are_eight_notebooks() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == ["01", "02", "03", "04", "05", "06", "07", "08"]


@each_notebook
def test_it_was_run_from_the_beginning_and_ends_in_assertions(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert "assert " in code[-1].source and notebook.cells[-1] is code[-1]
    assert all(output.output_type != "error" for output in outputs(notebook))
    assert all(output.get("name") != "stderr" for output in outputs(notebook))


@each_notebook
def test_nothing_in_it_is_of_one_machine_or_one_moment(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    assert not re.search(r"/(home|tmp|root|Users|usr|var|work)/|0x[0-9a-f]{6,}|model_id", text)
    assert not re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d", text)


@each_notebook
def test_its_pictures_are_there_without_javascript(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    drawn = pictures(notebook)
    assert drawn
    for svg in drawn:
        read_picture(svg)
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert Page(html).svgs == drawn


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_a_quick_one_gives_what_it_shows(path: Path) -> None:
    spec = importlib.util.spec_from_file_location("refresh", FOLDER / "refresh.py")
    assert spec is not None and spec.loader is not None
    refresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(refresh)
    committed = nbformat.read(path, as_version=4)
    again = refresh.executed(path)
    for before, after in zip(committed.cells, again.cells, strict=True):
        assert before == after, f"run `python notebooks/refresh.py`: {before.source}"
