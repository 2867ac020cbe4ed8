/**
 * From the state to questions of the service, with the names of the Python arguments.
 *
 *   checkOf(operator, "k", "8")   { verb: "check", annotation, inputs, ..., split: "k", parts: 8 }
 */

import { argumentsOf, entriesOf, lengthOf, valueOf } from "./state.js";

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

/** Says whether a text names one of torch's functions, such as `torch.nn.functional.conv2d`. */
export function isPath(text) {
  return /^\s*[A-Za-z_]\w*(\.\w+)+\s*$/.test(text);
}

/** Returns the question what a function promises for the call that was typed. */
export function annotateOf(state) {
  const last = state.inputs.findLastIndex((text) => text.trim() !== "");
  const texts = state.inputs.slice(0, last + 1).map((text) => text.trim());
  return {
    verb: "annotate",
    operator: state.annotation.trim(),
    inputs: texts.length ? texts.map((text) => (text === "" ? null : text)) : null,
    arguments: Object.fromEntries(argumentsOf(state.args).map((a) => [a.name, valueOf(a.text)])),
  };
}

/** Returns what all questions about a call share: the annotation that was told, with its lengths. */
export function operatorOfCall(told, state) {
  const shape = (dims) => (dims === null ? null : dims.join(", ") || "()");
  return {
    annotation: told.annotation,
    inputs: told.inputs?.map(shape) ?? null,
    arguments: told.arguments,
    facts: entriesOf(state.facts).map((entry) => entry.text),
  };
}

/** Returns how a split is to be judged: `{ contiguous, uneven, value_split, partial }`. */
export function mannerOf(state, told) {
  return {
    contiguous: state.contiguous,
    uneven: state.uneven,
    value_split: told ? [...told.value_split] : state.summands,
    partial: told ? told.partial : state.partial,
  };
}

/** Returns the question which shapes come out. */
export function inferOf(operator) {
  return { verb: "infer", ...operator };
}

/** Returns the question whether a split is legal. */
export function checkOf(operator, split, parts, manner) {
  return { verb: "check", ...operator, split, parts: lengthOf(parts), ...manner };
}

/** Returns the question which counts are legal. */
export function countsOf(operator, split, upTo, manner) {
  return { verb: "legal-parts", ...operator, split, up_to: upTo, ...manner };
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
