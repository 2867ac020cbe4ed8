"""The layout holds: what is listed stands in the tree, and an install has it under one name."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "dimsolve" / "service" / "static"
ROOMS = ("ir", "solver", "partition", "exec")
NOT_BUILT_FROM = (".git", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def directory_of(package: str) -> Path:
    """Where a package's files stand: the rooms at the top, all else below dimsolve/."""
    parts = package.split(".")
    return Path(*(parts[1:] if parts[1:2] and parts[1] in ROOMS else parts))


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, links kept, without what earlier builds and tools left in it."""
    copy = tmp_path_factory.mktemp("packaging") / "tree"
    return shutil.copytree(
        ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_BUILT_FROM)
    )


def built(tree: Path, hook: str) -> Path:
    """Builds with the backend itself (PEP 517), as pip, uv and build do."""
    out = tree.parent / hook
    out.mkdir(exist_ok=True)
    program = f"from setuptools import build_meta; print(build_meta.{hook}({str(out)!r}))"
    run = subprocess.run([sys.executable, "-c", program], cwd=tree, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return out / run.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def wheel(tree: Path) -> Path:
    return built(tree, "build_wheel")


def test_every_package_in_the_tree_is_listed_and_mapped() -> None:
    """A directory with Python files that is missing from the list is missing from every install."""
    directories = {
        file.parent.relative_to(ROOT)
        for room in ("dimsolve", *ROOMS)
        for file in (ROOT / room).rglob("*.py")
        if not (room == "dimsolve" and file.relative_to(ROOT).parts[1] in ROOMS)
    }
    assert all((ROOT / directory / "__init__.py").exists() for directory in directories)
    found = {".".join(directory.parts) for directory in directories}
    packages = {name if name.split(".")[0] == "dimsolve" else f"dimsolve.{name}" for name in found}
    setuptools = project()["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted(packages)
    assert {name: Path(path) for name, path in setuptools["package-dir"].items()} == {
        name: directory_of(name) for name in packages
    }


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_linked_relatively(room: str) -> None:
    link = ROOT / "dimsolve" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..", room)
    assert (link / "__init__.py").samefile(ROOT / room / "__init__.py")


def test_the_wheel_has_one_top_level_name_and_every_module(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dimsolve"}
    modules = {
        f"{package.replace('.', '/')}/{file.name}"
        for package in project()["tool"]["setuptools"]["packages"]
        for file in (ROOT / directory_of(package)).glob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == modules
    assert "dimsolve/py.typed" in names
    pages = {f"dimsolve/service/static/{file.name}" for file in STATIC.iterdir()}
    assert len(pages) > 10 and pages <= set(names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_source_distribution_builds_the_same_wheel(
    tree: Path, wheel: Path, tmp_path: Path
) -> None:
    archive = built(tree, "build_sdist")
    shutil.unpack_archive(archive, tmp_path)
    (source,) = tmp_path.iterdir()
    again = built(source, "build_wheel")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_an_installed_wheel_imports_alone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = "import dimsolve, dimsolve.ir.annotation; print(dimsolve.ir.annotation.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,  # with -c, the working directory comes first in sys.path
        capture_output=True,
        text=True,
    )
    assert run.stdout.strip() == str(tmp_path / "dimsolve" / "ir" / "annotation.py"), run.stderr


def test_the_contract_fails_on_an_import_against_the_direction(tree: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tree, tmp_path / "tree", symlinks=True)
    lint = [shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or "lint-imports"]
    kept = subprocess.run([*lint, "--no-cache"], cwd=copy, capture_output=True, text=True)
    assert kept.returncode == 0, kept.stdout
    with (copy / "ir" / "span.py").open("a") as file:
        file.write("\nfrom dimsolve.solver.algebra import poly\n")
    broken = subprocess.run([*lint, "--no-cache"], cwd=copy, capture_output=True, text=True)
    assert broken.returncode == 1
    assert "dimsolve.ir is not allowed to import dimsolve.solver" in broken.stdout


@pytest.mark.parametrize(
    "line",
    [
        "import ir",
        "from solver import poly",
        "from partition.check import check",
        "import exec",
        "from sympy import sympify",
        "from sympy import S",
        "from sympy import lambdify",
        "from sympy import parse_expr",
        "from sympy.parsing.sympy_parser import parse_expr",
        "from sympy import Mod",
        "from sympy import floor",
        "from sympy import simplify",
        "from sympy import solve",
    ],
)
def test_ruff_bans_it(line: str) -> None:
    """Top-level names of the rooms, text that becomes code, and SymPy's unsound helpers."""
    name = line.split()[-1]
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--select=TID251",
            "--stdin-filename=ir/new.py",
            "-",
        ],
        cwd=ROOT,
        input=f"{line}\nprint({name})\n",
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1 and "TID251" in run.stdout, run.stdout + run.stderr


