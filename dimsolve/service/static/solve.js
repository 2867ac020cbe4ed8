/**
 * Asks for everything that is shown, in as few rounds as there are dependencies:
 *
 *   0  annotate, for one of torch's functions  the annotation of the call
 *   1  parse                                   the tensors and the identifiers
 *   2  infer, check and legal-parts per name   shapes, counts, what every rank holds
 *   3  the dimensions of `*`, and all splits together
 *
 * `ask(questions, signal, each)` is the only way out: over HTTP in the playground, over a comm in
 * the widget. It gives one `{ status, answer | problem }` per question, and those that are there
 * before the others to `each(index, answer)`.
 */

import { onPage } from "./hints.js";
import { at, has } from "./names.js";
import {
  annotateOf,
  checkOf,
  countsOf,
  inferOf,
  isPath,
  mannerOf,
  misread,
  operatorOf,
  operatorOfCall,
} from "./question.js";
import { entriesOf } from "./state.js";

const MAX_NAMES = 40;

/**
 * Returns what is to be shown: `{ parsed, problem, solution, names, joint }`. Where there is a
 * problem, the rest is what is known all the same; `{ empty: true }` is no question yet.
 *
 * hear: told on the way. `fitting(state)` returns the state that is asked about, `rows` is
 * given the rows of the identifiers before they are answered, and each of them whenever it is.
 */
export async function solve(ask, state, signal, hear) {
  if (!state.annotation.trim()) return { empty: true };
  if (isPath(state.annotation)) state = hear.fitting(state);
  const call = isPath(state.annotation) ? await called(ask, state, signal, hear) : null;
  if (call?.problem) return call;
  const annotation = call?.annotation ?? state.annotation;
  const [read] = await ask([{ verb: "parse", annotation }], signal);
  if (!read.answer) return { problem: onPage(read.problem) };
  const parsed = read.answer;
  if (!call) state = hear.fitting(state);
  const wrong = misread(state);
  if (wrong) return { parsed, problem: { ...wrong, field: "args" } };

  const operator = call ? operatorOfCall(call, state) : operatorOf(state, parsed.inputs.length);
  const manner = mannerOf(state, call);
  const asked = { call, parsed, operator, manner };
  const marks = parsed.identifiers;
  const names = rowsOf(Object.keys(marks), state, marks);
  hear.rows(names);
  const question = { operator, manner, upTo: state.upTo };
  const [inferred] = await askRows(ask, [inferOf(operator)], question, names, signal, hear);
  if (!inferred.answer) return { ...asked, problem: onPage(inferred.problem) };
  const solution = inferred.answer;

  const stars = Object.values(solution.expansions)
    .flat()
    .filter((name) => !has(marks, name));
  if (stars.length) {
    const rest = rowsOf(stars, state, marks);
    names.push(...rest);
    hear.rows(names);
    await askRows(ask, [], question, rest, signal, hear);
  }
  const joint = await jointly(ask, operator, parsed, solution, names, signal);
  return { ...asked, solution, names, joint };
}

/** The annotation of a call of one of torch's functions, or the problem why there is none. */
async function called(ask, state, signal, hear) {
  const wrong = misread(state);
  if (wrong) return { problem: { ...wrong, field: "args" } };
  const [told] = await ask([annotateOf(state)], signal);
  if (!told.answer) return { problem: onPage(told.problem) };
  hear.call(told.answer);
  return told.answer;
}

/** The rows of identifiers, none answered. Of very many the first are shown, and all that are split. */
function rowsOf(names, state, marks) {
  return names
    .filter((name, index) => index < MAX_NAMES || has(state.splits, name))
    .map((name) => ({
      name,
      mark: at(marks, name) ?? "",
      parts: at(state.splits, name) ?? "1",
      isAsked: true,
      check: null,
      problem: null,
      counts: null,
      countsProblem: null,
    }));
}

/** Asks first what else there is, then all checks, then all counts: those take longer. */
async function askRows(ask, first, { operator, manner, upTo }, rows, signal, hear) {
  const questions = [
    ...first,
    ...rows.map((row) => checkOf(operator, row.name, row.parts, manner)),
    ...rows.map((row) => countsOf(operator, row.name, upTo, manner)),
  ];
  const take = (index, { answer = null, problem = null }) => {
    const number = index - first.length;
    const row = number < 0 ? null : rows[number % rows.length];
    if (row && number < rows.length) Object.assign(row, { check: answer, problem, isAsked: false });
    else if (row) Object.assign(row, { counts: answer, countsProblem: problem });
    return row;
  };
  const answers = await ask(questions, signal, (index, answer) => {
    const row = take(index, answer);
    if (row) hear.row(row);
  });
  answers.forEach((answer, index) => take(index, answer));
  return answers.slice(0, first.length);
}

