/**
 * What is asked, as plain data, and the same as the fragment of an address.
 *
 *   { annotation: "m k+, k+ n -> m n", inputs: ["m, k", "k, n"], splits: { k: "8" }, ... }
 *   #a=m k+, k+ n -> m n&i=m, k&i=k, n&split=k:8
 *
 * All texts are as they were typed: the service reads them, this page does not.
 */

export const MAX_COUNTS = [8, 16, 32, 64, 128, 256];

export const REDUCTIONS = ["sum", "max", "min", "prod", "avg"];

export const EMPTY = Object.freeze({
  annotation: "",
  inputs: [],
  args: "",
  facts: "",
  contiguous: false,
  uneven: false,
  summands: [],
  partial: "sum",
  splits: {},
  upTo: 16,
  rank: 0,
});

/** Returns the fragment of the address that is this state, without what is as usual. */
export function toFragment(state) {
  const pairs = new URLSearchParams();
  pairs.append("a", state.annotation);
  const last = state.inputs.findLastIndex((text) => text !== "");
  for (const text of state.inputs.slice(0, last + 1)) pairs.append("i", text);
  if (state.args) pairs.append("arg", state.args);
  if (state.facts) pairs.append("fact", state.facts);
  if (state.contiguous) pairs.append("contiguous", "1");
  if (state.uneven) pairs.append("uneven", "1");
  for (const number of state.summands) pairs.append("summand", String(number));
  if (state.partial !== EMPTY.partial) pairs.append("partial", state.partial);
  for (const [name, parts] of Object.entries(state.splits))
    pairs.append("split", `${name}:${parts}`);
  if (state.upTo !== EMPTY.upTo) pairs.append("to", String(state.upTo));
  if (state.rank) pairs.append("rank", String(state.rank));
  return pairs.toString();
}

/** Returns the state that a fragment is, or null where it has no annotation. */
export function fromFragment(fragment) {
  const pairs = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!pairs.has("a")) return null;
  const rank = Number(pairs.get("rank") ?? 0);
  const upTo = Number(pairs.get("to") ?? EMPTY.upTo);
  return {
    annotation: pairs.get("a"),
    inputs: pairs.getAll("i"),
    args: pairs.get("arg") ?? "",
    facts: pairs.get("fact") ?? "",
    contiguous: pairs.get("contiguous") === "1",
    uneven: pairs.get("uneven") === "1",
    summands: pairs.getAll("summand").map(Number).filter(isPlace),
    partial: REDUCTIONS.includes(pairs.get("partial")) ? pairs.get("partial") : EMPTY.partial,
    splits: Object.fromEntries(pairs.getAll("split").map(splitOf).filter(Boolean)),
    upTo: MAX_COUNTS.includes(upTo) ? upTo : EMPTY.upTo,
    rank: Number.isSafeInteger(rank) && rank > 0 ? rank : 0,
  };
}

function isPlace(number, index, all) {
  return Number.isSafeInteger(number) && number >= 0 && all.indexOf(number) === index;
}

function splitOf(text) {
  const colon = text.indexOf(":");
  return colon > 0 ? [text.slice(0, colon), text.slice(colon + 1)] : null;
}

/**
 * Returns the entries of a list that was typed, each with its place: commas outside brackets, and
 * line ends, stand between two.
 */
export function entriesOf(text) {
  const entries = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at <= text.length; at += 1) {
    const char = text[at];
    if (char === "(") depth += 1;
    if (char === ")") depth -= 1;
    const ends =
      at === text.length || char === "\n" || (depth <= 0 && (char === "," || char === ";"));
    if (!ends) continue;
    const entry = text.slice(start, at);
    const blanks = entry.length - entry.trimStart().length;
    if (entry.trim()) entries.push({ text: entry.trim(), start: start + blanks });
    start = at + 1;
    depth = 0;
  }
  return entries;
}

/** Returns the arguments that were typed, `h=8, t=2*s`, each with the place of its length. */
export function argumentsOf(text) {
  return entriesOf(text).map((entry) => {
    const equals = entry.text.indexOf("=");
    const name = entry.text.slice(0, Math.max(equals, 0)).trim();
    const length = equals < 0 ? "" : entry.text.slice(equals + 1);
    const blanks = length.length - length.trimStart().length;
    const start = entry.start + equals + 1 + blanks;
    return { name, text: length.trim(), start, entry };
  });
}

/** Returns the number that a text writes out, or else the text: an expression for the service. */
export function lengthOf(text) {
  return /^[0-9]{1,15}$/.test(text.trim()) ? Number(text.trim()) : text.trim();
}

const WORDS = { true: true, false: false, none: null };

/**
 * Returns the value that was typed for an argument of a function: a number, a word, a list.
 *
 *   valueOf("2")  2      valueOf("(1, 0)")  [1, 0]      valueOf("'nearest'")  "nearest"
 */
export function valueOf(text) {
  const word = text.trim();
  if (Object.hasOwn(WORDS, word.toLowerCase())) return WORDS[word.toLowerCase()];
  if (/^-?\d+(\.\d+)?(e-?\d{1,3})?$/i.test(word)) return Number(word);
  if (/^[([].*[)\]]$/.test(word)) return entriesOf(word.slice(1, -1)).map((e) => valueOf(e.text));
  return word.replace(/^(['"])(.*)\1$/, "$2");
}
