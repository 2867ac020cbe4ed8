"""What a service has answered draws itself as what was answered here."""

from __future__ import annotations

import pytest

import dimsolve as ds
from tests.face.running import Service

MATMUL = "m k+, k+ n -> m n"
VIEW = "(h t) k -> h t k"


@pytest.mark.parametrize("arguments", [{"h": 8}, {"h": 3}, {}])
def test_solutions_from_afar_look_the_same(service: Service, arguments: dict[str, int]) -> None:
    with ds.Client(service.url) as client:
        far = client.infer(VIEW, ["8*s, k"], arguments=arguments)
    near = ds.infer(VIEW, ["8*s, k"], arguments=arguments)
    assert far._repr_svg_() == near._repr_svg_()
    assert far._repr_latex_() == near._repr_latex_()


def test_answers_from_afar_look_the_same(service: Service) -> None:
    question = (MATMUL, ["m, k", "k, n"], "k", 8)
    with ds.Client(service.url) as client:
        pairs = [
            (client.parse(MATMUL), ds.parse(MATMUL)),
            (client.check(*question), ds.check(*question)),
            (client.prove("8*s % 3 == 0"), ds.prove("8*s % 3 == 0")),
            (
                client.legal_parts("a -> a", ["8*s"], "a", up_to=9),
                ds.legal_parts("a -> a", ["8*s"], "a", up_to=9),
            ),
        ]
    for far, near in pairs:
        assert far._repr_svg_() == near._repr_svg_()
