"""`ds.explore`: the playground's module over a comm, answered by Python; a picture before it.

The page is what a notebook's page is for an anywidget: it imports the widget's module, gives it a
model, and hands messages to the kernel, which is this process and the real `Explorer`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from playwright.sync_api import Page, expect

import dimsolve as ds
from dimsolve.widget.widget import STATIC, module_text
from tests.face.browser import cells_of, marked

from .notebook_page import Kernel, shown


def test_the_widget_is_the_playground_answered_by_python(notebook: Page) -> None:
    widget = ds.explore("b h -> b h", ["batch, 32"], split={"h": 8})
    shown(notebook, widget)
    expect(notebook.locator(".summary")).to_contain_text("legal h into 8")
    assert cells_of(notebook, ".tensors")[0] == ["input 0", "b h", "batch, 32", "S(1)", "batch, 4"]
    slider = notebook.get_by_role("slider", name="parts of h")
    slider.press("ArrowRight")
    reason = ds.check("b h -> b h", ["batch, 32"], "h", 9).reason
    expect(notebook.locator(".because")).to_have_text(reason)
    assert set(marked(notebook, "bad")) == {"h"}
    assert widget.legalities["h"].verdict == "illegal"
    slider.press("PageDown")
    expect(notebook.locator(".summary")).to_contain_text("legal h into 8")
    assert widget.legalities["h"].verdict == "legal"


def test_typing_is_answered_and_an_error_marked(notebook: Page) -> None:
    widget = ds.explore("m k+, k+ n -> m n")
    shown(notebook, widget)
    expect(notebook.locator(".tensors tbody tr")).to_have_count(3)
    notebook.get_by_label("Annotation", exact=True).fill("m k+, k n -> m n")
    expect(notebook.locator(".annotation .field-problem")).to_contain_text(
        "one identifier, two marks"
    )
    assert "".join(marked(notebook, "wrong")) == "k+k"
    notebook.get_by_label("Annotation", exact=True).fill("m k+, k+ n -> n m")
    expect(notebook.locator(".tensors tbody tr").last).to_contain_text("n, m")
    assert [str(dim) for dim in widget.solution.outputs[0] or ()] == ["n", "m"]


def test_python_changes_the_page(notebook: Page) -> None:
    widget = ds.explore("m n -> n m")
    shown(notebook, widget)
    expect(notebook.locator(".tensors tbody tr")).to_have_count(2)
    notebook.evaluate(
        "state => window.fromKernel(state)", {**widget.state, "annotation": "a b -> a"}
    )
    expect(notebook.get_by_label("Annotation", exact=True)).to_have_value("a b -> a")
    expect(notebook.locator(".tensors tbody tr").last).to_contain_text("output 0")
    notebook.evaluate("window.cleanup()")


def test_keys_are_not_taken_by_the_notebook(notebook: Page) -> None:
    """JupyterLab leaves alone what stands below this attribute; others hear nothing."""
    shown(notebook, ds.explore("b h -> b h", ["batch, 32"], split={"h": 8}))
    notebook.evaluate("document.addEventListener('keydown', () => { window.heard = true; })")
    slider = notebook.locator("[data-lm-suppress-shortcuts=true]").get_by_role("slider").last
    slider.press("ArrowRight")
    expect(notebook.locator(".summary")).to_contain_text("illegal h into 9")
    assert notebook.evaluate("window.heard") is None


def test_two_views_in_one_page_do_not_disturb_each_other(notebook: Page) -> None:
    """Messages go to all that show a widget: each takes the answers to its own questions."""
    notebook.evaluate("window.views = 2")
    shown(notebook, ds.explore("a b -> b a", split={"a": 2}))
    for name in ("el", "second"):
        expect(notebook.locator(f"#{name} .summary")).to_contain_text("a into 2")
    notebook.locator("#el").get_by_label("Annotation", exact=True).fill("x y z -> z")
    expect(notebook.locator("#el .equations")).to_contain_text("z = z")
    notebook.locator("#second").get_by_label("Facts").fill("b >= 2")
    expect(notebook.locator("#second .summary")).to_contain_text("conditional a into 2")
    expect(notebook.locator("#el .equations")).to_contain_text("z = z")
    ids = notebook.eval_on_selector_all(
        "[id]", "found => found.map(e => e.closest('.dimsolve') && e.id)"
    )
    groups = notebook.eval_on_selector_all(".dimsolve", "found => found.length")
    assert groups == 2 and len(ids) > 10


@pytest.mark.parametrize(
    ("split", "pictures"), [({}, 1), ({"k": 8}, 1), ({"k": 8, "m": 2}, 2)], ids=str
)
def test_a_picture_stands_before_the_widget(split: dict[str, int], pictures: int) -> None:
    """A viewer without JavaScript shows it: SVG only, nothing else beside it."""
    InteractiveShell.instance()
    widget = ds.explore("m k+, k+ n -> m n", ["m, k", "k, n"], split=split)
    with capture_output() as captured:
        widget._ipython_display_()
    *before, last = [output.data for output in captured.outputs]
    assert len(before) == pictures
    for data in before:
        assert set(data) == {"image/svg+xml", "text/plain"}
        assert data["image/svg+xml"].startswith("<svg ")
        assert "<script" not in data["image/svg+xml"]
    assert "application/vnd.jupyter.widget-view+json" in last


def test_what_cannot_be_read_is_shown_in_the_widget_alone() -> None:
    InteractiveShell.instance()
    with capture_output() as captured:
        ds.explore("m k+, k n -> m n")._ipython_display_()
    assert len(captured.outputs) == 1


def test_shapes_of_all_forms_become_text() -> None:
    """Those that `infer` takes: numbers, texts, SymPy expressions, none at all."""
    (shape,) = ds.infer("(h t) -> h t", ["8*s"], arguments={"h": 8}).outputs
    widget = ds.explore(
        "a b, c, ?, () -> a", [shape, [64], None, []], arguments={"a": 8}, facts=["s >= 2"]
    )
    assert widget.state["inputs"] == ["8, s", "64", "", "()"]
    assert widget.state["args"] == "a=8" and widget.state["facts"] == "s >= 2"
    assert widget.solution.conditions == ()
    with pytest.raises(ds.AnnotationError, match="input 0 has a dimension that is None"):
        ds.explore("a b -> a", [[None, 2]])


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({"verb": "prove", "claim": "n > 0"}, 200),
        ({"verb": "prove", "claim": "n >"}, 422),
        ({"verb": "parse", "text": "a"}, 422),
        ({"verb": "plan", "example": "llama:tiny"}, 404),
        ({"verb": "os.system"}, 404),
    ],
)
def test_the_kernel_answers_as_the_service_does(question: dict[str, Any], status: int) -> None:
    (answer,) = Kernel(ds.explore("a -> a")).answers(question)
    assert answer["status"] == status


def test_without_anywidget_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['anywidget'] = None\n"
        "import dimsolve as ds\n"
        "try: ds.explore('a -> a')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == (
        "ds.explore needs the package anywidget: pip install 'dimsolve[notebook]'\n"
    ), done.stderr


def test_every_module_is_joined_but_those_of_the_page() -> None:
    """The widget has all that the playground has, except how the page asks and keeps its state."""
    files = {path.stem for path in STATIC.glob("*.js")}
    joined = {name for name in files if f"modules.{name} = " in module_text()}
    pages = {"main", "http", "models", "configs", "operators"}
    assert files - joined == {"widget", *pages}
    assert "import {" not in module_text() and "fetch(" not in module_text()
