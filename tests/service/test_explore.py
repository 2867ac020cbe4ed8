"""`ds.explore`: the playground's module over a comm, answered by Python; a picture before it.

The page is what a notebook's page is for an anywidget: it imports the widget's module, gives it a
model, and hands messages to the kernel, which is this process and the real `Explorer`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from playwright.sync_api import Browser, Page, expect

import dimsolve as ds
from dimsolve.explorer import STATIC, Explorer, module_text

from .browser import cells_of, marked

MODEL = """
async ({ code, css, state }) => {
  document.head.append(Object.assign(document.createElement('style'), { textContent: css }));
  const url = URL.createObjectURL(new Blob([code], { type: 'text/javascript' }));
  const { default: widget } = await import(url);
  const listeners = {};
  const emit = (name, ...given) => (listeners[name] ?? []).forEach(hear => hear(...given));
  const values = { state };
  const model = {
    get: name => values[name],
    set: (name, value) => { values[name] = value; },
    save_changes: () => window.toKernel(JSON.stringify({ state: values.state })),
    on: (name, hear) => { (listeners[name] ??= []).push(hear); },
    off: (name, hear) => { listeners[name] = (listeners[name] ?? []).filter(h => h !== hear); },
    send: async content => {
      const reply = await window.toKernel(JSON.stringify({ content }));
      emit('msg:custom', JSON.parse(reply), []);
    },
  };
  window.fromKernel = state => { values.state = state; emit('change:state'); };
  const el = document.createElement('div');
  document.body.append(el);
  window.cleanup = await widget.render({ model, el });
}
"""


class Kernel:
    """The comm's other end."""

    def __init__(self, widget: Explorer) -> None:
        self.widget = widget
        self.sent: list[Any] = []
        widget.send = lambda content, buffers=None: self.sent.append(content)  # type: ignore[method-assign]

    def take(self, text: str) -> str:
        message = json.loads(text)
        if "state" in message:
            self.widget.state = message["state"]
            return ""
        self.widget._handle_custom_msg(message["content"], [])
        return json.dumps(self.sent.pop())


def shown(page: Page, widget: Explorer) -> None:
    kernel = Kernel(widget)
    page.expose_function("toKernel", kernel.take)
    css = (STATIC / "app.css").read_text(encoding="utf-8")
    page.evaluate(MODEL, {"code": module_text(), "css": css, "state": widget.state})


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 900, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert errors == []
    assert [url for url in requests if url.startswith("http")] == []


def test_the_widget_is_the_playground_answered_by_python(page: Page) -> None:
    widget = ds.explore("b h -> b h", ["batch, 32"], split={"h": 8})
    shown(page, widget)
    expect(page.locator(".summary")).to_contain_text("legal h into 8")
    assert cells_of(page, ".tensors")[0] == ["input 0", "b h", "batch, 32", "S(1)", "batch, 4"]
    slider = page.get_by_role("slider", name="parts of h")
    slider.press("ArrowRight")
    reason = ds.check("b h -> b h", ["batch, 32"], "h", 9).reason
    expect(page.locator(".because")).to_have_text(reason)
    assert set(marked(page, "bad")) == {"h"}
    assert widget.legalities["h"].verdict == "illegal"
    slider.press("PageDown")
    expect(page.locator(".summary")).to_contain_text("legal h into 8")
    assert widget.legalities["h"].verdict == "legal"


def test_typing_is_answered_and_an_error_marked(page: Page) -> None:
    widget = ds.explore("m k+, k+ n -> m n")
    shown(page, widget)
    expect(page.locator(".tensors tbody tr")).to_have_count(3)
    page.get_by_label("Annotation", exact=True).fill("m k+, k n -> m n")
    expect(page.locator(".annotation .field-problem")).to_contain_text("one identifier, two marks")
    assert "".join(marked(page, "wrong")) == "k+k"
    page.get_by_label("Annotation", exact=True).fill("m k+, k+ n -> n m")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("n, m")
    assert [str(dim) for dim in widget.solution.outputs[0] or ()] == ["n", "m"]


def test_python_changes_the_page(page: Page) -> None:
    widget = ds.explore("m n -> n m")
    shown(page, widget)
    expect(page.locator(".tensors tbody tr")).to_have_count(2)
    page.evaluate("state => window.fromKernel(state)", {**widget.state, "annotation": "a b -> a"})
    expect(page.get_by_label("Annotation", exact=True)).to_have_value("a b -> a")
    expect(page.locator(".tensors tbody tr").last).to_contain_text("output 0")
    page.evaluate("window.cleanup()")


def test_keys_are_not_taken_by_the_notebook(page: Page) -> None:
    """JupyterLab leaves alone what stands below this attribute; others hear nothing."""
    shown(page, ds.explore("b h -> b h", ["batch, 32"], split={"h": 8}))
    page.evaluate("document.addEventListener('keydown', () => { window.heard = true; })")
    slider = page.locator("[data-lm-suppress-shortcuts=true]").get_by_role("slider").last
    slider.press("ArrowRight")
    expect(page.locator(".summary")).to_contain_text("illegal h into 9")
    assert page.evaluate("window.heard") is None


def test_two_widgets_in_one_page_do_not_disturb_each_other(page: Page) -> None:
    page.expose_function("toKernel", Kernel(ds.explore("a -> a")).take)
    for name in "ab":
        state = ds.explore(f"{name} -> {name}", split={name: 2}).state
        page.evaluate(MODEL, {"code": module_text(), "css": "", "state": state})
    expect(page.locator(".summary").first).to_contain_text("a into 2")
    expect(page.locator(".summary").last).to_contain_text("b into 2")
    ids = page.eval_on_selector_all(
        "[id]", "found => found.map(e => e.closest('.dimsolve') && e.id)"
    )
    groups = page.eval_on_selector_all(".dimsolve", "found => found.length")
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
    kernel = Kernel(ds.explore("a -> a"))
    reply = json.loads(kernel.take(json.dumps({"content": {"id": 1, "questions": [question]}})))
    assert reply["id"] == 1
    assert [answer["status"] for answer in reply["answers"]] == [status]


def test_a_question_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is free again soon, and the page is told."""
    from dimsolve import explorer

    def endless(*given: object) -> None:
        while True:
            pass

    monkeypatch.setattr(explorer, "SECONDS", 0.2)
    monkeypatch.setattr(explorer, "answer", endless)
    kernel = Kernel(ds.explore("a -> a"))
    content = {"id": 1, "questions": [{"verb": "prove", "claim": "n > 0"}]}
    (answer,) = json.loads(kernel.take(json.dumps({"content": content})))["answers"]
    assert answer["status"] == 504
    assert answer["problem"]["title"] == "the question was given up"


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
    assert files - joined == {"main", "http", "widget"}
    assert "import {" not in module_text() and "fetch(" not in module_text()
