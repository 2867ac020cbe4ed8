/**
 * What every rank holds: the ranks as a mesh to choose from, every tensor as a grid of pieces.
 *
 * The pieces of the chosen rank are filled. A hatched piece is a partial value: what all ranks of
 * that axis hold is added up. The same is said in words below each grid.
 */

import { fill, freshId, h, scroller, svg } from "./dom.js";
import { at } from "./names.js";
import { cells, coordinates, segments } from "./pieces.js";

const MAX_RANKS = 128;
const MAX_CELLS = 1600;
const SIZE = { width: 168, height: 112 };

export class Ranks {
  /** change(patch, source) hears which rank is chosen. */
  constructor(change) {
    this._change = change;
    this._mesh = h("div", {});
    this._drawn = h("div", { class: "grids" });
    this._meshKey = "";
    this._name = freshId("rank");
    this.element = h(
      "section",
      { class: "panel" },
      h("div", { class: "panel-head" }, h("h2", {}, "What each rank holds")),
      this._mesh,
      this._drawn,
    );
  }

  /** Shows the tensors of an answer on the mesh that its splits make. */
  show(result, state, colors) {
    const axes = result.joint.axes.map((row) => ({
      name: row.name,
      size: Number(row.check.parts),
    }));
    const reason = whyNot(result.joint, axes);
    if (reason) {
      this._meshKey = "";
      fill(this._mesh, h("p", { class: "note" }, reason));
      fill(this._drawn);
      return;
    }
    const count = axes.reduce((product, axis) => product * axis.size, 1);
    const rank = Math.min(state.rank, count - 1);
    this._showMesh(axes, count, rank, colors);
    const parts = Object.fromEntries(axes.map((axis) => [axis.name, axis.size]));
    const here = coordinates(rank, axes);
    fill(
      this._drawn,
      result.joint.tensors.map((tensor) => figure(tensor, result, parts, here, axes, colors)),
    );
  }

  _showMesh(axes, count, rank, colors) {
    const key = JSON.stringify(axes);
    if (key !== this._meshKey) {
      this._meshKey = key;
      fill(this._mesh, this._meshOf(axes, count, colors));
    }
    const chosen = this._mesh.querySelector(`input[value="${rank}"]`);
    if (chosen) chosen.checked = true;
  }

  _meshOf(axes, count, colors) {
    const columns = axes.at(-1).size;
    const radios = Array.from({ length: count }, (_, rank) => {
      const place = coordinates(rank, axes);
      const where = axes
        .map((axis) => `${axis.name} ${at(place, axis.name) + 1} of ${axis.size}`)
        .join(", ");
      return h(
        "label",
        { class: "rank", title: where },
        h("input", {
          type: "radio",
          name: this._name,
          value: rank,
          "aria-label": `rank ${rank}: ${where}`,
          onchange: () => this._change({ rank }, "rank"),
        }),
        h("span", { "aria-hidden": "true" }, String(rank)),
      );
    });
    const mesh = h("div", { class: "mesh" }, radios);
    mesh.style.setProperty("--columns", String(columns));
    const names = axes.flatMap((axis, k) => [
      k ? " × " : "",
      h("code", { class: colors.get(axis.name) ?? "" }, axis.name),
      ` ${axis.size}`,
    ]);
    return h("fieldset", { class: "ranks" }, h("legend", {}, "rank, on the mesh ", names), mesh);
  }
}

function whyNot(joint, axes) {
  if (joint.open.length)
    return `There is no answer for ${joint.open.map((row) => row.name).join(", ")}.`;
  if (!axes.length) return "Move a slider: nothing is split yet, so one rank holds everything.";
  if (joint.verdict === "illegal")
    return joint.never || "This split is illegal, so no rank holds anything.";
  if (axes.some((axis) => !Number.isInteger(axis.size))) {
    return "The count is a symbol: give a number to see the parts drawn. The shapes on one rank are in the table above.";
  }
  const count = axes.reduce((product, axis) => product * axis.size, 1);
  return count > MAX_RANKS ? `${count} ranks are too many to draw.` : "";
}

function figure(tensor, result, parts, here, axes, colors) {
  const partial = axes.filter((_, k) => tensor.placements[k]?.startsWith("P"));
  const words = inWords(tensor, here, axes);
  const shape = tensor.local ? `(${tensor.local.join(", ")})` : "";
  return h(
    "figure",
    { class: "grid" },
    h("figcaption", {}, h("b", {}, tensor.label), " ", h("code", {}, tensor.operand.text)),
    drawing(tensor, result, parts, here, partial.length > 0, words, colors),
    h("p", { class: "holds" }, h("code", {}, shape), h("span", {}, words)),
  );
}

function drawing(tensor, result, parts, here, isPartial, words, colors) {
  const lists = (tensor.dims ?? []).map((dim) =>
    segments(dim.atoms, parts, result.solution.bindings),
  );
  const count = lists.reduce((product, list) => product * list.length, 1);
  if (count > MAX_CELLS) return h("p", { class: "note" }, `${count} pieces are too many to draw`);
  const drawn = cells(lists, SIZE.width, lists.length > 1 ? SIZE.height : 40);
  const id = freshId("hatch");
  const fills = isPartial
    ? { here: `url(#${id}-here)`, other: `url(#${id})` }
    : { here: null, other: null };
  const boxes = drawn.cells.map((cell) => {
    const isHere = Object.entries(cell.coords).every(([name, part]) => at(here, name) === part);
    const fillWith = isHere ? fills.here : fills.other;
    return svg("rect", {
      x: cell.x + 1,
      y: cell.y + 1,
      width: cell.width,
      height: cell.height,
      class: `piece ${isHere ? "here" : ""} ${cell.gap ? "gap" : ""}`,
      fill: cell.gap ? "none" : fillWith,
    });
  });
  return scroller(
    "drawing of the pieces",
    svg(
      "svg",
      {
        role: "img",
        "aria-label": words,
        class: "cells",
        width: drawn.width + 2,
        height: drawn.height + 2,
        viewBox: `0 0 ${drawn.width + 2} ${drawn.height + 2}`,
      },
      isPartial && svg("defs", {}, hatch(id, "other"), hatch(`${id}-here`, "here")),
      boxes,
    ),
  );
}

function hatch(id, kind) {
  return svg(
    "pattern",
    {
      id,
      width: 6,
      height: 6,
      patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
    },
    svg("rect", { width: 6, height: 6, class: `hatch-back ${kind}` }),
    svg("line", { x1: 1, y1: 0, x2: 1, y2: 6, class: `hatch-line ${kind}` }),
  );
}

const JOINED = {
  sum: "added up",
  max: "joined by maximum",
  min: "joined by minimum",
  prod: "multiplied",
  avg: "averaged",
};

/** What this rank holds of a tensor, an axis at a time. */
function inWords(tensor, here, axes) {
  const words = axes.map(({ name, size }, index) => {
    const placement = tensor.placements[index] ?? "R";
    const part = `part ${at(here, name) + 1} of ${size} of ${name}`;
    if (placement.startsWith("S")) {
      const blocks = /blocks=(.*)\)$/.exec(placement);
      return blocks ? `${part}, in each of ${blocks[1]} blocks` : part;
    }
    const reduction = /^P\((.*)\)$/.exec(placement);
    if (reduction)
      return `a partial value for ${name}, still to be ${JOINED[reduction[1]]} over ${size} ranks`;
    return `the same for all ${size} parts of ${name}`;
  });
  return words.join("; ");
}
