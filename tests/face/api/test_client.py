"""A client's results and errors are those of the functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

import dimsolve as ds
from dimsolve.api.client import Connection, error_of
from dimsolve.service.questions import CheckQuestion
from tests.face.running import Service, serving
from tests.face.service.test_usual import checks

MATMUL = "m k+, k+ n -> m n"
VIEW = "(h t) k -> h t k"
SHOWN = (
    *("verdict", "reason", "conditions", "counterexample", "inputs", "outputs", "split", "parts"),
    *("local_inputs", "local_outputs", "local_values", "arguments", "given_arguments"),
)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[ds.Client]:
    with ds.Client(service.url) as made:
        yield made


@pytest.mark.parametrize(
    "text", [MATMUL, "(h^ 3  t) k, ?, () -> h^ t 3, ?", "* a+ -> * , ()", "->"]
)
def test_annotations_are_equal_with_their_places(client: ds.Client, text: str) -> None:
    assert repr(client.parse(text)) == repr(ds.parse(text))


INFERENCES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((MATMUL,), {}),
    ((MATMUL, ["m, k", [None, 8]]), {}),
    ((VIEW, ["8*s, k"]), {"arguments": {"h": 3}, "facts": ["k % 4 == 0"]}),
    ((VIEW, ["8*s*number_of_tokens_in_all, k"]), {"arguments": {"h": 8}}),
    (("* a -> a *", ["2, s, 4"]), {}),
    (("* a -> a *", ["4"]), {}),
    (("* a, a -> a *", [None, "4"]), {}),
    (("(h t) -> h t", [(12,)]), {"facts": ["h >= 2"]}),
    (("(h t), ? -> h t, ?", ["8*s", None]), {}),
]


@pytest.mark.parametrize(("args", "options"), INFERENCES, ids=range(len(INFERENCES)))
def test_solutions_are_the_same(
    client: ds.Client, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    far, near = client.infer(*args, **options), ds.infer(*args, **options)
    assert type(far) is type(near)
    assert str(far) == str(near)
    for name in ("outputs", "bindings", "conditions", "free", "expansions", "inputs", "layout"):
        assert getattr(far, name) == getattr(near, name)
    assert far.solutions() == near.solutions()
    assert far.explain() == near.explain()


@given(checks())
@example(
    CheckQuestion(annotation="a -> a a", inputs=[["s"]], arguments={"a": 2}, split="a", parts=2)
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_legalities_and_errors_are_the_same(client: ds.Client, question: CheckQuestion) -> None:
    asked = question.model_dump()
    order = [asked.pop(name) for name in ("annotation", "inputs", "split", "parts")]
    far, near = _outcome(client.check, order, asked), _outcome(ds.check, order, asked)
    if isinstance(near, ds.DimsolveError):
        assert type(far) is type(near) and far.diagnostic == near.diagnostic
        return
    assert [getattr(far, name) for name in SHOWN] == [getattr(near, name) for name in SHOWN]
    assert far.explain() == near.explain()
    assert far.solution.explain() == near.solution.explain()


def _outcome(ask: Callable[..., Any], order: list[Any], options: dict[str, Any]) -> Any:
    try:
        return ask(*order, **options)
    except ds.DimsolveError as error:
        return error


def test_counts_and_proofs_are_equal(client: ds.Client) -> None:
    counts = ("a b -> a b", ["8*s, 6"], "a")
    assert client.legal_parts(*counts, up_to=9) == ds.legal_parts(*counts, up_to=9)
    for claim in ("n*(n + 1) % 2 == 0", "8*s % 3 == 0"):
        assert client.prove(claim, facts=["n >= 2"]) == ds.prove(claim, facts=["n >= 2"])


def test_sympy_expressions_and_tuples_are_sent_as_they_mean(client: ds.Client) -> None:
    (shape,) = ds.infer("a b -> (a b)", ["8*s, k"]).outputs
    assert client.infer("n -> n", [shape]).outputs == ((shape[0],),)
    assert client.check(MATMUL, [("m", 8), (8, "n")], (0, 1), 2).split == "k"


def test_a_plan_of_a_graph_is_the_plan(client: ds.Client) -> None:
    with ds.Graph() as graph:
        x = graph.input("x", "batch, 16", "float32")
        w = graph.input("w", "32, 16", "float32")
        graph.output(graph.call("torch.nn.functional.linear", x, w))
    far = client.plan(graph, {"tp": 2}, "tensor")
    assert far == ds.plan(graph, {"tp": 2}, "tensor")
    assert far.planned is graph
    with pytest.raises(TypeError, match="a function cannot be sent"):
        client.plan(graph, {"tp": 2}, lambda graph, resource: graph)


def test_one_client_serves_many_threads(client: ds.Client) -> None:
    def ask(number: int) -> bool:
        return client.prove(f"{number}*n % 2 == 0").verdict == "proved"

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(1, 101))) == [n % 2 == 0 for n in range(1, 101)]


def test_a_connection_that_was_closed_meanwhile_is_opened_anew(client: ds.Client) -> None:
    client.prove("n > 0")
    client._connection._open.connection.sock.shutdown(2)
    assert client.prove("n > 1").verdict == "refuted"


def test_no_service_is_an_error_of_its_own() -> None:
    with serving() as service:
        client = ds.Client(service.url, timeout=300)
        client.prove("n > 0")
        service.stop()
        with pytest.raises(ds.ServiceError) as caught:
            client.prove("n > 0")
    assert caught.value.diagnostic.code == "no-answer" and caught.value.status is None


def test_refusals_of_the_service_are_service_errors(client: ds.Client) -> None:
    with pytest.raises(ds.ServiceError) as caught:
        client.prove("n > 0" + " " * 70_000)
    assert (caught.value.status, caught.value.diagnostic.code) == (413, "too-large")
    assert isinstance(error_of(503, "no object"), ds.ServiceError)


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="is no address"):
        Connection("ftp://x", 1)


def test_what_a_function_promises_is_asked_about_like_its_own_annotation(
    client: ds.Client,
) -> None:
    shapes = ["n, 4, 9, 9", "8, 4, 3, 3"]
    told = client.annotate("torch.nn.functional.conv2d", shapes, arguments={"stride": 2})
    near = ds.infer("torch.nn.functional.conv2d", shapes, arguments={"stride": 2})
    given = [", ".join(shape) for shape in told.inputs or () if shape is not None]
    far = client.infer(told.annotation, given, arguments=told.arguments)
    assert (told.tensors, far.outputs) == (("input", "weight"), near.outputs)


def test_a_config_is_asked_about(client: ds.Client) -> None:
    config = {"model_type": "gpt2", "n_embd": 48, "n_head": 6, "n_layer": 2, "vocab_size": 96}
    found = client.model(config, {"tp": 3}, up_to=4)
    assert (found.model, found.problem) == ("GPT2LMHeadModel", None)
    assert found.axes["tp"].always == "1-2, 4"
    assert list(found.axes["tp"].uneven) == ["3"], "1024 positions"
    assert found.memory is not None and found.whole is not None
    assert found.memory.parameters < found.whole.parameters
