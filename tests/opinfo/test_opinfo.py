"""Law: what torch's operator database has is traced, and equal to one device where it is cut; what
has no annotation is listed with its reason.

A slice of ``python -m tests.opinfo``, which tries all of it.
"""

from __future__ import annotations

import pytest

from .__main__ import chosen, is_as_listed, lists, main, table
from .harness import Outcome, entries, try_entry
from .reasons import WITHOUT

SLICE = """
    add linalg.lu_solve linalg.cholesky_ex masked.sum masked.mean nn.functional.conv2d
    nn.functional.max_unpool2d native_layer_norm native_group_norm index_reduce.amax
    _segment_reduce.lengths stft histogram unravel_index dstack
    split_with_sizes_copy nn.functional.prelu masked_select
"""


@pytest.mark.parametrize("name", SLICE.split())
def test_an_operator_is_equal_wherever_it_is_cut(name: str) -> None:
    found = try_entry(entries()[name], samples=3)
    assert not found.wrong, found.wrong
    assert found.annotated, found


def test_what_has_no_annotation_is_an_entry_of_the_database() -> None:
    assert set(WITHOUT) <= set(entries())


@pytest.mark.parametrize("name", sorted(WITHOUT))
def test_what_is_listed_has_no_annotation(name: str) -> None:
    found = try_entry(entries()[name], samples=1)
    assert not found.annotated, found
    assert not found.wrong, found.wrong


def test_a_filter_names_entries_and_families() -> None:
    assert set(chosen(["fft.f*"], [])) >= {"fft.fft", "fft.fft2"}
    assert set(chosen(["lu"], ["linalg.factors"])) >= {"lu_solve", "lu_unpack", "linalg.lu"}


def test_what_is_wrong_or_has_no_reason_fails_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fine = Outcome("add", samples=1, traced=1, annotated=1, planned=1, cut=1, runs=2)
    assert is_as_listed([fine])
    wrong = Outcome("mul", samples=1, traced=1, annotated=1, cut=1, wrong=("1.0e+00 off",))
    bare = Outcome("sub", samples=1, traced=1, unknown=("torch.sub",))
    assert not is_as_listed([fine, wrong]) and not is_as_listed([bare])
    assert "cut and equal                         1" in table([fine, wrong])
    printed = "\n".join(lists([wrong, bare]))
    assert "1.0e+00 off" in printed and "NO REASON IS GIVEN: ('torch.sub',)" in printed
    assert main(["--name", "signbit", "--samples", "1"]) == 0
    assert "annotated                             1" in capsys.readouterr().out
