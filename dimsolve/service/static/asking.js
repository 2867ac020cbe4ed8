/**
 * The left side: the annotation, the known shapes, arguments and facts, and examples to click.
 *
 * A problem is shown in the field whose text it names, at its place in that text.
 */

import { colorsOf, tokensOf } from "./colors.js";
import { fill, h } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { Field } from "./field.js";
import { isPath } from "./question.js";
import { EMPTY, REDUCTIONS, argumentsOf, entriesOf } from "./state.js";

export class Asking {
  /** change(patch, source): hears what is typed; restart(state): hears that an example is taken. */
  constructor(change, restart) {
    this._change = change;
    this.state = null;
    this.count = 0;
    this.annotation = new Field({
      label: "Annotation",
      note: "or one of torch's functions",
      placeholder: "m k+, k+ n -> m n",
      className: "annotation",
      paint: coloured,
      oninput: (text) => change({ annotation: text }, "annotation"),
    });
    this.args = new Field({
      label: "Arguments",
      note: "same-named arguments of the operator, or of the function",
      placeholder: "h=8, e=64",
      oninput: (text) => change({ args: text }, "args"),
    });
    this.facts = new Field({
      label: "Facts",
      note: "what is known, with commas or one a line",
      placeholder: "k % 64 == 0, s >= 2",
      lines: true,
      oninput: (text) => change({ facts: text }, "facts"),
    });
    this.inputs = [];
    this._shapes = h("div", { class: "shapes-in" });
    this._contiguous = h("input", {
      type: "checkbox",
      onchange: (event) => change({ contiguous: event.target.checked }, "contiguous"),
    });
    const contiguous = h("label", { class: "check" }, this._contiguous, "contiguous parts only");
    this._uneven = h("input", {
      type: "checkbox",
      onchange: (event) => change({ uneven: event.target.checked }, "uneven"),
    });
    const uneven = h("label", { class: "check" }, this._uneven, "unequal parts too");
    this._summands = h("fieldset", { class: "check summands" });
    this._partial = h(
      "select",
      { onchange: (event) => change({ partial: event.target.value }, "partial") },
      REDUCTIONS.map((name) => h("option", { value: name }, name)),
    );
    const partial = h("label", { class: "check" }, "the parts of a + split are joined by ", this._partial);
    const clear = h(
      "button",
      {
        type: "button",
        class: "small",
        title: "start with nothing",
        onclick: () => {
          restart(EMPTY);
          this.annotation.input.focus();
        },
      },
      "Clear",
    );
    this.annotation.head.append(clear);
    this._manner = h("div", { class: "manner" }, this._summands, partial);
    const facts = [this.args.element, this.facts.element, contiguous, uneven, this._manner];
    this.element = h("div", {}, this.annotation.element, this._shapes, facts, examplesOf(restart));
  }

  /** Shows a state: what was typed, or came with an address. */
  show(state) {
    this.state = state;
    this.annotation.setValue(state.annotation);
    this.args.setValue(state.args);
    this.facts.setValue(state.facts);
    this._contiguous.checked = state.contiguous;
    this._uneven.checked = state.uneven;
    this._partial.value = state.partial;
    this._showSummands();
    this._manner.hidden = isPath(state.annotation);
    this.inputs.forEach((field, index) => field.setValue(state.inputs[index] ?? ""));
  }

  /** Gives every annotated input a field; those that are there keep what is being typed. */
  showInputs(operands) {
    if (operands.length !== this.count) {
      while (this.inputs.length < operands.length)
        this.inputs.push(this._shape(this.inputs.length));
      this.inputs.length = operands.length;
      this.count = operands.length;
      const note = h("span", { class: "note" }, "all empty: the identifiers are the sizes");
      const title = h("div", { class: "field-head" }, h("h2", {}, "Known shapes"), note);
      fill(
        this._shapes,
        operands.length ? title : null,
        this.inputs.map((field) => field.element),
      );
      this.inputs.forEach((field, index) => field.setValue(this.state.inputs[index] ?? ""));
      this._showSummands();
    }
    operands.forEach((operand, index) => {
      const text = h("code", {}, operand.text);
      fill(this.inputs[index].label, h("span", { class: "which" }, `input ${index}`), " ", text);
      const empty = operand.named ? "left out" : "open";
      this.inputs[index].input.placeholder = operand.kind === "opaque" ? "not looked at" : empty;
    });
  }

