"""A solution in LaTeX, word for word, and as a picture; SymPy's floors typeset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dimsolve as ds
from dimsolve.ir.expression import Expression
from dimsolve.ir.read_expression import read_dimension, read_relation
from dimsolve.show.tex import expression_tex, relation_tex, text_tex
from tests.oracles.pictures import read_picture, texts
from tests.oracles.strategies import expression_trees

VIEW = "(h t) k -> h t k"


def test_the_steps_and_the_outputs_are_an_array() -> None:
    assert ds.infer(VIEW, ["8*s, k"], arguments={"h": 8})._repr_latex_() == (
        r"$\displaystyle \begin{array}{rcll} "
        r"{\color{#0f74e0}{h}} & = & 8 & \quad \text{argument h} \\ "
        r"{\color{#d2450c}{t}} & = & s & \quad {\color{#0f74e0}{h}} \, {\color{#d2450c}{t}} = 8 s"
        r"\text{ (input 0, dim 0) and }{\color{#0f74e0}{h}} = 8\text{ (argument h)} \\ "
        r"{\color{#168749}{k}} & = & k & \quad \text{input 0, dim 1} \\ "
        r"\text{output 0} & & \left(8,\ s,\ k\right) & "
        r"\end{array}$"
    )


def test_a_condition_and_what_is_open_are_said() -> None:
    latex = ds.infer(VIEW, ["8*s, k"], arguments={"h": 3})._repr_latex_()
    assert r"\text{if} & & s \bmod 3 = 0 &" in latex
    assert r"\left\lfloor \frac{8 s}{3} \right\rfloor" in latex
    latex = ds.infer("(h t) -> h t", ["12"])._repr_latex_()
    assert r"\text{free} & & {\color{#0f74e0}{h}},\ {\color{#d2450c}{t}} &" in latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("8*s", "8 s"),
        ("2*3*s", r"2 \cdot 3 s"),
        ("(a + b)*c", r"\left(a + b\right) \, c"),
        ("a - (b - c)", r"a - \left(b - c\right)"),
        ("a//b//2", r"\left\lfloor \frac{\left\lfloor \frac{a}{b} \right\rfloor}{2} \right\rfloor"),
        ("(a % 4)*b", r"\left(a \bmod 4\right) \, b"),
        ("(a*b) % (c + 1)", r"a \, b \bmod \left(c + 1\right)"),
        ("-(a + 1)", r"-\left(a + 1\right)"),
        ("(a + 1)**2", r"\left(a + 1\right)^{2}"),
        ("ceildiv(a, 8)", r"\left\lceil \frac{a}{8} \right\rceil"),
        ("min(a, b, 3)", r"\min\left(a, b, 3\right)"),
        ("batch_size*d12", r"\mathrm{batch\_size} \, d_{12}"),
    ],
)
def test_a_length_in_latex(text: str, latex: str) -> None:
    assert expression_tex(read_dimension(text)) == latex


@pytest.mark.parametrize(
    ("text", "sign"), [("==", "="), ("!=", r"\neq"), ("<=", r"\leq"), (">", r"\gt"), ("<", r"\lt")]
)
def test_a_relation_in_latex(text: str, sign: str) -> None:
    assert relation_tex(read_relation(f"a {text} b")) == f"a {sign} b"


@given(expression_trees())
def test_every_length_has_balanced_latex(tree: Expression) -> None:
    latex = expression_tex(tree)
    assert latex.count("{") == latex.count("}")
    assert latex.count(r"\left") == latex.count(r"\right")


@given(st.text())
def test_words_in_latex_hold_no_command_and_no_markup(text: str) -> None:
    latex = text_tex(text)
    inside = "".join(part.partition("}")[0] for part in latex.split(r"\text{")[1:])
    assert not set(inside) & set("_%#&$^~<>{}`\\")
    assert "<" not in latex and ">" not in latex and "$" not in latex.replace(r"\$", "")


@pytest.mark.parametrize("arguments", [{"h": 8}, {"h": 3}, {}])
def test_the_picture_says_what_explain_says(arguments: dict[str, int]) -> None:
    solution = ds.infer(VIEW, ["8*s, k"], arguments=arguments)
    shown = " ".join(texts(read_picture(solution._repr_svg_())))
    for step in solution.trace():
        assert step.conclusion in shown
        assert step.reason.split()[0] in shown
    assert all(condition in shown for condition in solution.conditions)


def test_floors_are_typeset_in_sympy() -> None:
    from sympy import latex

    (length,) = ds.infer("(h t) -> t", ["7*s + 1"], arguments={"h": 3}).outputs[0]
    assert latex(length**2) == (r"\left(\left\lfloor \frac{7 s + 1}{3} \right\rfloor\right)^{2}")


def test_rooms_do_not_load_sympy_to_draw() -> None:
    import subprocess
    import sys

    code = (
        "import sys, dimsolve as ds; ds.check('m k+, k+ n -> m n', ['m, k', 'k, n'], 'k', 8)"
        "._repr_svg_(); ds.infer('a -> a', ['8*s'])._repr_latex_(); print('sympy' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
