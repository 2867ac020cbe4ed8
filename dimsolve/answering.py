"""Answers for the widget that never hold the kernel: at once, or from a worker with a deadline.

    answering.ask("view 1", [{"verb": "parse", ...}, {"verb": "legal-parts", ...}], tell)
        tell(0, {"status": 200, "answer": {...}})     at once: it is certainly cheap
        tell(1, {"status": 200, "answer": {...}})     later, from another thread
        tell(1, {"status": 504, "problem": {...}})    or that it was given up

The kernel's main thread runs the person's cells, and neither it nor any other thread can be stopped
while big integers hold the interpreter. A process can: as in the service, what may take long is
answered by a worker process, and a deadline kills it. A new batch of the same view replaces the one
before it, whose questions are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock, Timer
from typing import Any

from dimsolve.ir.errors import DimsolveError
from dimsolve.service.answers import answer_question
from dimsolve.service.pool import too_late
from dimsolve.service.questions import read_question
from dimsolve.service.replies import Refusal, Reply, reply_of_error
from dimsolve.service.usual import MAX_BYTES, is_usual
from dimsolve.service.verbs import VERBS, Verb
from dimsolve.worker_processes import Job, Workers

Tell = Callable[[int, dict[str, Any]], None]
"""Hears an answer and the number of its question; from any thread."""
SECONDS = 10.0
"""How long all questions of a batch may take together."""
_VERBS: tuple[Verb, ...] = ("parse", "infer", "check", "legal-parts", "prove")


class Answering:
    """Answers batches of questions."""

    def __init__(self) -> None:
        self._batches: dict[str, _Batch] = {}

    def ask(self, view: str, questions: Sequence[Mapping[str, Any]], tell: Tell) -> None:
        """Answers the questions, each once, and drops what this view asked before.

        Returns at once, and what is cheap has then been told. The rest is told from other threads,
        within `SECONDS`.
        """
        if before := self._batches.pop(view, None):
            before.drop()
        later: dict[int, tuple[Verb, bytes]] = {}
        for number, question in enumerate(questions):
            asked = dict(question)
            verb = asked.pop("verb", None)
            body = json.dumps(asked).encode()
            reply = _no_such_verb() if verb not in _VERBS else _at_once(verb, body)
            if reply is None:
                later[number] = verb, body
            else:
                tell(number, told(reply))
        if later:
            self._batches[view] = _Batch(later, tell)


class _Batch:
    """Questions that workers answer, until all are told or nobody wants to know."""

    def __init__(self, asked: Mapping[int, tuple[Verb, bytes]], tell: Tell) -> None:
        self._tell = tell
        self._lock = Lock()
        self._open = set(asked)
        self._timer = Timer(SECONDS, self._give_up)
        self._timer.daemon = True
        self._jobs: dict[int, Job] = {
            number: _workers.submit(verb, body, SECONDS, partial(self._settle, number))
            for number, (verb, body) in asked.items()
        }
        self._timer.start()

    def drop(self) -> None:
        """Tells no more, and stops the workers that are at it."""
        with self._lock:
            self._open.clear()
        self._timer.cancel()
        for job in reversed(list(self._jobs.values())):  # those that wait first
            job.drop()

    def _give_up(self) -> None:
        for number in list(self._jobs):
            self._settle(number, reply_of_error(too_late(SECONDS)))
        self.drop()

    def _settle(self, number: int, reply: Reply) -> None:
        with self._lock:
            if number not in self._open:
                return
            self._open.discard(number)
            if not self._open:
                self._timer.cancel()
        self._tell(number, told(reply))


def told(reply: Reply) -> dict[str, Any]:
    """Returns a reply as ``/v1/batch`` has it.

    >>> told(Reply(200, b'{"verdict": "proved"}'))
    {'status': 200, 'answer': {'verdict': 'proved'}}
    """
    kind = "answer" if reply.status == 200 else "problem"
    return {"status": reply.status, kind: json.loads(reply.body)}


def _at_once(verb: Verb, body: bytes) -> Reply | None:
    """The reply to a question that is certainly cheap, or cannot be read."""
    if len(body) > MAX_BYTES:
        return None
    try:
        question = read_question(VERBS[verb].question, body)
        return answer_question(question) if is_usual(question) else None
    except (Refusal, DimsolveError) as error:
        return reply_of_error(error)


def _no_such_verb() -> Reply:
    title = "there is no such verb"
    return reply_of_error(Refusal(404, "no-such-verb", title, f"there are {_VERBS}"))


_workers = Workers()
