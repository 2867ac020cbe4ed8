/**
 * A Hugging Face config: which counts each axis may have and who forbids the others, the memory of a
 * rank, the collectives of a step. The question is in the address:
 *
 *   #c={"model_type":"llama",...}&dp=2&tp=8&batch=8&seq=2048
 */

import { fill, h, scroller } from "./dom.js";
import { Field, problemText } from "./field.js";
import { askOne } from "./http.js";
import { CONFIGS } from "./configs.js";
import { codes } from "./shapes.js";

const TYPING_MS = 500;
const MESH = ["dp", "tp"];
const SIZES = ["batch", "seq", "target"];
const MEANS = { dp: "cuts the batch", tp: "cuts parameters" };

class Models {
  constructor(root) {
    this._number = 0;
    this._config = new Field({
      label: "config.json",
      note: "as on the model's page: nothing in it is run or fetched",
      placeholder: '{"model_type": "llama", "hidden_size": 4096, …}',
      lines: true,
      className: "config",
      oninput: () => this._changed(TYPING_MS),
    });
    this._counts = new Map([...MESH, ...SIZES].map((name) => [name, this._count(name)]));
    const examples = Object.entries(CONFIGS).map(([name, config]) =>
      h("button", { type: "button", class: "example", onclick: () => this._take(config) }, name),
    );
    this._live = h("p", { class: "hidden", role: "status", "aria-live": "polite" });
    this._notice = h("div", { class: "problem" });
    this._waits = h("p", { class: "computing" });
    this._answers = h("div", { class: "answers" });
    const link = h("button", { type: "button", class: "small", onclick: () => this._copyLink() }, "Copy link");
    this._config.head.append(link);
    root.classList.add("dimsolve");
    fill(
      root,
      h(
        "div",
        { class: "sides" },
        h(
          "div",
          { class: "asked", role: "group", "aria-label": "Question" },
          this._config.element,
          h("div", { class: "counts" }, [...this._counts.values()].map((each) => each.element)),
          h(
            "section",
            { class: "examples-box" },
            h("h2", {}, "Examples"),
            h("div", { class: "examples", role: "group", "aria-label": "Examples" }, examples),
          ),
        ),
        h(
          "div",
          { class: "answered", role: "group", "aria-label": "Answer" },
          this._notice,
          this._waits,
          this._answers,
        ),
      ),
      this._live,
    );
    addEventListener("popstate", () => this._read());
    this._read();
  }

  _count(name) {
    const input = h("input", {
      type: "number",
      min: 1,
      step: 1,
      class: "count",
      oninput: () => this._changed(TYPING_MS),
    });
    const element = h("label", {}, h("span", {}, name, MEANS[name] && ` ${MEANS[name]}`), input);
    element.hidden = name === "target";
    return { input, element };
  }

  _take(config) {
    this._config.setValue(JSON.stringify(config, null, 1));
    for (const name of SIZES) this._counts.get(name).input.value = "";
    this._changed(0);
  }

  _read() {
    const pairs = new URLSearchParams(location.hash.slice(1));
    const text = pairs.get("c");
    this._config.setValue(text === null ? JSON.stringify(Object.values(CONFIGS)[0], null, 1) : pretty(text));
    for (const [name, { input }] of this._counts)
      input.value = pairs.get(name) ?? (MESH.includes(name) && text === null ? "2" : "");
    this._ask(0);
  }

  _changed(milliseconds) {
    const pairs = new URLSearchParams();
    pairs.append("c", compact(this._config.value));
    for (const [name, { input }] of this._counts) if (input.value) pairs.append(name, input.value);
    history.replaceState(null, "", `#${pairs}`);
    this._ask(milliseconds);
  }

  _ask(milliseconds) {
    clearTimeout(this._timer);
    this._pending?.abort();
    this._number += 1;
    const number = this._number;
    this._timer = setTimeout(() => this._solve(number), milliseconds);
  }

  async _solve(number) {
    const isMine = () => number === this._number;
    const text = this._config.value;
    let config;
    try {
      config = JSON.parse(text);
    } catch (error) {
      return this._refused({ title: "this is no JSON", detail: text.trim() ? error.message : "", hint: "paste the text of a config.json" });
    }
    const read = (names) =>
      Object.fromEntries(
        names
          .map((name) => [name, Number(this._counts.get(name).input.value)])
          .filter(([, value]) => value),
      );
    this._pending = new AbortController();
    fill(this._waits, h("b", {}, "computing…"), " the model is built without weights and traced: some seconds");
    this._say("computing");
    this._answers.classList.add("old");
    try {
      const question = { config, mesh: read(MESH), sizes: read(SIZES) };
      const answer = await askOne("", "model", question, this._pending.signal);
      if (isMine()) this._show(answer);
    } catch (error) {
      if (isMine() && error.name !== "AbortError")
        this._refused(error.problem ?? { title: "this page has a defect", detail: String(error) });
    }
  }

  _refused(problem) {
    fill(this._waits);
    fill(this._notice, problemText(problem));
    this._answers.classList.add("old");
    this._say([problem.title, problem.detail].filter(Boolean).join(". "));
  }

