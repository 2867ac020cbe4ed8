/**
 * The question as Python, as a command line, and for curl: exactly what is asked, ready to be run.
 *
 *   dimsolve check 'm k+, k+ n -> m n' --input 'm, k' --input 'k, n' --split k --parts 8
 */

import { fill, freshId, h } from "./dom.js";
import { lengthOf } from "./state.js";

/** Returns the three texts; operator as `operatorOf` makes it, cuts `[name, parts]`, address of a service. */
export function textsOf(operator, cuts, contiguous, address) {
  const lines = (one, none) =>
    (cuts.length ? cuts.map(([name, parts]) => one(name, parts)) : [none]).join("\n");
  const cut = (split, parts) => ({ ...operator, split, parts: lengthOf(parts), contiguous });
  return {
    Python: `import dimsolve as ds\n\n${lines(
      (name, parts) =>
        `print(${python("check", operator, [quoted(name), count(parts)], contiguous)}.explain())`,
      `print(${python("infer", operator, [], false)}.explain())`,
    )}`,
    "command line": lines(
      (name, parts) =>
        command("check", operator, ["--split", name, "--parts", parts.trim()], contiguous),
      command("infer", operator, [], false),
    ),
    curl: lines(
      (name, parts) => curl(address, "check", cut(name, parts)),
      curl(address, "infer", operator),
    ),
  };
}

function python(verb, operator, cut, contiguous) {
  const shapes = operator.inputs === null ? [] : [list(operator.inputs)];
  if (!shapes.length && cut.length) shapes.push("None");
  const args = Object.entries(operator.arguments).map(
    ([name, size]) => `${quoted(name)}: ${count(size)}`,
  );
  const named = [
    args.length ? `arguments={${args.join(", ")}}` : null,
    operator.facts.length ? `facts=${list(operator.facts)}` : null,
    contiguous ? "contiguous=True" : null,
  ].filter(Boolean);
  return `ds.${verb}(${[quoted(operator.annotation), ...shapes, ...cut, ...named].join(", ")})`;
}

const list = (texts) =>
  `[${texts.map((text) => (text === null ? "None" : quoted(text))).join(", ")}]`;

/** A JSON text is a Python text that says the same. */
const quoted = (text) => JSON.stringify(text);

function count(parts) {
  const length = lengthOf(String(parts));
  return typeof length === "number" ? String(length) : quoted(length);
}

function command(verb, operator, cut, contiguous) {
  const options = [
    ...(operator.inputs ?? []).flatMap((text) => ["--input", text ?? "?"]),
    ...Object.entries(operator.arguments).flatMap(([name, size]) => ["--arg", `${name}=${size}`]),
    ...operator.facts.flatMap((fact) => ["--fact", fact]),
    ...cut,
    ...(contiguous ? ["--contiguous"] : []),
  ];
  const isOption = operator.annotation.trimStart().startsWith("-");
  const words = isOption
    ? [...options, "--", operator.annotation]
    : [operator.annotation, ...options];
  return ["dimsolve", verb, ...words.map(shell)].join(" ");
}

function curl(address, verb, question) {
  const json = JSON.stringify(question);
  const header = "Content-Type: application/json";
  return `curl -s ${shell(`${address}v1/${verb}`)} -H ${shell(header)} --data-raw ${shell(json)}`;
}

/** Returns a word as a shell reads it; what cannot be mistaken stands without quotes. */
export function shell(word) {
  return /^[A-Za-z0-9_\-./:=,]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The three texts with a button each to copy them. */
export class Copy {
  constructor(say) {
    this._say = say;
    this._texts = {};
    this._chosen = "Python";
    this._code = h("code", {});
    this._tabs = new Map();
    const name = freshId("copy");
    const tabs = ["Python", "command line", "curl"].map((kind) => {
      const radio = h("input", {
        type: "radio",
        name,
        value: kind,
        onchange: () => this._choose(kind),
      });
      this._tabs.set(kind, radio);
      return h("label", { class: "tab" }, radio, h("span", {}, kind));
    });
    this._tabs.get(this._chosen).checked = true;
    const button = h(
      "button",
      { type: "button", class: "small", onclick: () => this._copy() },
      "Copy",
    );
    this.element = h(
      "section",
      { class: "panel" },
      h(
        "div",
        { class: "panel-head" },
        h("h2", {}, "The same elsewhere"),
        h("fieldset", { class: "tabs" }, h("legend", { class: "hidden" }, "language"), tabs),
        button,
      ),
      h(
        "pre",
        { class: "copied", tabindex: "0", "aria-label": "the question as code" },
        this._code,
      ),
    );
  }

  show(texts) {
    this._texts = texts;
    this.element.hidden = !Object.keys(texts).length;
    fill(this._code, texts[this._chosen] ?? "");
  }

  _choose(kind) {
    this._chosen = kind;
    fill(this._code, this._texts[kind] ?? "");
  }

  async _copy() {
    const text = this._texts[this._chosen] ?? "";
    try {
      await navigator.clipboard.writeText(text);
      this._say(`copied as ${this._chosen}`);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(this._code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      this._say(
        document.execCommand("copy")
          ? `copied as ${this._chosen}`
          : "selected: copy it with the keyboard",
      );
    }
  }
}
