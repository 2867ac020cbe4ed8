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
import { problemText } from "./field.js";
import { operatorOf } from "./question.js";
import { Ranks } from "./ranks.js";
import { codes, equations, openEnds, tensorTable } from "./shapes.js";
import { remembering, solve } from "./solve.js";
import { SIGNS, Splits } from "./splits.js";
import { EMPTY, entriesOf } from "./state.js";

const TYPING_MS = 160;
const MOVING_MS = 30;
const SLOW_MS = 400;

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
    const change = (patch, source) => this._change(patch, source);
    this._asking = new Asking(change, (state) => {
      this.set({ ...EMPTY, ...state });
      this._changed(this._state, "example");
    });
    this._splits = new Splits(change, (conditions) => this._assume(conditions));
    this._ranks = new Ranks(change);
    this._copy = new Copy((text) => this._say(text));
    this._live = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this._problem = h("div", { class: "problem" });
    this._summary = h("p", { class: "summary" });
    this._tensors = h("div", {});
    this._equations = h("div", {});
    this._answers = h(
      "div",
      { class: "answers", hidden: true },
      this._summary,
      h(
        "section",
        { class: "panel" },
        h("div", { class: "panel-head" }, h("h2", {}, "Shapes")),
        this._tensors,
      ),
      this._splits.element,
      this._ranks.element,
      h(
        "section",
        { class: "panel" },
        h("div", { class: "panel-head" }, h("h2", {}, "Equations")),
        this._equations,
      ),
    );
    const left = h(
      "div",
      { class: "asked", role: "group", "aria-label": "Question" },
      this._asking.element,
    );
    const right = h(
      "div",
      { class: "answered", role: "group", "aria-label": "Answer" },
      this._problem,
      this._answers,
      this._copy.element,
    );
    root.classList.add("dimsolve");
    fill(root, h("div", { class: "sides" }, left, right), this._live);
  }

  /** Shows another state: from an address, an example, or the kernel. */
  set(state) {
    this._state = state;
    this._asking.show(state);
    this._splits.showState(state);
    this._later(0);
  }

  get state() {
    return this._state;
  }

  /** Says that an answer takes its time. */
  wait(text) {
    this._say(text);
  }

  /** Stops asking. */
  destroy() {
    clearTimeout(this._timer);
    this._pending?.abort();
  }

  _change(patch, source) {
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

  _later(milliseconds) {
    clearTimeout(this._timer);
    this._number += 1; // what is on its way is the answer to an older question
    this._timer = setTimeout(() => this._solve(), milliseconds);
  }

  async _solve() {
    const number = this._number;
    this._pending?.abort();
    this._pending = new AbortController();
    const slow = setTimeout(() => this._busy(true), SLOW_MS);
    try {
      const result = await solve(this._ask, this._state, this._pending.signal);
      if (number === this._number) this._show(result);
    } catch (error) {
      if (number === this._number) this._refused(error);
    } finally {
      clearTimeout(slow);
      if (number === this._number) this._busy(false);
    }
  }

  _busy(is) {
    this._answers.setAttribute("aria-busy", String(is));
    this._answers.classList.toggle("busy", is);
  }

  _show(result) {
    const stars = Object.values(result.solution?.expansions ?? {}).flat();
    const colors = colorsOf(this._state.annotation, stars);
    if (result.parsed) {
      this._asking.showInputs(result.parsed.inputs);
      const operator = operatorOf(this._state, result.parsed.inputs.length);
      const known = result.names?.map((row) => row.name) ?? Object.keys(result.parsed.identifiers);
      const splits = Object.entries(this._state.splits).filter(([name]) => known.includes(name));
      this._copy.show(textsOf(operator, splits, this._state.contiguous, this._address));
    }
    const isPlaced = this._asking.showProblem(result.problem);
    this._showProblem(result.problem, isPlaced);
    if (result.problem) return;
    this._shown = { result, colors };
    this._answers.hidden = false;
    this._showSummary(result);
    fill(this._tensors, tensorTable(result, colors), openEnds(result));
    fill(this._equations, equations(result, colors));
    this._splits.show(result, colors);
    this._ranks.show(result, this._state, colors);
    const styles = { illegal: "bad", conditional: "maybe", unknown: "maybe" };
    const marked = result.joint.axes.map((row) => [row.name, styles[row.check.verdict]]);
    this._asking.mark(
      marked.filter(([, style]) => style),
      result.parsed,
    );
  }

  _showProblem(problem, isPlaced = false) {
    this._answers.classList.toggle("old", Boolean(problem));
    this._answers.toggleAttribute("inert", Boolean(problem));
    if (!problem) {
      fill(this._problem);
      return;
    }
    const said = isPlaced ? "It is marked in the text." : "";
    const where = h(
      "p",
      { class: "note" },
      said,
      this._shown ? " Below stands the last answer." : "",
    );
    const again = () => this._later(0);
    const isRefused = !problem.status || problem.status >= 500;
    const button = h("button", { type: "button", class: "small", onclick: again }, "Ask again");
    const text = isPlaced
      ? h("p", { class: "problem-title" }, problem.title)
      : problemText(problem);
    fill(this._problem, text, where, isRefused && !problem.field && button);
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
  }

  _showSummary({ joint, solution }) {
    const shapes = solution.outputs
      .map((row) => (row === null ? "?" : `(${row.join(", ")})`))
      .join(", ");
    const split = [...joint.axes, ...joint.open]
      .map((row) => `${row.name} into ${row.parts}`)
      .join(", ");
    if (!split) {
      this._summary.className = "summary";
      fill(
        this._summary,
        "The outputs are ",
        codes([shapes]),
        conditionsOf(solution.conditions),
        ".",
      );
    } else {
      this._summary.className = `summary ${joint.verdict}`;
      const isMesh = joint.axes.length + joint.open.length > 1;
      const verdict = h("b", {}, `${SIGNS[joint.verdict]} ${joint.verdict}`);
      fill(this._summary, verdict, ` ${split}${isMesh ? ", on one mesh" : ""}`, becauseOf(joint));
    }
    this._say(this._summary.textContent);
  }

  _say(text) {
    if (this._live.textContent !== text) this._live.textContent = text;
  }
}

function becauseOf({ verdict, conditions, never, axes, open }) {
  if (never) return `: ${never}`;
  if (verdict === "unknown" && open.length) return `: ${open[0].problem.title}`;
  if (verdict === "legal") return ": for all sizes";
  if (verdict === "conditional") return [": exactly", conditionsOf(conditions)];
  return `: ${axes.find((row) => row.check.verdict === verdict)?.check.reason ?? ""}`;
}

function conditionsOf(conditions) {
  return conditions.length ? [" if ", codes(conditions, " and ")] : null;
}
