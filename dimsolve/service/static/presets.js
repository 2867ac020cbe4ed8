/**
 * What nobody typed: the shapes, arguments and facts that an example filled in.
 *
 * They belong to the example's tensors. Once the annotation has other inputs they are left out, and
 * come back with the old ones; what a person has typed stays, whatever the annotation becomes.
 *
 *   presets.start(example, true)                   all of it is filled in
 *   presets.edited({ inputs: ["4, k", "k, n"] })    input 0 is the person's from now on
 *   presets.fitting(state, parsed)                  input 1 is "" unless the inputs are the old ones
 */

export class Presets {
  constructor() {
    this._filled = null;
  }

  /** A state is shown. isFilled: nobody typed it. */
  start(state, isFilled) {
    const { inputs, args, facts } = state;
    this._filled = isFilled ? { inputs: [...inputs], args, facts } : null;
    this._of = null;
  }

  /** Something was typed: its fields are no longer filled in. state: as it was before. */
  edited(patch, state) {
    if (!this._filled) return;
    for (const name of ["args", "facts"]) if (name in patch) this._filled[name] = null;
    patch.inputs?.forEach((text, index) => {
      if (text !== (state.inputs[index] ?? "")) this._filled.inputs[index] = null;
    });
  }

  /** Returns the state whose filled fields fit the annotation: the same one if they do. */
  fitting(state, parsed) {
    if (!this._filled) return state;
    const tensors = parsed.inputs.map((operand) => unmarked(operand.text)).join(",");
    this._of ??= tensors;
    const isSame = tensors === this._of;
    const fit = (filled, now) => {
      if (filled === null || filled === undefined) return now;
      return isSame ? filled : "";
    };
    const count = Math.max(state.inputs.length, this._filled.inputs.length);
    const now = Array.from({ length: count }, (_, index) => state.inputs[index] ?? "");
    const inputs = now.map((text, index) => fit(this._filled.inputs[index], text));
    const args = fit(this._filled.args, state.args);
    const facts = fit(this._filled.facts, state.facts);
    const isFit =
      args === state.args && facts === state.facts && inputs.every((text, k) => text === now[k]);
    return isFit ? state : { ...state, inputs, args, facts };
  }
}

/** Marks change what may be split, not the tensor. */
function unmarked(text) {
  return text.replace(/[+^]/g, "").replace(/\s+/g, " ").trim();
}
