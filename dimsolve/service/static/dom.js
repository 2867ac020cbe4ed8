/**
 * Elements in one line. Text is always text: nothing is ever read as HTML.
 *
 *   h("p", { class: "note", onclick: close }, "rank ", h("b", {}, "3"))
 */

const SVG = "http://www.w3.org/2000/svg";
let made = 0;

/** Returns an HTML element; a function given as onNAME is its listener, null and false are left out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Returns an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Returns an id that no other element has: several widgets may stand in one page. */
export function freshId(name) {
  made += 1;
  return `ds-${name}-${made}`;
}

/** Returns a box for what may be too wide; one that has to be scrolled is reached by the keyboard. */
export function scroller(label, child) {
  const box = h("div", { class: "scroll", role: "group", "aria-label": label }, child);
  const watch = new ResizeObserver(() => {
    if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  });
  watch.observe(box);
  watch.observe(child);
  return box;
}

/** Replaces what an element shows. What it shows before and after stays where it is: a field that
 * was taken out and put back would lose the focus of whoever types in it.
 */
export function fill(element, ...children) {
  const shown = children.flat(Infinity).filter(isShown);
  const kept = new Set(shown);
  for (const node of [...element.childNodes]) if (!kept.has(node)) node.remove();
  let next = element.firstChild;
  for (const child of shown) {
    if (child === next) next = next.nextSibling;
    else element.insertBefore(child instanceof Node ? child : document.createTextNode(child), next);
  }
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(isShown));
  return element;
}

function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}
