"""Whatever answers, or does not, the client raises its own errors, and says what is wrong."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

import dimsolve as ds
from dimsolve.api.client import _seconds
from tests.face.running import Service

OK = b"HTTP/1.1 200 OK\r\n"
BUSY = b"HTTP/1.1 503 X\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n"
YES = b'{"verdict": "yes", "reason": "", "conditions": [], "counterexample": null}'
FOREIGN = (
    "the answer has another form\n"
    "  this is no dimsolve service of this version\n"
    "  hint: compare the versions here and there: pip show dimsolve"
)


@contextmanager
def answering(head: bytes, body: bytes, *, silent: bool = False) -> Iterator[str]:
    """A server that gives every question this answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            kept = []
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.recv(65536)
                kept.append(connection)
                if silent:
                    continue
                size = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head + size.encode() + body)
                connection.close()

        Thread(target=run, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


ASKED: list[Callable[[ds.Client], Any]] = [
    lambda client: client.prove("n == n"),
    lambda client: client.parse("a -> a"),
    lambda client: client.infer("a -> a", ["n"]),
    lambda client: client.check("a -> a", ["n"], "a", 2),
    lambda client: client.legal_parts("a -> a", ["n"], "a"),
    lambda client: client.plan("llama:tiny", {"tp": 2}),
    lambda client: client.operators(),
]


@pytest.mark.parametrize("ask", ASKED, ids=range(len(ASKED)))
@pytest.mark.parametrize("body", [b"{}", b"[1]", b"7", b"null", b'"x"', YES])
def test_an_answer_of_another_form_is_no_answer(
    ask: Callable[[ds.Client], Any], body: bytes
) -> None:
    with answering(OK, body) as url, pytest.raises(ds.ServiceError) as caught:
        ask(ds.Client(url, timeout=300))
    assert str(caught.value) == FOREIGN


@pytest.mark.parametrize(
    "body", [b"[]", b"7", b'{"spans": 7}', b'{"spans": [["a", 1]]}', b'{"error": {}}']
)
def test_a_problem_of_another_form_is_a_service_error(body: bytes) -> None:
    with answering(b"HTTP/1.1 500 X\r\n", body) as url, pytest.raises(ds.ServiceError) as caught:
        ds.Client(url, timeout=300).prove("n == n")
    assert caught.value.status == 500


def test_a_date_is_a_time_to_ask_again() -> None:
    with answering(BUSY, b"{}") as url, pytest.raises(ds.ServiceError) as caught:
        ds.Client(url, timeout=300).prove("n == n")
    assert caught.value.status == 503
    assert (_seconds("3"), _seconds(None), _seconds("soon")) == (3.0, 0.0, 0.0)
    assert _seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert _seconds("Wed, 21 Oct 2195 07:28:00 GMT") > 1e9


def test_a_slow_service_is_said_to_be_slow() -> None:
    with answering(OK, b"", silent=True) as url, pytest.raises(ds.ServiceError) as caught:
        ds.Client(url, timeout=0.3).prove("n == n")
    assert str(caught.value) == (
        "the service does not answer in time\n"
        f"  {url.removeprefix('http://')} is slower than timeout=0.3 s\n"
        "  hint: give Client a longer timeout, or ask about a smaller part of it"
    )


@pytest.mark.parametrize(
    "url", [None, 8000, "", "ftp://x", "http://", "http://localhost:99999", "http://[::1"]
)
def test_what_is_no_address_is_refused_at_once(url: Any) -> None:
    with pytest.raises(ValueError) as caught:
        ds.Client(url)
    assert str(caught.value) == f"{url!r} is no address such as http://localhost:8000"


@pytest.mark.parametrize("timeout", [None, 0, -1, True, "3", float("nan")])
def test_what_is_no_time_is_refused_at_once(timeout: Any) -> None:
    with pytest.raises(ValueError) as caught:
        ds.Client("http://localhost:8000", timeout=timeout)
    expected = f"timeout is {timeout!r}; it has to be a positive number of seconds"
    assert str(caught.value) == expected


def test_an_argument_that_cannot_be_sent_is_refused(service: Service) -> None:
    class Odd:
        pass

    with ds.Client(service.url) as client, pytest.raises(ds.ServiceError) as caught:
        client.infer("a -> a b", ["4"], arguments={"b": Odd()})
    assert str(caught.value) == (
        "an argument cannot be sent\n"
        "  argument b is a Odd; what is sent is a number, a text or a length\n"
        "  hint: leave b out, or ask here: dimsolve.infer(...)"
    )


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("check", (1, 2, 3, 4), {}),
    ("check", ("a -> a", 2, "a", 4), {}),
    ("infer", ("a -> a", "n"), {}),
    ("infer", (None,), {}),
    ("infer", ("a -> a",), {"facts": {"a": 1}}),
    ("infer", ("a -> a",), {"facts": [3]}),
    ("infer", ("a -> a",), {"arguments": 3}),
    ("prove", ("n > 0",), {"facts": 3}),
]


@pytest.mark.parametrize(("verb", "args", "options"), WRONG, ids=range(len(WRONG)))
def test_wrong_types_have_the_error_of_the_function(
    service: Service, verb: str, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    outcomes = []
    with ds.Client(service.url) as client:
        for asked in (client, ds):
            with pytest.raises(ds.DimsolveError) as caught:
                getattr(asked, verb)(*args, **options)
            outcomes.append(str(caught.value))
    assert outcomes[0] == outcomes[1]


def test_splits_to_explore_are_a_mapping() -> None:
    with pytest.raises(ds.AnnotationError) as caught:
        ds.explore("a -> a", split=5)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "split is not a mapping of identifiers to parts\n"
        "  split is 5, an int\n"
        '  hint: give parts by identifier, such as {"h": 8}'
    )
