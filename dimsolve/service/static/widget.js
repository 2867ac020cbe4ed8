/**
 * The Jupyter widget (anywidget): the same playground; questions go over the widget's comm to the
 * kernel, the state is a trait that Python reads and writes.
 */

import { mount } from "./app.js";
import { overComm } from "./comm.js";
import { EMPTY, toFragment } from "./state.js";

/** Keys are for the fields and sliders here, not for the notebook's own shortcuts. */
function keepKeys(el) {
  el.dataset.lmSuppressShortcuts = "true"; // JupyterLab looks for it on the way up
  el.addEventListener("keydown", (event) => event.stopPropagation());
}

function render({ model, el }) {
  keepKeys(el);
  const app = mount(el, {
    ask: overComm(model, () => app.again()),
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
