/**
 * The Jupyter widget (anywidget): the same playground; questions go over the widget's comm to the
 * kernel, the state is a trait that Python reads and writes.
 *
 *   page    { id: 7, questions: [{ verb: "parse", ... }] }
 *   kernel  { id: 7, answers: [{ status: 200, answer: {...} }] }
 */

import { mount } from "./app.js";
import { EMPTY, toFragment } from "./state.js";

function overComm(model) {
  const waiting = new Map();
  let last = 0;
  model.on("msg:custom", (message) => {
    const settle = waiting.get(message.id);
    if (!settle) return;
    waiting.delete(message.id);
    settle(message.answers);
  });
  return (questions, signal) =>
    new Promise((resolve, reject) => {
      last += 1;
      const id = last;
      waiting.set(id, resolve);
      signal?.addEventListener("abort", () => {
        waiting.delete(id);
        reject(new DOMException("another question came", "AbortError"));
      });
      model.send({ id, questions });
    });
}

/** Keys are for the fields and sliders here, not for the notebook's own shortcuts. */
function keepKeys(el) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab looks for it on the way up
  el.addEventListener("keydown", (event) => event.stopPropagation());
}

function render({ model, el }) {
  keepKeys(el);
  const app = mount(el, {
    ask: overComm(model),
    state: model.get("state"),
    changed: (state) => {
      model.set("state", state);
      model.save_changes();
    },
  });
  const follow = () => {
    const state = { ...EMPTY, ...model.get("state") };
    if (toFragment(state) !== toFragment(app.state)) app.set(state);
  };
  model.on("change:state", follow);
  return () => {
    model.off("change:state", follow);
    app.destroy();
  };
}

export default { render };
