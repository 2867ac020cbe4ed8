/**
 * The playground: what is asked on the left, what is answered on the right, as one types.
 *
 * The page and the Jupyter widget mount the same one; they differ in how a question travels and
 * where the state is kept.
 *
 *   mount(element, { ask, state, changed, address })
 */

import { Asking } from "./asking.js";
import { colorsOf } from "./colors.js";
import { Copy, textsOf } from "./copy.js";
import { fill, h } from "./dom.js";
import { isExample } from "./examples.js";
import { Notice } from "./notice.js";
import { Presets } from "./presets.js";
import { Ranks } from "./ranks.js";
import { remembering } from "./remembering.js";
import { equations, ofCall, openEnds, tensorTable } from "./shapes.js";
import { solve } from "./solve.js";
import { Splits } from "./splits.js";
import { EMPTY, entriesOf } from "./state.js";
import { Summary } from "./summary.js";

const TYPING_MS = 160;
const MOVING_MS = 30;
const SLOW_MS = 400;
const AGAIN_MS = [500, 1000, 2000, 4000, 8000, 15000, 30000];

/** Shows the playground in an element; returns `{ set(state), wait(text), destroy() }`. */
export function mount(
  root,
  { ask, state, changed = () => {}, address = "http://localhost:8000/" },
) {
  const app = new App(root, remembering(ask), changed, address);
  app.set({ ...EMPTY, ...state });
  return app;
}

class App {
  constructor(root, ask, changed, address) {
    this._ask = ask;
    this._changed = changed;
    this._address = address;
    this._number = 0;
    this._shown = null;
    this._presets = new Presets();
    this._rows = null;
    this._isSlow = false;
    this._failures = 0;
    const change = (patch, source) => this._change(patch, source);
    this._asking = new Asking(change, (state) => {
      this.set({ ...EMPTY, ...state });
      this._changed(this._state, "example");
    });
    this._splits = new Splits(change, (conditions) => this._assume(conditions));
    this._ranks = new Ranks(change);
    this._copy = new Copy((text) => this._say(text));
    this._live = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this._notice = new Notice();
    this._summary = new Summary();
    this._tensors = h("div", {});
    this._equations = h("div", {});
    this._answers = h(
      "div",
      { class: "answers", hidden: true },
      this._summary.element,
      panel("Shapes", this._tensors),
      this._splits.element,
      this._ranks.element,
      panel("Equations", this._equations),
    );
    const right = [...this._notice.elements, this._answers, this._copy.element];
    root.classList.add("dimsolve");
    fill(
      root,
      h(
        "div",
        { class: "sides" },
        side("asked", "Question", this._asking.element),
        side("answered", "Answer", right),
      ),
      this._live,
    );
  }

  /** Shows another state: from an address, an example, or the kernel. */
  set(state) {
    this._state = state;
    this._presets.start(state, isExample(state));
    this._asking.show(state);
    this._splits.showState(state);
    this._later(0);
  }

  get state() {
    return this._state;
  }

  /** Says why an answer takes its time; "": it no longer does. */
  wait(text) {
    this._reason = text;
    if (text) this._busy(true);
  }

  /** Who did not answer is back: what failed is asked again at once. */
  again() {
    if (this._failures) this._later(0);
  }

  /** Stops asking. */
  destroy() {
    clearTimeout(this._timer);
    this._pending?.abort();
  }

  _change(patch, source) {
    this._presets.edited(patch, this._state);
    this._state = { ...this._state, ...patch };
    if ("annotation" in patch && !this._state.annotation.trim()) this._state.splits = {};
    this._asking.state = this._state;
    this._splits.showState(this._state);
    this._changed(this._state, source);
    if (source === "rank" && this._shown) {
      this._ranks.show(this._shown.result, this._state, this._shown.colors);
      return;
    }
    this._later(source.startsWith("split") ? MOVING_MS : TYPING_MS);
  }

  _assume(conditions) {
    const facts = [...entriesOf(this._state.facts).map((entry) => entry.text)];
    for (const condition of conditions) if (!facts.includes(condition)) facts.push(condition);
    this._change({ facts: facts.join(", ") }, "facts");
    this._asking.show(this._state);
  }

  _later(milliseconds, isAgain = false) {
    clearTimeout(this._timer);
    this._number += 1; // what is on its way is the answer to an older question
    this._failures = isAgain ? this._failures : 0;
    this._timer = setTimeout(() => this._solve(), milliseconds);
  }