/** How the splits stand together: one mesh axis per identifier that is split. */
async function jointly(ask, operator, parsed, solution, names, signal) {
  const split = names.filter((row) => row.check && row.check.parts !== "1");
  const conditions = [...new Set(split.flatMap((row) => row.check.conditions))];
  const worst = ["illegal", "unknown", "conditional", "legal"];
  const verdicts = split.map((row) => row.check.verdict);
  const verdict = worst.find((word) => verdicts.includes(word)) ?? "legal";
  const open = names.filter((row) => row.problem && row.parts !== "1");
  const joint = { axes: split, open, verdict, conditions, never: "" };
  if (open.length && verdict !== "illegal") joint.verdict = "unknown";
  const conditional = split.filter((row) => row.check.verdict === "conditional");
  if (joint.verdict === "conditional" && conditional.length > 1) {
    const all = { ...operator, facts: [...operator.facts, ...conditions] };
    const [together] = await ask([inferOf(all)], signal);
    if (together.problem?.error === "ShapeError") {
      joint.verdict = "illegal";
      joint.never = "each split has a condition, and no sizes satisfy all of them";
    } else if (!together.answer) joint.verdict = "unknown";
  }
  joint.tensors = await tensorsOf(ask, operator, parsed, solution, joint, signal);
  return joint;
}

/** Every tensor: as annotated, whole, its placement on each axis, and its shape on one rank. */
async function tensorsOf(ask, operator, parsed, solution, joint, signal) {
  const count = parsed.inputs.length;
  const tensors = [...parsed.inputs, ...parsed.outputs].map((operand, index) => {
    const isInput = index < count;
    const side = isInput ? "inputs" : "outputs";
    const place = isInput ? index : index - count;
    const dims = dimsOf(operand, solution);
    return {
      label: `${isInput ? "input" : "output"} ${place}`,
      operand,
      dims,
      whole: isInput ? given(operator.inputs?.[place], dims, solution) : solution.outputs[place],
      placements: joint.axes.map((row) => row.check[side][place] ?? null),
      locals: joint.axes.map((row) => row.check[`local_${side}`][place] ?? null),
      local: null,
    };
  });
  await localShapes(ask, tensors, joint, [...operator.facts, ...joint.conditions], signal);
  return tensors;
}

/** An input's shape as it was typed, or else as its identifiers were found to be. */
function given(text, dims, solution) {
  if (dims === null) return null;
  const typed = text ? entriesOf(text).map((entry) => entry.text) : [];
  if (typed.length === dims.length) return typed;
  return dims.map((dim) => productOf(dim.atoms.map((atom) => at(solution.bindings, atom) ?? atom)));
}

/** On several axes a dimension may be cut twice: then its part is told by one more question. */
async function localShapes(ask, tensors, joint, facts, signal) {
  const twice = [];
  for (const tensor of tensors) {
    const isCut = joint.axes.length > 0 && joint.verdict !== "illegal" && !joint.open.length;
    if (!isCut || tensor.whole === null) continue;
    tensor.local = tensor.whole.map((length, dim) => {
      const cuts = joint.axes.filter((row) => tensor.dims?.[dim]?.atoms.includes(row.name));
      if (cuts.length === 0) return length;
      if (cuts.length === 1) return tensor.locals[joint.axes.indexOf(cuts[0])]?.[dim] ?? "?";
      const by = cuts.map((row) => `(${row.check.parts})`).join("*");
      twice.push({ tensor, dim, text: `(${length})//(${by})` });
      return "?";
    });
  }
  if (!twice.length) return;
  const texts = await plainly(
    ask,
    twice.map((entry) => entry.text),
    facts,
    signal,
  );
  twice.forEach(({ tensor, dim }, index) => (tensor.local[dim] = texts[index]));
}

/** Returns expressions as the service writes them: the shapes of `x0 x1 -> x0 x1`. */
async function plainly(ask, texts, facts, signal) {
  const names = texts.map((_, index) => `x__${index}`).join(" ");
  const question = { annotation: `${names} -> ${names}`, inputs: [texts], arguments: {}, facts };
  const [told] = await ask([inferOf(question)], signal);
  return told.answer ? told.answer.outputs[0] : texts;
}

function productOf(factors) {
  const isPlain = (factor) => /^[\p{L}\p{N}_]+$/u.test(factor);
  if (factors.length === 1) return factors[0];
  return factors.map((factor) => (isPlain(factor) ? factor : `(${factor})`)).join("*");
}

/**
 * Returns the dimensions of a tensor, `*` written out, each with the names and numbers that it is
 * a product of; null for `?` and while the rank is not known.
 */
function dimsOf(operand, solution) {
  if (operand.kind === "opaque") return null;
  const hasStar = operand.dims.some((dim) => dim.atoms[0]?.kind === "star");
  const isOpen = solution.outputs.includes(null) && !solution.expansions["*"];
  if (hasStar && isOpen) return null;
  return operand.dims.flatMap((dim) => {
    if (dim.atoms[0]?.kind === "star") {
      return (solution.expansions["*"] ?? []).map((name) => ({ text: name, atoms: [name] }));
    }
    const atoms = dim.atoms.map((atom) => atom.text.replace(/[+^]$/, ""));
    return [{ text: dim.text, atoms }];
  });
}