  _show(answer) {
    fill(this._waits);
    fill(this._notice, answer.problem && problemText(answer.problem));
    for (const name of SIZES) {
      const { input, element } = this._counts.get(name);
      element.hidden = !(name in answer.sizes);
      input.placeholder = String(answer.sizes[name] ?? "");
    }
    this._answers.classList.remove("old");
    fill(
      this._answers,
      summaryOf(answer),
      panel("Legal counts", Object.entries(answer.axes).map(countsOf)),
      answer.memory && panel("Memory of a rank", memoryOf(answer)),
      answer.communication.length > 0 && panel("Collectives of a training step", trafficOf(answer)),
      panel("What it needs", needsOf(answer)),
    );
    this._say(this._answers.querySelector(".summary").textContent);
  }

  async _copyLink() {
    this._changed(0);
    try {
      await navigator.clipboard.writeText(location.href);
      this._say("link copied");
    } catch {
      this._say("the link is in the address bar");
    }
  }

  _say(text) {
    if (this._live.textContent !== text) this._live.textContent = text;
  }
}

function compact(text) {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return text;
  }
}

function panel(title, content) {
  const head = h("div", { class: "panel-head" }, h("h2", {}, title));
  return h("section", { class: "panel", "aria-label": title }, head, content);
}

function summaryOf({ model, parameters, dtype, traced, memory, problem }) {
  const fits = memory && [", ", h("b", {}, bytes(memory.total)), " on a rank"];
  return h(
    "p",
    { class: `summary ${problem ? "illegal" : "legal"}` },
    h("b", {}, model),
    `, ${amount(parameters)} parameters in ${dtype}`,
    fits,
    h("span", { class: "note traced" }, traced),
  );
}

/** The first rows of many, and how far they go on. */
function first(most, texts, written) {
  const all = Object.entries(texts);
  const rows = all.slice(0, most).map(([counts, text]) => [counts, written(text)]);
  return all.length > most ? [...rows, ["…", `and so on, to ${all.at(-1)[0]}`]] : rows;
}

/** An axis: the counts that are legal, and for the others who forbids them. */
function countsOf([axis, { always, uneven, conditional, never, unknown }]) {
  const rows = [
    ["always", codes([always])],
    ...first(7, uneven, (text) => ["in unequal parts: ", text]),
    ...first(3, conditional, (text) => ["if ", codes([text])]),
    ...Object.entries(unknown).map(([counts, text]) => [counts, ["not decided: ", text]]),
  ];
  const forbids = Object.entries(never).map(([counts, text]) => [
    h("dt", {}, "never ", codes([counts])),
    h("dd", {}, reason(text)),
  ]);
  return h(
    "div",
    { class: "axis" },
    h("h3", {}, h("code", {}, axis), ` ${MEANS[axis] ?? ""}`),
    h("dl", { class: "ends" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    forbids.length > 0 && h("dl", { class: "never" }, forbids),
  );
}

/** A reason, with the place in the model's code set apart: `view at file.py:244 (module): why`. */
function reason(text) {
  const found = /^(\S+) at (\S+:\d+) \(([^)]*)\): (.*)$/s.exec(text);
  if (!found) return text;
  const [, operator, place, module, why] = found;
  return [
    h("p", {}, why),
    h("p", { class: "note" }, h("code", {}, operator), " at ", h("code", {}, place), " in ", h("code", {}, module)),
  ];
}

const PARTS = ["parameters", "gradients", "optimizer", "activations", "total"];

function memoryOf({ memory, whole }) {
  const rows = PARTS.map((name) =>
    h(
      "tr",
      { class: name },
      h("th", { scope: "row" }, name),
      h("td", {}, bytes(memory[name])),
      h("td", {}, whole ? bytes(whole[name]) : ""),
    ),
  );
  const head = ["", "on a rank", "on one device"].map((text) => h("th", { scope: "col" }, text));
  return [
    scroller("memory", h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))),
    h("p", { class: "note" }, "A training step with Adam, everything in the model's dtype; activations are an estimate from above."),
  ];
}

function trafficOf({ communication }) {
  const rows = communication.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, row.collective),
      [row.axis, row.direction, String(row.count), bytes(row.bytes)].map((text) => h("td", {}, text)),
    ),
  );
  const head = ["", "axis", "in", "how many", "sent by a rank"].map((text) =>
    h("th", { scope: "col" }, text),
  );
  return scroller("collectives", h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

function needsOf({ inputs, conditions, notes }) {
  const rows = [
    ...Object.entries(inputs).map(([name, type]) => [name, codes([type])]),
    conditions.length > 0 && ["conditions", codes(conditions, " and ")],
    ...notes.map((note, index) => [index ? "" : "notes", note]),
  ].filter(Boolean);
  return h("dl", { class: "ends" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Returns bytes as people read them: `14.9 GiB`. */
function bytes(count) {
  let unit = 0;
  while (count >= 1024 && unit < UNITS.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count < 10 && unit ? count.toFixed(2) : count < 100 && unit ? count.toFixed(1) : Math.round(count)} ${UNITS[unit]}`;
}

function amount(count) {
  const [value, word] = [[1e9, " billion"], [1e6, " million"]].find(([least]) => count >= least) ?? [1, ""];
  return value === 1 ? String(count) : `${(count / value).toFixed(2)}${word}`;
}

new Models(document.getElementById("models"));
