"""Laws of the library: what models call is in it, every path names a torch callable, and looking up
costs no torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from dimsolve.exec.calls import Arguments, function_of, invoke, resolve
from dimsolve.ir.errors import DimsolveError, ShapeError
from dimsolve.solver.graphs.names import path_of
from dimsolve.solver.operators import (
    canonical,
    catalogue,
    examples,
    find,
    names,
    specimens,
    summary,
)
from dimsolve.solver.operators.catalogue import entries
from dimsolve.solver.operators.paths import ALIASES, FAMILIES, IN_PLACE
from tests.oracles.stand_ins import StandIn, declare

DATA = Path(__file__).parents[2] / "data" / "model_operators.json"
SPOKEN = json.loads(DATA.read_text())["names"]


@pytest.mark.parametrize("name", SPOKEN)
def test_what_models_call_is_found(name: str) -> None:
    kind, _, path = name.partition(":")
    found = find(path if kind == "function" else f"torch.Tensor.{path}")
    assert found is not None, name


def test_there_are_500_torch_callables_and_each_is_shown() -> None:
    shown = {path for path in entries() if path.startswith("torch.") and specimens(path)}
    assert len(shown) >= 500
    assert len(names()) >= 1000


@pytest.mark.parametrize("path", sorted({*ALIASES, *IN_PLACE}))
def test_every_other_spelling_means_an_entry(path: str) -> None:
    assert canonical(path) in entries()


@pytest.mark.parametrize("path", names())
def test_every_path_can_be_imported_and_runs_its_examples(path: str) -> None:
    if path.startswith(("torch.ops.", "torch.fft.hfft2")):
        return
    operator = find(path)
    assert operator is not None and operator.path == path and callable(resolve(path))
    function = function_of(operator)
    for args, kwargs in examples(path):
        invoke(function, Arguments(args, kwargs), operator.parameters)


def test_find_gives_none_for_what_it_does_not_know() -> None:
    assert find("torch.no_such_function") is None
    assert find("package.function") is None
    assert examples("package.function") == [] and summary("package.function") is None


@pytest.mark.parametrize(
    "spelling, path",
    [
        ("torch._C._nn.linear", "torch.nn.functional.linear"),
        ("_operator.add", "operator.add"),
        ("torch.Tensor.__getitem__", "operator.getitem"),
        ("torch._C.TensorBase.cos", "torch.cos"),
        ("torch.functional.einsum", "torch.einsum"),
        ("torch._C._linalg.linalg_inv", "torch.linalg.inv"),
        (
            "torch._ops.transformers.grouped_mm_fallback",
            "torch.ops.transformers.grouped_mm_fallback",
        ),
    ],
)
def test_builtins_are_known_where_they_are_kept(spelling: str, path: str) -> None:
    assert canonical(spelling) == path


def test_a_method_in_place_writes_to_its_first_input() -> None:
    operator = find("torch.Tensor.add_")
    assert operator is not None and operator.mutates == (0,) and operator.name == "add"
    declaration = declare("torch.Tensor.add_", StandIn(4, 6), StandIn(6))
    assert declaration.annotation == "a b, b -> a b" and declaration.mutates == (0,)
    assert declaration.dtypes == ("float32",)


def test_a_call_with_a_tensor_that_its_annotation_leaves_out_stays_whole() -> None:
    declaration = declare("torch.linalg.vector_norm", StandIn(4, 6), StandIn(4))
    assert declaration.annotation == "?, ? -> ?"
    assert declaration.frozen == (
        "argument 1 of torch.linalg.vector_norm is a tensor, which is not known of"
    )
    assert declare("torch.Tensor.to", StandIn(4, 6), StandIn(4)).annotation == "* -> *"


def test_a_result_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        declare("torch.Tensor.add_", StandIn(1, 6), StandIn(4, 6))
    assert (
        str(caught.value)
        == """the result does not fit the tensor it is written to
  (1, 6) and (4, 6): the first would have to be broadcast"""
    )
    with pytest.raises(ShapeError) as caught:
        declare("torch.Tensor.mul_", StandIn(4, dtype="int64"), 2.5)
    assert (
        str(caught.value)
        == """the result does not fit the tensor it is written to
  it is float32, and the tensor is int64"""
    )


def test_names_of_numpy_stand_for_those_of_torch() -> None:
    x = StandIn(4, 6)
    assert declare("torch.sum", x, axis=1, keepdims=True).annotation == "a b+ -> a 1"
    assert declare("torch.Tensor.mean", x, axis=-1).annotation == "a b+ -> a"


def test_a_form_of_call_that_is_not_known_is_replicated_with_the_reason() -> None:
    declaration = declare("torch.cat", [StandIn(4)], out=StandIn(4))
    assert declaration.annotation == "?, ? -> ?"
    assert declaration.frozen == (
        "torch.cat is not known with these arguments: "
        "cat() got an unexpected keyword argument 'out'"
    )


def test_a_summary_tells_annotations_and_reasons() -> None:
    found = summary("torch.nn.functional.linear")
    assert found is not None
    assert found.annotations[:2] == ("* k+, n k+, n -> * n", "* k+, n k+ -> * n")
    reason = summary("torch.eye")
    assert reason is not None
    assert reason.note == "every element depends on where it stands in the whole"


def test_declaring_imports_no_torch() -> None:
    """All families, all examples, laid on stand-ins."""
    script = (
        "import sys\n"
        "from dimsolve.solver.operators import names, summary\n"
        "count = sum(summary(name) is not None for name in names())\n"
        "assert count >= 1000, count\n"
        "assert 'torch' not in sys.modules and 'sympy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def family_of(path: str) -> str:
    """The module that declares a callable."""
    (family,) = (name for name, paths in FAMILIES.items() if path in paths)
    return f"dimsolve.solver.operators.{family}"


def test_importing_the_library_imports_no_family() -> None:
    script = (
        "import sys, dimsolve.solver.operators\n"
        f"assert {family_of('torch.matmul')!r} not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_looking_up_imports_one_family() -> None:
    script = (
        "import sys\n"
        "from dimsolve.solver.operators import canonical, find, names\n"
        "assert find('torch.Tensor.matmul') is not None and canonical('torch._C._nn.gelu')\n"
        "assert len(names()) >= 1000\n"
        "home = 'dimsolve.solver.operators.'\n"
        "assert home + 'linalg.products' in sys.modules\n"
        "assert home + 'elementwise.activation' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_table_of_families_is_that_of_their_entries() -> None:
    for family, paths in FAMILIES.items():
        declared = import_module(f"dimsolve.solver.operators.{family}").ENTRIES
        assert sorted(item.path for item in declared) == sorted(paths), family
    every = [path for paths in FAMILIES.values() for path in paths]
    assert len(every) == len(set(every))
    modules = Path(catalogue.__file__).parent.glob("*/*.py")
    stems = {f"{p.parent.name}.{p.stem}" for p in modules if "\nENTRIES" in p.read_text()}
    assert set(FAMILIES) == stems


@pytest.mark.parametrize("path", names())
def test_the_function_itself_is_known_as_its_path_is(path: str) -> None:
    """What torch has under several names says one of them, or where it is really kept."""
    if path == "torch.ops.transformers.grouped_mm_fallback":
        return  # another package makes it
    assert canonical(path_of(resolve(path))) == canonical(path)


def test_examples_have_the_same_values_each_time_and_tensors_of_their_own() -> None:
    (first, _), (second, _) = examples("torch.add")[0], examples("torch.add")[0]
    assert first[0] is not second[0] and bool((first[0] == second[0]).all())
    assert first[0].requires_grad
    assert not examples("torch.Tensor.add_")[0][0][0].requires_grad


@pytest.mark.parametrize("path", names())
def test_errors_are_designed(path: str) -> None:
    """Arguments that make no sense give a declaration of '?', or an error of dimsolve's own."""
    operator = find(path)
    assert operator is not None
    for args in ((), (StandIn(2, 3),), (StandIn(2, 3), StandIn(5)), (3,), (StandIn(), 1, "x")):
        try:
            operator.declare(*args)
        except DimsolveError as error:
            assert error.diagnostic.reason


@pytest.mark.parametrize("path", names())
def test_every_example_is_understood(path: str) -> None:
    operator = find(path)
    assert operator is not None
    for call in specimens(path):
        declaration = operator.declare(*call.args, **call.kwargs)
        assert declaration.returns == "value" or "?" not in declaration.annotation, declaration
