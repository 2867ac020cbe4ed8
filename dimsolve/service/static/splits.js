/**
 * A slider for every identifier, with its legal counts as ticks, and the verdict beside it.
 *
 * The rows stay while answers come and go, so a slider that is being moved keeps the focus.
 * Arrow keys move by one, Page Up and Page Down from one legal count to the next.
 */

import { fill, freshId, h } from "./dom.js";
import { MAX_COUNTS } from "./state.js";
import { codes } from "./shapes.js";

export const SIGNS = { legal: "✓", conditional: "≈", illegal: "✗", unknown: "?" };
const MARKS = {
  "": "may be split",
  "+": "may be split; outputs without it are then partial sums",
  "^": "never split",
};

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
      { class: "panel" },
      h("div", { class: "panel-head" }, h("h2", {}, "Splits"), legend(), upTo),
      this._list,
    );
  }

  /** Shows a state at once, before its answers are there. */
  showState(state) {
    this.state = state;
    this._upTo.value = String(state.upTo);
    for (const [name, row] of this.rows) row.showParts(state.splits[name] ?? "1", state.upTo);
  }

  /** Shows the answers, a row per identifier. */
  show({ names }, colors) {
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
    for (const row of names)
      this.rows.get(row.name).show(row, colors.get(row.name) ?? "", this.state.upTo);
  }

  _row(name) {
    const set = (parts) => {
      const splits = { ...this.state.splits };
      delete splits[name];
      if (parts.trim() !== "1" && parts.trim() !== "") splits[name] = parts.trim();
      this._change({ splits: inOrder(splits, [...this.rows.keys()]) }, `split ${name}`);
    };
    const row = new Row(name, set, this._assume);
    row.showParts(this.state.splits[name] ?? "1", this.state.upTo);
    return row;
  }
}

/** Mesh axes stand in the order of the identifiers, whichever was split first. */
function inOrder(splits, names) {
  const rank = (name) => (names.includes(name) ? names.indexOf(name) : names.length);
  const entries = Object.entries(splits).sort(([a], [b]) => rank(a) - rank(b));
  return Object.fromEntries(entries);
}

class Row {
  constructor(name, set, assume) {
    this._name = name;
    this._assume = assume;
    this._legal = [1];
    const reason = freshId("reason");
    this._slider = h("input", {
      type: "range",
      min: 1,
      step: 1,
      "aria-label": `parts of ${name}`,
      "aria-describedby": reason,
      oninput: () => {
        this._count.value = this._slider.value;
        set(this._slider.value);
      },
      onkeydown: (event) => this._jump(event, set),
    });
    this._count = h("input", {
      type: "text",
      class: "count",
      spellcheck: "false",
      autocomplete: "off",
      translate: "no",
      "aria-label": `parts of ${name}: a number or a symbol`,
      "aria-describedby": reason,
      oninput: () => set(this._count.value),
      onblur: () => (this._count.value ||= "1"),
    });
    this._ticks = h("div", { class: "ticks", "aria-hidden": "true" });
    this._name_ = h("code", { class: "name" });
    this._length = h("code", { class: "length" });
    this._verdict = h("span", { class: "verdict" });
    this._reason = h("div", { class: "reason", id: reason });
    const track = h("div", { class: "track" }, this._ticks, this._slider);
    const line = h(
      "div",
      { class: "split-line" },
      h("span", { class: "what" }, this._name_, this._length),
      track,
      this._count,
      this._verdict,
    );
    this.element = h(
      "div",
      { class: "split", role: "group", "aria-label": name },
      line,
      this._reason,
    );
  }

