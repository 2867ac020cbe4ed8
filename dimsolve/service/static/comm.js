/**
 * Questions over the widget's comm to the kernel, and what to say when no kernel answers.
 *
 *   page    { view: "v1", id: 7, questions: [{ verb: "parse", ... }] }
 *   kernel  { view: "v1", id: 7, heard: true }
 *   kernel  { view: "v1", id: 7, number: 0, answer: { status: 200, answer: {...} } }
 *
 * The kernel hears between two cells. A widget may be shown twice: each view has its own questions.
 */

const HEARD_MS = 3000;
const SILENT_MS = 15000;

/** A question that no kernel took. `problem` has a title, a detail and a hint. */
export class NoKernel extends Error {
  constructor(detail) {
    super(detail);
    this.isAway = true;
    this.problem = {
      title: "the kernel does not answer",
      detail,
      hint: "if the kernel was restarted, run this cell again",
    };
  }
}

/** Returns the `ask` of a widget's model. back: told when a kernel that was silent speaks again. */
export function overComm(model, back) {
  const view = `v${Math.random().toString(36).slice(2)}`;
  const waiting = new Map();
  let last = 0;
  model.on("msg:custom", (message) => {
    if (message.view !== view) return;
    const asked = waiting.get(message.id);
    if (asked) asked.hear(message);
    else if (message.id === last) back();
  });
  const silence = () => {
    for (const asked of [...waiting.values()]) asked.fail(new NoKernel("it is gone"));
  };
  model.on("comm:close", silence);
  return (questions, signal, each = () => {}) =>
    new Promise((resolve, reject) => {
      const id = (last += 1);
      const asked = new Asked(questions.length, each, () => waiting.delete(id), resolve, reject);
      waiting.set(id, asked);
      signal?.addEventListener("abort", () =>
        asked.fail(new DOMException("another question came", "AbortError")),
      );
      try {
        model.send({ view, id, questions });
      } catch {
        asked.fail(new NoKernel("it is gone"));
      }
    });
}

/** Questions on their way: every message from the kernel is a sign of life. */
class Asked {
  constructor(count, each, done, resolve, reject) {
    Object.assign(this, { each, done, resolve, reject });
    this.answers = Array.from({ length: count }, () => null);
    this.open = count;
    this.listen(HEARD_MS, "it runs a cell, or it has stopped");
  }

  listen(milliseconds, silent) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fail(new NoKernel(silent)), milliseconds);
  }

  hear({ number, answer }) {
    this.listen(SILENT_MS, "it has stopped");
    if (number === undefined || this.answers[number]) return;
    this.answers[number] = answer;
    this.open -= 1;
    this.each(number, answer);
    if (this.open > 0) return;
    this.end();
    this.resolve(this.answers);
  }

  fail(error) {
    this.end();
    this.reject(error);
  }

  end() {
    clearTimeout(this.timer);
    this.done();
  }
}
