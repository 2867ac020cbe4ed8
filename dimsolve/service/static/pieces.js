/**
 * How a tensor falls into pieces, and which ranks hold each.
 *
 *   segments(["h", "t"], parts { t: 2 }, lengths { h: "3" })
 *       t0 t1 t0 t1 t0 t1        of each of the 3 blocks of h, one half
 *
 * A segment is `{ coords: { name: part } }`; one with `gap` stands for blocks that are not drawn, one
 * with `share` has so many times an equal share: 10 in 3 parts are 4, 4 and 2.
 */

import { at, has } from "./names.js";

const MAX_BLOCKS = 8;
const MAX_SEGMENTS = 48;

/** Returns the segments of one dimension, in order, from its atoms. */
export function segments(atoms, parts, lengths) {
  const full = joined(atoms, parts, lengths, MAX_BLOCKS);
  return full.length <= MAX_SEGMENTS ? full : joined(atoms, parts, lengths, 0);
}

function joined(atoms, parts, lengths, most) {
  const last = atoms.findLastIndex((atom) => has(parts, atom));
  if (last < 0) return [{ coords: {} }];
  const length = Number(at(lengths, atoms[last]) ?? atoms[last]);
  let found = Array.from({ length: at(parts, atoms[last]) }, (_, part) => ({
    coords: { [atoms[last]]: part },
    share: shareOf(length, at(parts, atoms[last]), part),
  }));
  for (const atom of atoms.slice(0, last).reverse()) {
    const inner = found;
    found = blocks(atom, parts, lengths, most).flatMap((block) =>
      block.gap ? [block] : inner.map((s) => ({ ...s, coords: { ...block.coords, ...s.coords } })),
    );
  }
  return found;
}

/** How many times an equal share a part has, of a known length. */
function shareOf(length, count, part) {
  if (!Number.isInteger(length) || length % count === 0) return 1;
  const most = Math.ceil(length / count);
  return (Math.min(Math.max(length - part * most, 0), most) * count) / length;
}

/** The indices of an identifier whose blocks are cut further: all of them, or the ends of a run. */
function blocks(atom, parts, lengths, most) {
  const length = Number(at(lengths, atom) ?? atom);
  const count = at(parts, atom) ?? 1;
  const coords = (part) => (has(parts, atom) ? { [atom]: part } : {});
  if (Number.isInteger(length) && length <= most && length % count === 0) {
    return Array.from({ length }, (_, index) => ({
      coords: coords(Math.floor((index * count) / length)),
    }));
  }
  const isOne = length === count;
  return Array.from({ length: count }, (_, part) =>
    isOne
      ? [{ coords: coords(part) }]
      : [{ coords: coords(part) }, { gap: true, coords: coords(part) }],
  ).flat();
}

/**
 * Returns the cells of a tensor: `{ x, y, width, height, coords, gap }`, and its size.
 *
 * The last dimension runs to the right, the one before it down; the others repeat the picture,
 * again to the right and down.
 */
export function cells(dims, width, height) {
  const axes = {
    x: { extent: 0, places: [] },
    y: { extent: 0, places: [] },
  };
  const counts = { x: 1, y: 1 };
  const along = (index) => ((dims.length - 1 - index) % 2 === 0 ? "x" : "y");
  dims.forEach((list, index) => (counts[along(index)] *= list.length));
  const cell = { x: clamped(width / counts.x), y: clamped(height / counts.y) };
  for (const name of ["x", "y"]) {
    const axis = axes[name];
    axis.extent = cell[name];
    axis.places = [{ at: 0, size: cell[name], coords: {} }];
    let level = 0;
    for (let index = dims.length - 1; index >= 0; index -= 1) {
      if (along(index) !== name) continue;
      const gap = level === 0 ? 0 : 4 + 2 * level;
      const inner = axis.places;
      let start = 0;
      axis.places = dims[index].flatMap((segment) => {
        const scale = level === 0 ? (segment.share ?? 1) : 1;
        const made = inner.map((place) => ({
          at: start + place.at,
          size: place.size * scale,
          coords: { ...place.coords, ...segment.coords },
          gap: place.gap || segment.gap,
        }));
        start += axis.extent * scale + gap;
        return made;
      });
      axis.extent = start - gap;
      if (dims[index].length > 1) level += 1;
    }
  }
  const found = axes.y.places.flatMap((row) =>
    axes.x.places.map((column) => ({
      x: column.at,
      y: row.at,
      width: column.size,
      height: row.size,
      coords: { ...row.coords, ...column.coords },
      gap: row.gap || column.gap,
    })),
  );
  return { cells: found, width: axes.x.extent, height: axes.y.extent };
}

function clamped(size) {
  return Math.max(7, Math.min(size, 150));
}

/** Returns the coordinates of a rank on the mesh, row by row: the last axis runs fastest. */
export function coordinates(rank, axes) {
  const found = [];
  for (const { name, size } of [...axes].reverse()) {
    found.push([name, rank % size]);
    rank = Math.floor(rank / size);
  }
  return Object.fromEntries(found);
}
