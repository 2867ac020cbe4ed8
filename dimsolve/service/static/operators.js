/**
 * The operators: all that the library knows, to search, with their annotations and legal cuts. A click
 * on an annotation asks about it in the playground.
 *
 *   #q=conv    those whose name has "conv" in it
 */

import { colorsOf, tokensOf } from "./colors.js";
import { fill, h } from "./dom.js";
import { Field } from "./field.js";
import { EMPTY, toFragment } from "./state.js";

const SHOWN = 60;

class Operators {
  constructor(root) {
    this._rows = null;
    this._most = SHOWN;
    this._field = new Field({
      label: "Search",
      placeholder: "conv2d, softmax, torch.linalg",
      className: "annotation",
      oninput: (text) => this._search(text, true),
    });
    this._count = h("p", { class: "note", role: "status", "aria-live": "polite" });
    this._list = h("div", { class: "operators" });
    const key = h(
      "p",
      { class: "note" },
      "A name may be split; ",
      h("code", {}, "+"),
      " gives partial sums, ",
      h("code", {}, "^"),
      " is never split. A function has an annotation for each call: those of examples are shown.",
    );
    root.classList.add("dimsolve");
    fill(root, this._field.element, key, this._count, this._list);
    addEventListener("popstate", () => this._read());
    this._load();
  }

  async _load() {
    fill(this._count, "loading…");
    try {
      const response = await fetch("v1/operators");
      this._rows = (await response.json()).operators;
      this._read();
    } catch {
      fill(this._count, "The service does not answer; reload the page to ask again.");
    }
  }

  _read() {
    const text = new URLSearchParams(location.hash.slice(1)).get("q") ?? "";
    this._field.setValue(text);
    this._search(text, false);
  }

  _search(text, isTyped) {
    if (isTyped) {
      const pairs = new URLSearchParams(text ? { q: text } : {});
      history.replaceState(null, "", `#${pairs}`);
      this._most = SHOWN;
    }
    if (!this._rows) return;
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this._rows
      .filter((row) => words.every((word) => textOf(row).includes(word)))
      .map((row) => [rank(row.path, words), row])
      .sort(([a], [b]) => a - b)
      .map(([, row]) => row);
    const shown = found.slice(0, this._most);
    const more = found.length - shown.length;
    fill(this._count, `${found.length} of ${this._rows.length} functions`);
    const next = h(
      "button",
      {
        type: "button",
        onclick: () => {
          this._most += 4 * SHOWN;
          this._search(text, false);
        },
      },
      `show more (${more})`,
    );
    fill(this._list, shown.map(panelOf), more > 0 && next);
  }
}

const textOf = (row) => `${row.path} ${row.note}`.toLowerCase();

/** Names that are the word come first, then those that begin with it. */
function rank(path, words) {
  const last = path.split(".").at(-1).toLowerCase();
  if (!words.length) return 0;
  return words.includes(last) ? 0 : words.some((word) => last.startsWith(word)) ? 1 : 2;
}

function panelOf(row) {
  const state = { ...EMPTY, annotation: row.path };
  const ask = h("a", { href: `./#${toFragment(state)}` }, "ask about a call");
  return h(
    "section",
    { class: "panel operator", "aria-label": row.path },
    h("div", { class: "panel-head" }, h("h2", {}, h("code", {}, row.path)), row.annotations.length > 0 && ask),
    row.annotations.map(annotationOf),
    row.note && h("p", { class: "note" }, row.note),
  );
}

function annotationOf(text) {
  const colors = colorsOf(text);
  const pieces = tokensOf(text).map(({ text: piece, name }) =>
    name ? h("span", { class: colors.get(name) }, piece) : piece,
  );
  const href = `./#${toFragment({ ...EMPTY, annotation: text })}`;
  return h(
    "div",
    { class: "cuts" },
    h("a", { href, class: "plain-link", title: "ask about it" }, h("code", {}, pieces)),
    h("span", { class: "note" }, cutsOf(text)),
  );
}

/** What of an annotation may be split, in words. */
function cutsOf(text) {
  const marks = new Map();
  for (const [, name, mark] of text.matchAll(/([\p{ID_Start}_][\p{ID_Continue}]*|\*)([+^]?)/gu))
    if (!marks.get(name)) marks.set(name, mark);
  const of = (mark) => [...marks].filter(([, own]) => own === mark).map(([name]) => name);
  const said = [
    ["split", of("")],
    ["split with partial sums", of("+")],
    ["whole", of("^")],
  ];
  return said
    .filter(([, names]) => names.length)
    .map(([word, names]) => `${word}: ${names.join(" ")}`)
    .join(" · ");
}

new Operators(document.getElementById("operators"));
