"""Law: every declaration of the library tells the truth.

`verify` runs each example whole and split, forward and backward, in float64: every identifier that
is left open, cut into 2, 3 and 4 parts, and into 6 and 12 as well, so that parts of length 1 occur,
which torch broadcasts, squeezes and reads as vectors where it would not do so with the whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from dimsolve.exec.verification.verify import verify
from dimsolve.partition.rules.table import with_rules
from dimsolve.solver.operators import find, specimens
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.paths import IN_PLACE

SHOWN = [path for path in entries() if specimens(path)]
WRITING = [path for path in IN_PLACE if specimens(path)]

NO_GRADIENT = {
    "torch.floor_divide",
    "torch.geqrf",
    "torch.heaviside",
    "torch.histogram",
    "torch.igamma",
    "torch.igammac",
    "torch.linalg.ldl_factor",
    "torch.linalg.ldl_factor_ex",
    "torch.linalg.ldl_solve",
    "torch.linalg.eig",  # the gradient depends on the phase of the eigenvectors
    "torch.special.zeta",
    "torch.vander",  # torch's own backward fails on what its forward wrote in place
    "operator.floordiv",
    "operator.ifloordiv",
}
"""Functions of which torch has no gradient."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("path", SHOWN)
def test_whole_and_split_are_equal(path: str) -> None:
    operator = find(path)
    assert operator is not None
    verification = verify(with_rules(operator))
    assert verification.ok, str(verification)
    lacking = [note for note in verification.notes if "gradient" in note]
    assert not lacking or path in NO_GRADIENT or path.startswith("torch.special."), lacking


@pytest.mark.parametrize("path", WRITING)
def test_what_is_written_in_place_is_equal(path: str) -> None:
    operator = find(path)
    assert operator is not None
    verification = verify(with_rules(operator), counts=(2, 3))
    assert verification.ok, str(verification)


@pytest.mark.parametrize("path", SHOWN)
def test_what_cannot_be_split_says_why(path: str) -> None:
    """An example without any open identifier has a reason, and no other has one."""
    operator = find(path)
    assert operator is not None
    for call in specimens(path):
        declaration = operator.declare(*call.args, **call.kwargs)
        if declaration.returns == "value":
            continue
        words = declaration.annotation.replace("(", " ").replace(")", " ").replace(",", " ").split()
        names = [word for word in words if word.rstrip("+^").isidentifier() or word[0] == "*"]
        closed = bool(names) and all(word.endswith("^") for word in names)
        if not names:
            continue
        assert bool(declaration.frozen) is closed, (declaration.annotation, declaration.frozen)
