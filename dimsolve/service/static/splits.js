/**
 * The splits: a row per identifier, and up to which count the legal ones are shown.
 *
 * The rows stay while answers come and go, so a slider that is being moved keeps the focus.
 */

import { fill, h } from "./dom.js";
import { at, put } from "./names.js";
import { Row } from "./row.js";
import { MAX_COUNTS } from "./state.js";

export class Splits {
  /** change(patch, source) hears of every split; assume(conditions) that they are facts. */
  constructor(change, assume) {
    this._change = change;
    this._assume = assume;
    this.rows = new Map();
    this.state = null;
    this._list = h("div", { class: "splits" });
    this._upTo = h(
      "select",
      {
        onchange: (event) => change({ upTo: Number(event.target.value) }, "upTo"),
      },
      MAX_COUNTS.map((count) => h("option", { value: count }, String(count))),
    );
    const upTo = h("label", { class: "up-to" }, "counts up to ", this._upTo);
    this.element = h(
      "section",
      { class: "panel splits-panel" },
      h("div", { class: "panel-head" }, h("h2", {}, "Splits"), legend(), upTo),
      this._list,
    );
  }

  /** Shows a state at once, before its answers are there. */
  showState(state) {
    this.state = state;
    this._upTo.value = String(state.upTo);
    for (const [name, row] of this.rows) row.showParts(at(state.splits, name) ?? "1", state.upTo);
  }

  /** Says of all rows that they are being computed: what they showed was about another question. */
  wait() {
    for (const row of this.rows.values()) row.wait();
  }

  /** Rows that were being computed get no answer. */
  giveUp() {
    for (const row of this.rows.values()) row.giveUp();
  }

  /** Shows the rows of the identifiers, answered or not. */
  show(names, colors) {
    const wanted = names.map((row) => row.name);
    for (const name of [...this.rows.keys()]) if (!wanted.includes(name)) this.rows.delete(name);
    for (const name of wanted) if (!this.rows.has(name)) this.rows.set(name, this._row(name));
    const elements = wanted.map((name) => this.rows.get(name).element);
    const shown = [...this._list.children];
    if (shown.length !== elements.length || shown.some((child, k) => child !== elements[k])) {
      fill(
        this._list,
        elements.length ? elements : h("p", { class: "note" }, "no identifier to split"),
      );
    }
    for (const row of names) this.showRow(row, colors);
  }

  /** Shows one row again. */
  showRow(row, colors) {
    this.rows.get(row.name)?.show(row, colors.get(row.name) ?? "", this.state.upTo);
  }

  _row(name) {
    const set = (parts) => {
      const isCut = parts.trim() !== "1" && parts.trim() !== "";
      const splits = put(this.state.splits, name, isCut ? parts.trim() : undefined);
      this._change({ splits: inOrder(splits, [...this.rows.keys()]) }, `split ${name}`);
    };
    const row = new Row(name, set, this._assume);
    row.showParts(at(this.state.splits, name) ?? "1", this.state.upTo);
    return row;
  }
}

/** Mesh axes stand in the order of the identifiers, whichever was split first. */
function inOrder(splits, names) {
  const rank = (name) => (names.includes(name) ? names.indexOf(name) : names.length);
  const entries = Object.entries(splits).sort(([a], [b]) => rank(a) - rank(b));
  return Object.fromEntries(entries);
}

function legend() {
  const item = (kind, text) => h("span", {}, h("span", { class: `tick-key ${kind}` }), text);
  return h(
    "p",
    { class: "legend note", "aria-hidden": "true" },
    item("always", "always legal"),
    item("conditional", "under a condition"),
  );
}
