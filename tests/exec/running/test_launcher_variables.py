"""A launcher's variables, and an address that leads nowhere, are said in words and in time."""

from __future__ import annotations

import socket

import pytest

from dimsolve.exec.parallel.mesh import check_launcher
from dimsolve.exec.running import worker
from dimsolve.ir.errors import AnnotationError

GIVEN = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
}
NOT = "which is not a whole number from 0"


@pytest.mark.parametrize(
    "name, text, reason",
    [
        ("RANK", "zero", f"RANK is 'zero', {NOT}"),
        ("RANK", "2", "RANK is 2; it can be 0 to 1 where WORLD_SIZE is 2"),
        ("WORLD_SIZE", "0", "WORLD_SIZE is 0; it can be 1 or more"),
        ("WORLD_SIZE", "2.0", f"WORLD_SIZE is '2.0', {NOT}"),
        ("LOCAL_RANK", "-1", f"LOCAL_RANK is '-1', {NOT}"),
        ("LOCAL_WORLD_SIZE", "", f"LOCAL_WORLD_SIZE is '', {NOT}"),
        ("MASTER_PORT", "http", f"MASTER_PORT is 'http', {NOT}"),
        ("MASTER_PORT", "65536", "MASTER_PORT is 65536; it can be 1 to 65535"),
        ("MASTER_PORT", "", "RANK is '0', and MASTER_PORT is not set"),
    ],
)
def test_a_variable_that_cannot_be_is_named_with_its_value(
    name: str, text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {**GIVEN, name: text}.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(AnnotationError) as caught:
        check_launcher()
    assert str(caught.value) == (
        f"the environment variable {name} does not say where this process stands\n"
        f"  {reason}\n"
        "  hint: start the ranks with torchrun, which sets it, or unset RANK to run without one"
    )


@pytest.mark.parametrize("missing", ["WORLD_SIZE", "MASTER_ADDR"])
def test_a_variable_that_is_missing_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in GIVEN.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv(missing)
    with pytest.raises(AnnotationError, match=f"RANK is '0', and {missing} is not set"):
        check_launcher()


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def test_the_first_rank_reaches_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(_free_port()))
    assert worker.unreachable(0, 5.0) == ""


def test_an_address_that_refuses_is_given_up_after_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(_free_port()))
    assert worker.unreachable(1, 0.5) == "it refused every connection for 0.5 s"


def test_a_name_that_cannot_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "no-such-host.invalid")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert worker.unreachable(0, 20.0).startswith("no-such-host.invalid c")


def test_an_address_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, timeout: float) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", never)
    monkeypatch.setenv("MASTER_ADDR", "192.0.2.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert worker.unreachable(0, 3.0) == "192.0.2.1 did not answer within 3 s"
