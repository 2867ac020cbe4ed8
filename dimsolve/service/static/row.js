/**
 * A slider for one identifier, with its legal counts as ticks, and the verdict beside it.
 *
 * Arrow keys move by one, Page Up and Page Down from one legal count to the next. What a row shows
 * is about the present question, or it says that it is being computed.
 */

import { fill, freshId, h } from "./dom.js";
import { at } from "./names.js";
import { codes } from "./shapes.js";

export const SIGNS = { legal: "✓", conditional: "≈", illegal: "✗", unknown: "?" };
const MARKS = {
  "": "may be split",
  "+": "may be split; outputs without it are then partial sums",
  "^": "never split",
};

/** set(parts) hears every move, assume(conditions) that they are facts. */
export class Row {
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
    if (this._slider.max !== String(upTo)) this._showCounts(null, upTo);
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
    const length = at(row.check?.solution.bindings ?? {}, row.name) ?? row.name;
    fill(this._length, length === row.name ? "" : ` = ${length}`);
    this._length.title = length;
    if (row.isAsked) {
      this.wait();
      return;
    }
    const verdict = row.check?.verdict ?? "unknown";
    const isWhole = row.check?.parts === "1" && verdict === "legal";
    this._slider.setAttribute(
      "aria-valuetext",
      `${row.parts} ${row.parts === "1" ? "part" : "parts"}: ${isWhole ? "whole" : verdict}`,
    );
    const [style, words] = isWhole ? ["whole", "whole"] : verdictOf(row, verdict);
    this._verdict.className = `verdict ${style}`;
    fill(this._verdict, words);
    this._showCounts(row.counts, upTo);
    fill(this._reason, isWhole ? countsText(row.counts) : this._why(row), noCounts(row));
  }

  /** What is shown is about another question: it goes. */
  wait() {
    this._showCounts(null, 2);
    this._verdict.className = "verdict waits";
    fill(this._verdict, "computing…");
    fill(this._reason);
    this._slider.setAttribute("aria-valuetext", `${this._count.value}: computing`);
  }

  /** What was being computed gets no answer. */
  giveUp() {
    if (this._verdict.classList.contains("waits")) fill(this._verdict, "not answered");
  }

  /** Ticks for the legal counts; null: they are not known for this question. */
  _showCounts(counts, upTo) {
    if (!counts) {
      this._legal = [1];
      fill(this._ticks);
      return;
    }
    const conditional = Object.keys(counts.conditional).map(Number);
    const unknown = Object.keys(counts.unknown).map(Number);
    const uneven = Object.keys(counts.uneven ?? {}).map(Number);
    this._legal = [...counts.always, ...conditional, ...uneven].sort((a, b) => a - b);
    const tick = (kind) => (count) => {
      const mark = h("span", { class: `tick ${kind}` });
      mark.style.setProperty("--at", String((count - 1) / (upTo - 1)));
      return mark;
    };
    fill(
      this._ticks,
      counts.always.filter((count) => count <= upTo).map(tick("always")),
      conditional.map(tick("conditional")),
      uneven.map(tick("uneven")),
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
  const uneven = Object.keys(counts.uneven ?? {}).map(Number);
  return h(
    "p",
    { class: "note" },
    "always ",
    codes([ranges(counts.always)]),
    uneven.length > 0 && [" · in unequal parts ", codes([ranges(uneven)])],
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

/** Why there are no ticks, where there is a verdict. */
function noCounts({ problem, countsProblem }) {
  if (problem || !countsProblem) return null;
  const { title, detail } = countsProblem;
  return h("p", { class: "note" }, `legal counts: ${title}${detail ? `, ${detail}` : ""}`);
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
