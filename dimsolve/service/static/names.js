/**
 * Records whose keys are names that people chose: `toString` and `__proto__` are names like others.
 *
 *   at({ k: "8" }, "k")           "8"
 *   at({ k: "8" }, "toString")    undefined, where `record.toString` is a function
 */

/** Returns what a record has under a name, or undefined; never what every object inherits. */
export function at(record, name) {
  return has(record, name) ? record[name] : undefined;
}

/** Says whether a record has an entry of this name itself. */
export function has(record, name) {
  return Object.hasOwn(record, name);
}

/** Returns a copy of a record without a name, or with another value for it. */
export function put(record, name, value) {
  const entries = Object.entries(record).filter(([key]) => key !== name);
  if (value !== undefined) entries.push([name, value]);
  return Object.fromEntries(entries);
}
