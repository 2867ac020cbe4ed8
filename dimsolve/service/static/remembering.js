/**
 * An `ask` that remembers: moving a slider back asks nobody.
 *
 *   remembering(ask)([{ verb: "parse", annotation: "m k -> k" }], signal, each)
 */

const MAX_KEPT = 400;

/** Returns an `ask` like the one given; what was given up is not kept, it may be answered later. */
export function remembering(ask) {
  const kept = new Map();
  return async (questions, signal, each = () => {}) => {
    const keys = questions.map((question) => JSON.stringify(question));
    const missing = [...new Set(keys)].filter((key) => !kept.has(key));
    const found = new Map(keys.map((key) => [key, kept.get(key)]));
    const settle = (index, answer) => {
      found.set(missing[index], answer);
      if (answer.status < 500) kept.set(missing[index], answer);
    };
    if (missing.length) {
      keys.forEach((key, index) => found.get(key) && each(index, found.get(key)));
      const hear = (index, answer) => {
        settle(index, answer);
        keys.forEach((key, place) => key === missing[index] && each(place, answer));
      };
      const asked = missing.map((key) => JSON.parse(key));
      (await ask(asked, signal, hear)).forEach((answer, index) => settle(index, answer));
      for (const key of [...kept.keys()].slice(0, Math.max(0, kept.size - MAX_KEPT)))
        kept.delete(key);
    }
    return keys.map((key) => found.get(key));
  };
}