  _jump(event, set) {
    const at = Number(this._slider.value);
    const next = {
      PageUp: () => this._legal.find((count) => count > at),
      PageDown: () => this._legal.findLast((count) => count < at),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const count = next();
    if (count === undefined || count > Number(this._slider.max)) return;
    this._slider.value = this._count.value = String(count);
    set(String(count));
  }

  showParts(parts, upTo) {
    this._slider.max = String(upTo);
    const isCount = /^[0-9]+$/.test(parts);
    this._slider.value = isCount ? parts : "1";
    this._slider.classList.toggle("away", !isCount || Number(parts) > upTo);
    if (
      document.activeElement !== this._count &&
      this.element.getRootNode().activeElement !== this._count
    ) {
      this._count.value = parts;
    }
  }

  show(row, color, upTo) {
    this._name_.className = `name ${color}`;
    fill(this._name_, row.name, h("span", { class: "mark" }, row.mark));
    this._name_.title = MARKS[row.mark];
    const length = row.check?.solution.bindings[row.name] ?? row.name;
    fill(this._length, length === row.name ? "" : ` = ${length}`);
    this._length.title = length;
    const verdict = row.check?.verdict ?? "unknown";
    const isWhole = row.check?.parts === "1" && verdict === "legal";
    this._slider.setAttribute(
      "aria-valuetext",
      `${row.parts} parts: ${isWhole ? "whole" : verdict}`,
    );
    const [style, words] = isWhole ? ["whole", "whole"] : verdictOf(row, verdict);
    this._verdict.className = `verdict ${style}`;
    fill(this._verdict, words);
    if (row.counts) this._showCounts(row.counts, upTo);
    fill(this._reason, isWhole ? countsText(row.counts) : this._why(row));
  }

  _showCounts(counts, upTo) {
    const conditional = Object.keys(counts.conditional).map(Number);
    const unknown = Object.keys(counts.unknown).map(Number);
    this._legal = [...counts.always, ...conditional].sort((a, b) => a - b);
    const tick = (kind) => (count) => {
      const mark = h("span", { class: `tick ${kind}` });
      mark.style.setProperty("--at", String((count - 1) / (upTo - 1)));
      return mark;
    };
    fill(
      this._ticks,
      counts.always.filter((count) => count <= upTo).map(tick("always")),
      conditional.map(tick("conditional")),
      unknown.map(tick("unknown")),
    );
  }

  _why(row) {
    if (row.problem) {
      return h("p", {}, row.problem.title, row.problem.detail ? `: ${row.problem.detail}` : "");
    }
    const { reason, conditions, counterexample } = row.check;
    const values = Object.entries(counterexample ?? {}).map(
      ([name, value]) => `${name} = ${value}`,
    );
    return [
      h("p", { class: "because" }, reason),
      conditions.length > 0 &&
        h(
          "p",
          {},
          "legal exactly where ",
          codes(conditions, " and "),
          " ",
          h(
            "button",
            { type: "button", class: "small", onclick: () => this._assume(conditions) },
            "assume it",
          ),
        ),
      values.length > 0 && h("p", {}, "counterexample ", codes(values)),
    ];
  }
}

/** The style and the words of a verdict, or of the problem that stands for one. */
function verdictOf({ problem }, verdict) {
  if (!problem) return [verdict, `${SIGNS[verdict]} ${verdict}`];
  return problem.status >= 500 ? ["unknown", "? given up"] : ["illegal", "✗ unreadable"];
}

function countsText(counts) {
  if (!counts) return null;
  const conditional = Object.entries(counts.conditional);
  const [first] = conditional;
  return h(
    "p",
    { class: "note" },
    "always ",
    codes([ranges(counts.always)]),
    first && [
      " · conditional ",
      codes([ranges(conditional.map(([count]) => Number(count)))]),
      ": ",
      codes([first[0]]),
      " if ",
      codes([first[1]]),
      conditional.length > 1 && ", …",
    ],
  );
}

/** Returns ascending counts as people write them: `3, 5-7, 9`. */
export function ranges(counts) {
  const runs = [];
  for (const count of counts) {
    const last = runs.at(-1);
    if (last && count === last[1] + 1) last[1] = count;
    else runs.push([count, count]);
  }
  return runs
    .map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`))
    .join(", ");
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