def imported(*directories: str) -> set[str]:
    """The top-level names from elsewhere that the Python files below directories import."""
    names = set()
    for directory in directories:
        for file in (ROOT / directory).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.Import():
                        names |= {alias.name.split(".")[0] for alias in node.names}
                    case ast.ImportFrom(module=str(module), level=0):
                        names.add(module.split(".")[0])
    return names - sys.stdlib_module_names - {"dimsolve", "tests"}


def test_what_is_imported_is_asked_for() -> None:
    """A fresh environment has nothing else: not what happens to be installed here."""

    def declared(requirements: list[str]) -> set[str]:
        return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in requirements}

    def lowered(names: set[str]) -> set[str]:
        return {name.lower() for name in names}  # IPython is asked for as ipython

    extras = project()["project"]["optional-dependencies"]
    core = declared(project()["project"]["dependencies"]) | {"starlette"}  # it is fastapi's
    optional = {n for extra in ("models", "trainers", "notebook") for n in declared(extras[extra])}
    assert lowered(imported("dimsolve", *ROOMS)) <= core | optional
    assert optional & lowered(imported("dimsolve/cli", "dimsolve/service", *ROOMS)) == set()
    asked_for = declared(extras["test"]) | declared(extras["engines"])
    assert lowered(imported("tests")) <= core | optional | asked_for


def test_ci_calls_the_commands_of_the_readme() -> None:
    """What a new user types is what CI runs, word for word."""
    text = (ROOT / "README.md").read_text()
    commands = sorted(set(re.findall(r"^pip install .*$", text, flags=re.MULTILINE)))
    assert len(commands) == 2
    ci = (ROOT / ".ci" / "run").read_text().replace("--quiet ", "")
    for command in commands:
        for part in command.split(" && "):
            assert part in ci, part


def test_the_table_of_public_names_is_what_type_checkers_see() -> None:
    """`__all__`, the lazy table and the imports under TYPE_CHECKING say the same."""
    import dimsolve

    source = ast.parse((ROOT / "dimsolve" / "__init__.py").read_text())
    (block,) = (node for node in source.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == dimsolve._HOMES
    assert sorted(dimsolve.__all__) == sorted(seen)
    assert set(dimsolve.__all__) <= set(dir(dimsolve))
    for name in dimsolve.__all__:
        assert getattr(dimsolve, name) is not None
    with pytest.raises(AttributeError, match="module 'dimsolve' has no attribute 'plam'"):
        _ = dimsolve.plam  # type: ignore[attr-defined]


HEAVY = (
    *("torch", "sympy", "pydantic", "typer", "rich", "numpy", "fastapi", "uvicorn", "pebble"),
    *("anywidget", "ipywidgets", "IPython"),
)


@pytest.mark.parametrize(
    "program",
    [
        "import dimsolve",
        "import dimsolve as ds; ds.parse('m k+, k+ n -> m n')",
        "import dimsolve as ds; ds.prove('n*(n + 1) % 2 == 0')",
        "import dimsolve as ds; ds.infer('(h t) k -> h t k', ['8*s, k'], arguments={'h': 8})",
        "import dimsolve as ds; ds.check('m k+, k+ n -> m n', ['m, k', 'k, n'], 'k', 8)",
    ],
)
def test_nothing_heavy_is_loaded(program: str) -> None:
    """SymPy comes with the first expression that is looked at, torch with the first model."""
    report = f"{program}; import sys; print(*sorted({set(HEAVY)!r} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []
