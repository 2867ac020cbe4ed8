/**
 * The answer in one line: the verdict on all splits together, or the shapes that come out.
 *
 *   ✗ illegal   k into 8
 */

import { fill, h } from "./dom.js";
import { SIGNS } from "./row.js";
import { codes } from "./shapes.js";

export class Summary {
  constructor() {
    this.element = h("p", { class: "summary" });
    /** The same for the ear, with the reason that stands beside the slider. */
    this.spoken = "";
  }

  show({ joint, solution }) {
    const rows = [...joint.axes, ...joint.open];
    this.element.className = rows.length ? `summary ${joint.verdict}` : "summary";
    if (!rows.length) {
      fill(this.element, outputsOf(solution));
      this.spoken = this.element.textContent;
      return;
    }
    const split = rows.map((row) => `${row.name} into ${row.parts}`).join(", ");
    const verdict = h("b", {}, `${SIGNS[joint.verdict]} ${joint.verdict}`);
    const mesh = rows.length > 1 ? ", on one mesh" : "";
    fill(this.element, verdict, ` ${split}${mesh}`, becauseOf(joint));
    const reasons = worstOf(joint).map((row) => row.check.reason);
    const isSaid = joint.verdict === "legal" || joint.verdict === "conditional";
    this.spoken = [this.element.textContent, ...(isSaid ? [] : reasons)].join(". ");
  }
}

function outputsOf({ outputs, conditions }) {
  if (!outputs.length) return ["There are no outputs", conditionsOf(conditions), "."];
  const shapes = outputs.map((row) => (row === null ? "?" : `(${row.join(", ")})`)).join(", ");
  const head = outputs.length === 1 ? "The output is " : "The outputs are ";
  return [head, codes([shapes]), conditionsOf(conditions), "."];
}

/** Why, in short; a reason of one split alone stands beside its slider. */
function becauseOf(joint) {
  const { verdict, conditions, never, axes, open } = joint;
  if (never) return `: ${never}`;
  if (verdict === "unknown" && open.length) return `: ${open[0].problem.title}`;
  if (verdict === "legal") return ": for all sizes";
  if (verdict === "conditional") return [": exactly", conditionsOf(conditions)];
  const names = worstOf(joint).map((row) => row.name);
  return axes.length > 1 ? [": because of ", codes(names)] : null;
}

function worstOf({ verdict, axes }) {
  return axes.filter((row) => row.check.verdict === verdict);
}

function conditionsOf(conditions) {
  return conditions.length ? [" if ", codes(conditions, " and ")] : null;
}
