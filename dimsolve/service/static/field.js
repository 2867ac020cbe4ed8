/**
 * A text field that shows colours and marks under what is typed.
 *
 * The text of the real field is transparent; a copy of it below has the colours. Both are set in
 * the same type, so they cover each other. Marks are places, half open, in characters: those of
 * Python, which counts an 𝑥 once where JavaScript counts it twice.
 */

import { fill, freshId, h } from "./dom.js";

export class Field {
  /**
   * label: what it is called. oninput(text): hears every change. paint(text): returns pieces
   * `{ text, class }` in order, or null for plain text. lines: whether it may have several lines.
   */
  constructor({
    label,
    placeholder = "",
    note = "",
    oninput,
    paint = null,
    lines = false,
    className = "",
  }) {
    const id = freshId("field");
    this._paint = paint;
    this._marks = [];
    this.back = h("div", { class: "field-back", "aria-hidden": "true" });
    this.input = h("textarea", {
      id,
      rows: lines ? 2 : 1,
      placeholder,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      autocorrect: "off",
      translate: "no",
      oninput: () => {
        if (!lines && this.input.value.includes("\n")) {
          this.input.value = this.input.value.replace(/\s*\n\s*/g, " ");
        }
        this.setProblem(null);
        oninput(this.input.value);
      },
      onkeydown: (event) => {
        if (event.key === "Enter" && !lines) event.preventDefault();
      },
    });
    this.problem = h("div", { class: "field-problem", id: freshId("problem") });
    this.label = h("label", { for: id }, label);
    this.head = h(
      "div",
      { class: "field-head" },
      this.label,
      note && h("span", { class: "note" }, note),
    );
    const box = h("div", { class: `field-box ${lines ? "lines" : ""}` }, this.back, this.input);
    this.element = h("div", { class: `field ${className}` }, this.head, box, this.problem);
  }

  get value() {
    return this.input.value;
  }

  /** Shows another text; the caret stays where it is if the text is the same. */
  setValue(text) {
    if (this.input.value !== text) this.input.value = text;
    this.draw();
  }

  /** Marks places: `{ place: [start, stop], class }`. */
  setMarks(marks) {
    this._marks = marks;
    this.draw();
  }

  /** Says what is wrong here and where, or nothing. places: in characters. */
  setProblem(problem, places = []) {
    const about = { "aria-invalid": "true", "aria-describedby": this.problem.id };
    for (const [name, value] of Object.entries(about)) {
      if (problem) this.input.setAttribute(name, value);
      else this.input.removeAttribute(name);
    }
    fill(this.problem, problem ? problemText(problem) : null);
    this.setMarks(places.map((place) => ({ place, class: "wrong" })));
  }

  draw() {
    const text = this.input.value;
    const pieces = this._paint?.(text) ?? [{ text, class: "" }];
    const marks = this._marks.map((mark) => ({ ...mark, place: inUnits(text, mark.place) }));
    fill(this.back, marked(pieces, marks, text.length), "\u200b");
  }
}

/** Returns a problem in words: title, reason, hint. */
export function problemText(problem) {
  return [
    h("p", { class: "problem-title" }, problem.title),
    problem.detail && h("p", {}, problem.detail),
    problem.hint && h("p", { class: "hint" }, h("b", {}, "hint "), problem.hint),
  ];
}

/** Python counts characters, JavaScript UTF-16 units. */
function inUnits(text, [start, stop]) {
  const chars = Array.from(text);
  const units = (count) => chars.slice(0, count).join("").length;
  return [units(start), units(stop)];
}

/** Cuts the pieces at the ends of the marks; an empty mark shows as a mark of one blank. */
function marked(pieces, marks, length) {
  const cuts = new Set(marks.flatMap((mark) => mark.place));
  const shown = [];
  let at = 0;
  for (const piece of pieces) {
    let rest = piece.text;
    while (rest) {
      const next = [...cuts]
        .filter((cut) => cut > at && cut < at + rest.length)
        .sort((a, b) => a - b)[0];
      const part = next === undefined ? rest : rest.slice(0, next - at);
      const classes = marks
        .filter(({ place: [a, b] }) => a <= at && at + part.length <= b)
        .map((m) => m.class);
      const names = [piece.class, ...new Set(classes)].filter(Boolean).join(" ");
      shown.push(names ? h("span", { class: names }, part) : part);
      at += part.length;
      rest = rest.slice(part.length);
    }
  }
  for (const {
    place: [start, stop],
    class: name,
  } of marks) {
    if (start === stop && start >= length) shown.push(h("span", { class: name }, "\u00a0"));
  }
  return shown;
}
