/** What a visitor may click on: each shows one thing that the annotations can say. */

import { EMPTY } from "./state.js";

const example = (name, shows, state) => ({ name, shows, state: { ...EMPTY, ...state } });

/** Says whether all that would be typed is as an example has it. */
export function isExample({ annotation, inputs, args, facts }) {
  const typed = JSON.stringify([annotation, inputs, args, facts]);
  return EXAMPLES.some(
    ({ state }) =>
      JSON.stringify([state.annotation, state.inputs, state.args, state.facts]) === typed,
  );
}

export const EXAMPLES = [
  example("matmul", "a contracted dimension: partial sums, under a condition", {
    annotation: "m k+, k+ n -> m n",
    inputs: ["m, k", "k, n"],
    splits: { k: "8" },
  }),
  example("hidden reshape", "8*s is h times t: the length of t is solved for", {
    annotation: "(h t) k -> h t k",
    inputs: ["8*s, k"],
    args: "h=8",
    splits: { h: "4", t: "2" },
  }),
  example("attention", "heads and batch on a mesh of two axes", {
    annotation: "b h s^ e^, b h t^ e^, b h t^ e^ -> b h s^ e^",
    inputs: ["batch, 32, seq, 128", "batch, 32, past + seq, 128", "batch, 32, past + seq, 128"],
    facts: "batch % 4 == 0",
    splits: { b: "2", h: "8" },
  }),
  example("fused QKV", "a weight of three blocks, of each every rank has a part", {
    annotation: "n k+, (q h e) k+ -> n (q h e)",
    inputs: ["tokens, 4096", "3*heads*128, 4096"],
    args: "q=3, e=128",
    facts: "heads % 8 == 0",
    splits: { h: "4" },
  }),
  example("layer norm", "any number of leading dimensions; the normalised one stays whole", {
    annotation: "* d^, d^, d^ -> * d^",
    inputs: ["batch, seq, 4096", "4096", "4096"],
    splits: { a: "2" },
  }),
  example("convolution", "one of torch's functions, with its arguments: a stride of 2", {
    annotation: "torch.nn.functional.conv2d",
    inputs: ["batch, 64, 56, 56", "128, 64, 3, 3", "128"],
    args: "stride=2, padding=1",
    splits: { a: "2", b: "4" },
  }),
  example("linear with bias", "the bias is a summand where the sum is split", {
    annotation: "* k+, n k+, n -> * n",
    inputs: ["batch, seq, 4096", "1024, 4096", "1024"],
    summands: [2],
    splits: { k: "4" },
  }),
];
