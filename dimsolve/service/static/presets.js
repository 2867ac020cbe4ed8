/**
 * What nobody typed: the shapes, arguments and facts that an example filled in.
 *
 * They belong to the example's tensors. Once the annotation has other inputs they are left out, and
 * come back with the old ones; what a person has typed stays, whatever the annotation becomes.
 *
 *   presets.start(example, true)                   all of it is filled in
 *   presets.edited({ inputs: ["4, k", "k, n"] })    input 0 is the person's from now on
 *   presets.fitting(state)                          input 1 is "" unless the inputs are the old ones
 */

export class Presets {
  constructor() {
    this._filled = null;
  }

  /** A state is shown. isFilled: nobody typed it. */
  start(state, isFilled) {
    const { inputs, args, facts } = state;
    this._filled = isFilled ? { inputs: [...inputs], args, facts } : null;
    this._of = inputsOf(state.annotation);
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
  fitting(state) {
    if (!this._filled) return state;
    const isSame = inputsOf(state.annotation) === this._of;
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

/** The inputs of an annotation; a function is named. Marks change what may be split, no tensor. */
function inputsOf(annotation) {
  const [inputs] = annotation.replace(/[+^]/g, "").split(/->|→/);
  return inputs.replace(/\s+/g, " ").replace(/ ?([,()]) ?/g, "$1").trim();
}
