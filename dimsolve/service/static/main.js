/** The page: questions go over HTTP, the state is in the address, and Back goes back. */

import { mount } from "./app.js";
import { EXAMPLES } from "./examples.js";
import { overHttp } from "./http.js";
import { fromFragment, toFragment } from "./state.js";

const SAME_EDIT_MS = 1500;

/** Keeps the state in the address: one entry in the history per edit, not per key. */
class Address {
  constructor() {
    this._source = null;
    this._time = 0;
  }

  read() {
    return fromFragment(location.hash) ?? EXAMPLES[0].state;
  }

  write(state, source) {
    const fragment = `#${toFragment(state)}`;
    if (fragment === location.hash) return;
    const isLater = performance.now() - this._time > SAME_EDIT_MS;
    const isSameEdit = source === this._source && source !== "example" && !isLater;
    if (isSameEdit) history.replaceState(null, "", fragment);
    else history.pushState(null, "", fragment);
    this._source = source;
    this._time = performance.now();
  }

  /** A new edit begins, whatever it is about. */
  settle() {
    this._source = null;
  }
}

const address = new Address();
const base = new URL(".", location.href);
const app = mount(document.getElementById("playground"), {
  ask: overHttp("", (text) => app.wait(text)),
  state: address.read(),
  changed: (state, source) => address.write(state, source),
  address: base.origin === "null" ? undefined : base.origin + base.pathname,
});

addEventListener("popstate", () => {
  address.settle();
  app.set(address.read());
});
addEventListener("online", () => app.again());