  async _solve() {
    const number = this._number;
    this._pending?.abort();
    this._pending = new AbortController();
    this._rows = null;
    this._reason = "";
    const isMine = () => number === this._number;
    const slow = setTimeout(() => isMine() && this._busy(true), SLOW_MS);
    try {
      const result = await solve(this._ask, this._state, this._pending.signal, {
        fitting: (state) => (isMine() ? this._fitting() : state),
        call: (told) => isMine() && this._asking.showInputs(told.tensors.map(tensorOfCall)),
        rows: (rows) => isMine() && this._hearRows(rows),
        row: (row) => isMine() && this._isSlow && this._showRow(row),
      });
      if (isMine()) this._answered(() => this._show(result));
    } catch (error) {
      if (isMine()) this._answered(() => this._refused(error));
    } finally {
      clearTimeout(slow);
    }
  }

  _answered(show) {
    this._busy(false);
    show();
  }

  /** What an example filled in goes when the annotation has other tensors. */
  _fitting() {
    const state = this._presets.fitting(this._state);
    if (state !== this._state) {
      this._state = state;
      this._asking.show(state);
      this._changed(state, "annotation");
    }
    return state;
  }

  _hearRows(rows) {
    this._rows = rows;
    if (this._isSlow) this._splits.show(rows, colorsOf(this._state.annotation));
  }

  _showRow(row) {
    this._splits.showRow(row, colorsOf(this._state.annotation));
  }

  /** From a while on it is said that what is shown is old, and rows are shown as they come. */
  _busy(is) {
    this._isSlow = is;
    this._answers.setAttribute("aria-busy", String(is));
    this._answers.classList.toggle("busy", is);
    if (!is) {
      this._notice.showNoWaiting();
      return;
    }
    this._notice.showWaiting(this._reason, this._shown);
    this._say(this._reason || "computing");
    if (this._rows) this._hearRows(this._rows);
    else this._splits.wait();
  }

  _show(result) {
    this._failures = 0;
    if (result.empty) {
      this._showEmpty();
      return;
    }
    const stars = Object.values(result.solution?.expansions ?? {}).flat();
    const colors = colorsOf(result.operator?.annotation ?? this._state.annotation, stars);
    if (result.parsed && !result.call) this._asking.showInputs(result.parsed.inputs);
    if (result.operator) {
      const known = result.names?.map((row) => row.name) ?? Object.keys(result.parsed.identifiers);
      const splits = Object.entries(this._state.splits).filter(([name]) => known.includes(name));
      const about = result.call ? this._state : null;
      this._copy.show(textsOf(result.operator, splits, result.manner, this._address, about));
    }
    const isPlaced = this._asking.showProblem(result.problem);
    this._showProblem(result.problem, isPlaced);
    if (result.problem) return;
    this._shown = { result, colors };
    this._answers.hidden = false;
    this._summary.show(result);
    this._say(this._summary.spoken);
    fill(this._tensors, ofCall(result.call, colors), tensorTable(result, colors), openEnds(result));
    fill(this._equations, equations(result, colors));
    this._splits.show(result.names, colors);
    this._ranks.show(result, this._state, colors);
    const styles = { illegal: "bad", conditional: "maybe", unknown: "maybe" };
    const marked = result.joint.axes.map((row) => [row.name, styles[row.check.verdict]]);
    if (result.call) return;
    this._asking.mark(
      marked.filter(([, style]) => style),
      result.parsed,
    );
  }

  /** Nothing is asked yet. */
  _showEmpty() {
    this._shown = null;
    this._answers.hidden = true;
    this._asking.showProblem(null);
    this._asking.showInputs([]);
    this._showProblem(null);
    this._notice.showEmpty();
    this._copy.show({});
  }

  _showProblem(problem, isPlaced = false) {
    this._answers.classList.toggle("old", Boolean(problem));
    this._answers.toggleAttribute("inert", Boolean(problem));
    this._notice.showProblem(problem, isPlaced, this._shown, () => this._later(0));
    if (!problem) return;
    this._splits.giveUp();
    this._say(
      [problem.title, problem.detail, problem.hint && `hint: ${problem.hint}`]
        .filter(Boolean)
        .join(". "),
    );
  }

  _refused(error) {
    if (error.name === "AbortError") return;
    const detail = {
      title: "this page has a defect",
      detail: String(error),
      hint: "please report it",
    };
    this._asking.showProblem(null);
    this._showProblem(error.problem ?? detail);
    if (error.isAway) {
      const pause = AGAIN_MS[Math.min(this._failures, AGAIN_MS.length - 1)];
      this._failures += 1;
      this._later(pause, true);
    }
  }

  _say(text) {
    if (this._live.textContent !== text) this._live.textContent = text;
  }
}

/** A tensor of a call, as the field of its shape names it. */
const tensorOfCall = (name) => ({ text: name, kind: "tensor", named: true });

function panel(title, content) {
  const head = h("div", { class: "panel-head" }, h("h2", {}, title));
  return h("section", { class: "panel" }, head, content);
}

function side(name, label, ...content) {
  return h("div", { class: name, role: "group", "aria-label": label }, content);
}
