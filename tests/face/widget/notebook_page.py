"""What a notebook's page is for an anywidget: it imports the widget's module, gives it a model, and
hands messages to the kernel, which is this process and the real `Explorer`.
"""

from __future__ import annotations

import json
from operator import itemgetter
from queue import SimpleQueue
from typing import Any

from playwright.sync_api import Page

from dimsolve.widget.widget import STATIC, Explorer, module_text

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
    send: content => { window.toKernel(JSON.stringify({ content })); },
  };
  window.emit = emit;
  window.fromKernel = state => { values.state = state; emit('change:state'); };
  setInterval(async () => {
    for (const message of JSON.parse(await window.told())) emit('msg:custom', message, []);
  }, 30);
  for (const name of ['el', 'second'].slice(0, window.views ?? 1)) {
    const el = Object.assign(document.createElement('div'), { id: name });
    document.body.append(el);
    window.cleanup = await widget.render({ model, el });
  }
}
"""


class Kernel:
    """The comm's other end. ``gone``: no message arrives any more."""

    def __init__(self, widget: Explorer) -> None:
        self.widget = widget
        self.sent: SimpleQueue[Any] = SimpleQueue()
        self.gone = False
        widget.send = lambda content, buffers=None: self.sent.put(content)  # type: ignore[method-assign]

    def take(self, text: str) -> None:
        message = json.loads(text)
        if self.gone:
            return
        if "state" in message:
            self.widget.state = message["state"]
        else:
            self.widget._handle_custom_msg(message["content"], [])

    def told(self) -> str:
        """What was sent since the last time."""
        return json.dumps([self.sent.get() for _ in range(self.sent.qsize())])

    def answers(self, *questions: dict[str, Any]) -> list[Any]:
        """Asks as a page does, and waits for all answers."""
        content = {"view": "v", "id": 1, "questions": questions}
        self.take(json.dumps({"content": content}))
        assert self.sent.get() == {"view": "v", "id": 1, "heard": True}
        found = sorted((self.sent.get(timeout=300) for _ in questions), key=itemgetter("number"))
        assert [message["number"] for message in found] == list(range(len(questions)))
        return [message["answer"] for message in found]


def shown(page: Page, widget: Explorer) -> Kernel:
    kernel = Kernel(widget)
    page.expose_function("toKernel", kernel.take)
    page.expose_function("told", kernel.told)
    css = (STATIC / "app.css").read_text(encoding="utf-8")
    page.evaluate(MODEL, {"code": module_text(), "css": css, "state": widget.state})
    return kernel
