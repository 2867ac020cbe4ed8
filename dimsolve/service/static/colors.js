/**
 * One colour per identifier, by the order in which the annotation names them: class c0 to c7.
 *
 *   colorsOf("(h t) k -> h t k")   Map { "h" => "c0", "t" => "c1", "k" => "c2" }
 *
 * This is for the eyes only, so that colours follow every key at once; what a text means is the
 * service's to say.
 */

const COLORS = 8;
const TOKEN = /[\p{ID_Start}_][\p{ID_Continue}]*|->|[+^*?(),]|\p{Nd}+|\s+|./gu;

/** Returns the class of each identifier; more: names that `*` was given. */
export function colorsOf(annotation, more = []) {
  const names = [...annotation.matchAll(TOKEN)].map(([token]) => token).filter(isName);
  const unique = [...new Set([...names, ...more])];
  return new Map(unique.map((name, index) => [name, `c${index % COLORS}`]));
}

/** Returns the tokens of an annotation: `{ text, start, name }`, name for identifiers only. */
export function tokensOf(annotation) {
  return [...annotation.matchAll(TOKEN)].map((match) => ({
    text: match[0],
    start: match.index,
    name: isName(match[0]) ? match[0] : null,
  }));
}

function isName(token) {
  return /^[\p{ID_Start}_]/u.test(token);
}
