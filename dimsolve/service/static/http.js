/**
 * Questions over HTTP: many in one request, and what the service refuses in words.
 *
 *   ask([{ verb: "parse", annotation: "m k -> k" }])   [{ status: 200, answer: {...} }]
 */

const TRIES = 3;
const MAX_WAIT_SECONDS = 5;

/** A request that got no answers. `problem` has a title, a detail and a hint. */
export class Refused extends Error {
  constructor(problem, status = 0) {
    super(problem.title);
    this.problem = problem;
    this.status = status;
    /** Whether to ask again by itself: there is no service, or one that is not ready. */
    this.isAway = [0, 502, 503].includes(status);
  }
}

/** Returns the answer to one question that takes long; Refused, with the problem, where there is none. */
export async function askOne(base, verb, question, signal) {
  const response = await posted(`${base}v1/${verb}`, JSON.stringify(question), signal);
  const data = await dataOf(response);
  if (!response.ok) throw new Refused(inWords(response.status, data), response.status);
  return data;
}

/** Returns the `ask` of a service at this address, such as "". waiting: told when it is busy. */
export function overHttp(base, waiting = () => {}) {
  return async (questions, signal) => {
    const body = JSON.stringify({ questions });
    for (let tried = 1; ; tried += 1) {
      const response = await posted(`${base}v1/batch`, body, signal);
      if (response.ok) return (await dataOf(response)).answers;
      const seconds = Number(response.headers.get("Retry-After") ?? 0);
      const isBusy = response.status === 503 && seconds > 0 && tried < TRIES;
      if (!isBusy)
        throw new Refused(inWords(response.status, await dataOf(response)), response.status);
      waiting("the service is busy; asking again");
      await pause(Math.min(seconds, MAX_WAIT_SECONDS) * 1000, signal);
    }
  };
}

async function posted(address, body, signal) {
  const headers = { "Content-Type": "application/json" };
  try {
    return await fetch(address, { method: "POST", headers, body, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused({
      title: "the service does not answer",
      detail: navigator.onLine ? "it may have stopped" : "this computer is offline",
      hint: "what you wrote is kept, also in the address of this page",
    });
  }
}

async function dataOf(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const detail = "its answer is no JSON; is it dimsolve that serves here?";
    throw new Refused({ title: `the service answered ${response.status}`, detail, hint: "" });
  }
}

const HINTS = {
  413: "shorten the annotation, the shapes or the facts",
  503: "ask again in a moment",
  504: "give numbers for some of the symbols, or fewer facts",
};

function inWords(status, problem) {
  return {
    title: problem?.title ?? `the service answered ${status}`,
    detail: problem?.detail ?? "",
    hint: problem?.hint || HINTS[status] || "",
  };
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("another question came", "AbortError"));
    });
  });
}