  /** Which inputs are summands: a box each. */
  _showSummands() {
    const boxes = this.inputs.map((_, index) => {
      const box = h("input", {
        type: "checkbox",
        "aria-label": `summand ${index}`,
        onchange: (event) => {
          const others = this.state.summands.filter((number) => number !== index);
          const summands = event.target.checked ? [...others, index].sort((a, b) => a - b) : others;
          this._change({ summands }, "summands");
        },
      });
      box.checked = this.state.summands.includes(index);
      return h("label", { class: "check" }, box, String(index));
    });
    const legend = h("legend", {}, "inputs that are summands where a + name is split");
    fill(this._summands, boxes.length ? [legend, boxes] : null);
  }

  _shape(index) {
    return new Field({
      label: `input ${index}`,
      className: "shape",
      oninput: (text) => {
        const inputs = Array.from({ length: this.count }, (_, k) => this.state.inputs[k] ?? "");
        inputs[index] = text;
        this._change({ inputs }, `input${index}`);
      },
    });
  }

  /** Shows a problem where it is; returns whether a field has it. */
  showProblem(problem) {
    for (const field of [this.annotation, this.args, this.facts, ...this.inputs])
      field.setProblem(null);
    if (!problem) return false;
    const found = this._placesOf(problem);
    for (const [field, places] of found) field.setProblem(problem, places);
    return found.length > 0;
  }

  /** Marks the identifiers that are asked about: `[name, class]` each. */
  mark(names, parsed) {
    const atoms = [...parsed.inputs, ...parsed.outputs].flatMap((o) =>
      o.dims.flatMap((d) => d.atoms),
    );
    const marks = names.flatMap(([name, style]) =>
      atoms
        .filter((atom) => atom.kind === "identifier" && atom.text.replace(/[+^]$/, "") === name)
        .map((atom) => ({ place: atom.span, class: style })),
    );
    this.annotation.setMarks(marks);
  }

  /** The fields whose text the problem is about, and the places there. */
  _placesOf(problem) {
    if (problem.field === "args") return [[this.args, [problem.place]]];
    if (/^(unknown|no-such)-argument$/.test(problem.code)) {
      const wrong = argumentsOf(this.args.value).filter((a) => problem.detail.includes(`'${a.name}'`));
      if (wrong.length) return [[this.args, wrong.map(({ name, entry }) => nameIn(this.args, name, entry))]];
    }
    const text = problem.text;
    if (text === undefined || (text === "" && problem.code !== "no-arrow")) return [];
    if (text === this.annotation.value) return [[this.annotation, problem.spans]];
    const shifted = (start, field) =>
      problem.spans.map(([a, b]) => {
        const before = Array.from(field.value.slice(0, start)).length;
        return [a + before, b + before];
      });
    const entries = (field, list) =>
      list
        .filter((entry) => entry.text === text)
        .map((entry) => [field, shifted(entry.start, field)]);
    const shapes = this.inputs
      .filter((field) => field.value.trim() === text.trim())
      .map((field) => [field, shifted(field.value.length - field.value.trimStart().length, field)]);
    return [
      ...shapes,
      ...entries(this.args, argumentsOf(this.args.value)),
      ...entries(this.facts, entriesOf(this.facts.value)),
    ].slice(0, 1);
  }
}

/** The place of an argument's name, in characters. */
function nameIn(field, name, entry) {
  const start = Array.from(field.value.slice(0, entry.start)).length;
  return [start, start + Array.from(name).length];
}

function coloured(text) {
  if (isPath(text)) return [{ text, class: "" }];
  const colors = colorsOf(text);
  return tokensOf(text).map((token) => ({
    text: token.text,
    class: token.name ? colors.get(token.name) : /[+^]/.test(token.text) ? "mark" : "other",
  }));
}

function examplesOf(restart) {
  const buttons = EXAMPLES.map(({ name, shows, state }) =>
    h(
      "button",
      { type: "button", class: "example", title: shows, onclick: () => restart(state) },
      name,
    ),
  );
  const list = h("div", { class: "examples", role: "group", "aria-label": "Examples" }, buttons);
  return h("section", { class: "examples-box" }, h("h2", {}, "Examples"), list);
}
