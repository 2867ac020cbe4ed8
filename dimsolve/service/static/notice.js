/**
 * What is said above the answers: what is wrong, that it is being computed, or that nothing is asked.
 */

import { fill, h } from "./dom.js";
import { problemText } from "./field.js";

export class Notice {
  constructor() {
    this._problem = h("div", { class: "problem" });
    this._waits = h("p", { class: "computing" });
    this.elements = [this._problem, this._waits];
  }

  /** Nothing is asked yet. */
  showEmpty() {
    const example = h("code", {}, "m k+, k+ n -> m n");
    fill(this._problem, h("p", {}, "Write an annotation, such as ", example, "."));
    this._problem.className = "problem empty";
  }

  /** An answer takes its time. isOld: an older one stands below. */
  showWaiting(reason, isOld) {
    const old = isOld ? " What is pale below is the answer to an older question." : "";
    fill(this._waits, h("b", {}, "computing…"), ` ${reason}${old}`);
  }

  /** The answer is there, or there is none. */
  showNoWaiting() {
    fill(this._waits);
  }

  /** A problem, or null. isPlaced: a field says it too. again: asks once more. */
  showProblem(problem, isPlaced, isOld, again) {
    this._problem.className = "problem";
    if (!problem) {
      fill(this._problem);
      return;
    }
    const said = isPlaced ? "It is marked in the text." : "";
    const old = isOld ? " Below stands the last answer." : "";
    const isRefused = !problem.field && (!problem.status || problem.status >= 500);
    fill(
      this._problem,
      isPlaced ? h("p", { class: "problem-title" }, problem.title) : problemText(problem),
      h("p", { class: "note" }, said, old),
      isRefused && h("button", { type: "button", class: "small", onclick: again }, "Ask again"),
    );
  }
}
