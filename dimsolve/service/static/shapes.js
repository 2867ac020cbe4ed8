/**
 * Shapes and placements, a row per tensor, and what is left open or must still hold.
 *
 *   input 0   m k+   m, k   S(1)    m, k//8
 */

import { h, scroller } from "./dom.js";

/** Returns a dimension's text, its identifiers in their colours. */
export function painted(text, colors) {
  return text
    .split(/([\p{ID_Start}_][\p{ID_Continue}]*)/u)
    .map((piece) => (colors.has(piece) ? h("span", { class: colors.get(piece) }, piece) : piece));
}

/** Returns what a call of one of torch's functions promises, or nothing where none is asked about. */
export function ofCall(call, colors) {
  if (!call) return null;
  const needs = call.conditions.length > 0 && [" where ", codes(call.conditions, " and ")];
  return [
    h("p", { class: "called" }, "for this call ", h("code", {}, painted(call.annotation, colors)), needs),
    call.note && h("p", { class: "note" }, call.note),
  ];
}

/** Returns the table of tensors. */
export function tensorTable({ names, joint }, colors) {
  const axes = joint.axes;
  const isCut = axes.length > 0 && joint.verdict !== "illegal" && !joint.open.length;
  const heads = ["", "annotated", "whole", ...(isCut ? axes.map((row) => row.name) : [])];
  const head = h(
    "tr",
    {},
    heads.map((text, index) =>
      h(
        "th",
        { scope: "col", class: colors.get(text) ?? "" },
        index === 0 && h("span", { class: "hidden" }, "tensor"),
        index > 2 && h("span", { class: "hidden" }, "placement for the split of "),
        text,
      ),
    ),
    isCut && h("th", { scope: "col" }, "on one rank"),
  );
  const rows = joint.tensors.map((tensor) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, tensor.label),
      cell("annotated", h("code", {}, painted(tensor.operand.text, colors))),
      cell("whole", shape(tensor.whole, tensor.operand)),
      isCut && tensor.placements.map((p, k) => cell(axes[k].name, h("code", {}, p ?? "?"))),
      isCut && cell("on one rank", shape(tensor.local, tensor.operand), "local"),
    ),
  );
  return scroller(
    "tensors",
    h(
      "table",
      { class: "tensors" },
      h("caption", { class: "hidden" }, "The tensors: annotated, whole, and on one rank"),
      h("thead", {}, head),
      h("tbody", {}, rows),
    ),
  );
}

/** A cell with the head of its column, which narrow pages show beside it. */
function cell(head, content, name = "") {
  return h("td", { "data-head": head, class: name }, content);
}

function shape(dims, operand) {
  if (dims === null) return operand.kind === "opaque" ? "?" : h("span", { class: "note" }, "open");
  return dims.length ? h("code", {}, dims.join(", ")) : h("code", {}, "()");
}

/** Returns what must still hold, what is open, and the finite choices. */
export function openEnds({ solution }) {
  const rows = [];
  if (solution.conditions.length)
    rows.push(["matches only if", codes(solution.conditions, " and ")]);
  if (solution.expansions["*"]?.length)
    rows.push(["* stands for", codes(solution.expansions["*"])]);
  if (solution.free.length) rows.push(["left open", codes(solution.free)]);
  if (solution.free.length && solution.solutions)
    rows.push(["choices", choices(solution.solutions, solution.solutions_complete)]);
  if (!rows.length) return null;
  return h(
    "dl",
    { class: "ends" },
    rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

const SHOWN = 8;

function choices(solutions, complete) {
  const texts = solutions.slice(0, SHOWN).map((values) =>
    Object.entries(values)
      .map(([name, value]) => `${name} = ${value}`)
      .join(", "),
  );
  const more = solutions.length - SHOWN;
  return [
    h(
      "ul",
      { class: "plain" },
      texts.map((text) => h("li", {}, h("code", {}, text))),
    ),
    more > 0 && h("span", { class: "note" }, `and ${complete ? "" : "at least "}${more} more`),
    more <= 0 && !complete && h("span", { class: "note" }, "and others, finitely many"),
  ];
}

/** Returns texts as code, with a separator. */
export function codes(texts, separator = ", ") {
  return texts.flatMap((text, index) => [index ? separator : null, h("code", {}, text)]);
}

/** Returns the steps of the solution: an equation and where it came from. */
export function equations({ solution }, colors) {
  const origins = new Map();
  for (const { conclusion, reason } of solution.steps) {
    origins.set(conclusion, [...(origins.get(conclusion) ?? []), reason]);
  }
  const rows = [...origins].map(([conclusion, reasons]) => {
    const [left, ...right] = conclusion.split(" = ");
    return h(
      "tr",
      {},
      h(
        "td",
        {},
        h("code", {}, painted(left, colors), right.length ? ` = ${right.join(" = ")}` : ""),
      ),
      h(
        "td",
        { class: "origin" },
        reasons.map((reason) => h("div", {}, reason)),
      ),
    );
  });
  return scroller(
    "equations",
    h(
      "table",
      { class: "equations" },
      h("caption", { class: "hidden" }, "Equations, and where each came from"),
      h(
        "thead",
        { class: "hidden" },
        h("tr", {}, h("th", { scope: "col" }, "equation"), h("th", { scope: "col" }, "origin")),
      ),
      h("tbody", {}, rows),
    ),
  );
}
