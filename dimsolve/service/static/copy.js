/**
 * The question as Python, as a command line, and for curl: exactly what is asked, ready to be run.
 *
 *   dimsolve check 'm k+, k+ n -> m n' --input 'm, k' --input 'k, n' --split k --parts 8
 */

import { fill, freshId, h } from "./dom.js";
import { lengthOf } from "./state.js";

/**
 * Returns the three texts; operator as `operatorOf` makes it, cuts `[name, parts]`, manner as
 * `mannerOf` makes it, address of a service. about: the state, where it is a call of a function.
 * Several splits are one question: all of them on one mesh.
 */
export function textsOf(operator, cuts, manner, address, about = null) {
  const asked = cuts.map(([split, parts]) => ({
    ...operator,
    split,
    parts: lengthOf(parts),
    ...odd(manner),
  }));
  const call = about && [about.annotation.trim(), about.args.trim()].filter(Boolean).join(" with ");
  return {
    Python: [call && `# ${call}`, "import dimsolve as ds", "", python(operator, cuts, manner)]
      .filter((line) => line !== null)
      .join("\n"),
    "command line": command(operator, cuts, manner),
    curl:
      cuts.length > 1
        ? curl(address, "batch", { questions: asked.map((each) => ({ verb: "check", ...each })) })
        : cuts.length
          ? curl(address, "check", asked[0])
          : curl(address, "infer", operator),
  };
}

/** What of the manner is not as usual. */
function odd({ contiguous, uneven, value_split, partial }) {
  return {
    ...(contiguous ? { contiguous } : {}),
    ...(uneven ? { uneven } : {}),
    ...(value_split.length ? { value_split } : {}),
    ...(partial === "sum" ? {} : { partial }),
  };
}

function python(operator, cuts, manner) {
  const shapes = operator.inputs === null ? [] : [list(operator.inputs)];
  if (!shapes.length && cuts.length) shapes.push("None");
  const place = [quoted(operator.annotation), ...shapes];
  const args = Object.entries(operator.arguments).map(
    ([name, size]) => `${quoted(name)}: ${count(size)}`,
  );
  const known = [
    ["arguments", args.length && `{${args.join(", ")}}`],
    ["facts", operator.facts.length && list(operator.facts)],
  ];
  const how = [
    ["contiguous", manner.contiguous && "True"],
    ["uneven", manner.uneven && "True"],
    ["value_split", manner.value_split.length && `[${manner.value_split.join(", ")}]`],
    ["partial", manner.partial !== "sum" && quoted(manner.partial)],
  ];
  const named = (pairs) =>
    pairs.filter(([, text]) => text).map(([name, text]) => `${name}=${text}`);
  const splits = cuts.map(([name, parts]) => [quoted(name), count(parts)]);
  const [verb, words] = [
    ["infer", named(known)],
    ["check", [...splits.flat(), ...named([...known, ...how])]],
    ["check_mesh", [`{${splits.map((pair) => pair.join(": ")).join(", ")}}`, ...named([...known, ...how])]],
  ][Math.min(cuts.length, 2)];
  return `print(ds.${verb}(${[...place, ...words].join(", ")}).explain())`;
}

const list = (texts) =>
  `[${texts.map((text) => (text === null ? "None" : quoted(text))).join(", ")}]`;

/** A JSON text is a Python text that says the same. */
const quoted = (text) => JSON.stringify(text);

function count(parts) {
  const length = lengthOf(String(parts));
  return typeof length === "number" ? String(length) : quoted(length);
}

function command(operator, cuts, { contiguous, uneven, value_split, partial }) {
  const options = [
    ...(operator.inputs ?? []).flatMap((text) => ["--input", text ?? "?"]),
    ...Object.entries(operator.arguments).flatMap(([name, size]) => ["--arg", `${name}=${size}`]),
    ...operator.facts.flatMap((fact) => ["--fact", fact]),
    ...cuts.flatMap(([name, parts]) => ["--split", name, "--parts", parts.trim()]),
    ...(cuts.length && contiguous ? ["--contiguous"] : []),
    ...(cuts.length && uneven ? ["--uneven"] : []),
    ...(cuts.length ? value_split.flatMap((number) => ["--summand", String(number)]) : []),
    ...(cuts.length && partial !== "sum" ? ["--partial", partial] : []),
  ];
  const isOption = operator.annotation.trimStart().startsWith("-");
  const words = isOption
    ? [...options, "--", operator.annotation]
    : [operator.annotation, ...options];
  return ["dimsolve", cuts.length ? "check" : "infer", ...words.map(shell)].join(" ");
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
