/**
 * The service's hints speak of Python's arguments; here an unknown shape is an empty field.
 *
 *   onPage({ hint: "give 3 dimensions, or None where the shape is not known" })
 *       { hint: "give 3 dimensions, or leave it empty" }
 */

const SAID_HERE = [
  ["or None where the shape is not known", "or leave it empty"],
  ["write None as the whole shape, or a name", "leave the whole shape empty, or write a name"],
  ["write an unknown dimension as None", "give an unknown dimension a name"],
];

/** Returns a problem of the service with its hint in the words of this page. */
export function onPage(problem) {
  if (!problem?.hint) return problem;
  const hint = SAID_HERE.reduce((text, [there, here]) => text.replace(there, here), problem.hint);
  return { ...problem, hint };
}
