/**
 * From the state to questions of the service, with the names of the Python arguments.
 *
 *   checkOf(operator, "k", "8")   { verb: "check", annotation, inputs, ..., split: "k", parts: 8 }
 */

import { argumentsOf, entriesOf, lengthOf } from "./state.js";

/** Returns what all questions about the operator share. count: how many inputs are annotated. */
export function operatorOf(state, count) {
  const texts = Array.from({ length: count }, (_, index) => (state.inputs[index] ?? "").trim());
  const isOpen = (text) => text === "" || text === "?";
  return {
    annotation: state.annotation,
    inputs: texts.every((text) => text === "") ? null : texts.map((t) => (isOpen(t) ? null : t)),
    arguments: Object.fromEntries(argumentsOf(state.args).map((a) => [a.name, lengthOf(a.text)])),
    facts: entriesOf(state.facts).map((entry) => entry.text),
  };
}

/** Returns the question which shapes come out. */
export function inferOf(operator) {
  return { verb: "infer", ...operator };
}

/** Returns the question whether a split is legal. */
export function checkOf(operator, split, parts, contiguous) {
  return { verb: "check", ...operator, split, parts: lengthOf(parts), contiguous };
}

/** Returns the question which counts are legal. */
export function countsOf(operator, split, upTo, contiguous) {
  return { verb: "legal-parts", ...operator, split, up_to: upTo, contiguous };
}

/** Returns what is wrong with the arguments as they are typed, with its place, or null. */
export function misread(state) {
  const seen = new Set();
  for (const { name, text, entry } of argumentsOf(state.args)) {
    const problem = (title, detail) => ({
      title,
      detail,
      hint: "write NAME=SIZE, such as h=8",
      place: [entry.start, entry.start + entry.text.length],
    });
    if (!name || !text) return problem("this is no argument", `'${entry.text}' is not NAME=SIZE`);
    if (seen.has(name)) return problem("given twice", `'${name}' has a size already`);
    seen.add(name);
  }
  return null;
}
