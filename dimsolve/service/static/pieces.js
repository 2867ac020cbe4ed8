/**
 * How a tensor falls into pieces, and which ranks hold each.
 *
 *   segments(["h", "t"], parts { t: 2 }, lengths { h: "3" })
 *       t0 t1 t0 t1 t0 t1        of each of the 3 blocks of h, one half
 *
 * A segment is `{ coords: { name: part } }`; one with `gap` stands for blocks that are not drawn.
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
  let found = Array.from({ length: at(parts, atoms[last]) }, (_, part) => ({
    coords: { [atoms[last]]: part },
  }));
  for (const atom of atoms.slice(0, last).reverse()) {
    const inner = found;
    found = blocks(atom, parts, lengths, most).flatMap((block) =>
      block.gap ? [block] : inner.map((s) => ({ ...s, coords: { ...block.coords, ...s.coords } })),
    );
  }
  return found;
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
    x: { extent: 0, places: [{ at: 0, coords: {} }] },
    y: { extent: 0, places: [{ at: 0, coords: {} }] },
  };
  const counts = { x: 1, y: 1 };
  const along = (index) => ((dims.length - 1 - index) % 2 === 0 ? "x" : "y");
  dims.forEach((list, index) => (counts[along(index)] *= list.length));
  const cell = { x: clamped(width / counts.x), y: clamped(height / counts.y) };
  for (const name of ["x", "y"]) {
    const axis = axes[name];
    axis.extent = cell[name];
    let level = 0;
    for (let index = dims.length - 1; index >= 0; index -= 1) {
      if (along(index) !== name) continue;
      const gap = level === 0 ? 0 : 4 + 2 * level;
      const step = axis.extent + gap;
      const inner = axis.places;
      axis.places = dims[index].flatMap((segment, k) =>
        inner.map((place) => ({
          at: place.at + k * step,
          coords: { ...place.coords, ...segment.coords },
          gap: place.gap || segment.gap,
        })),
      );
      axis.extent += (dims[index].length - 1) * step;
      if (dims[index].length > 1) level += 1;
    }
  }
  const found = axes.y.places.flatMap((row) =>
    axes.x.places.map((column) => ({
      x: column.at,
      y: row.at,
      width: cell.x,
      height: cell.y,
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
