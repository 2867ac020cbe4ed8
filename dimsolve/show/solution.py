r"""Proofs and solutions as pictures.

Every picture of an answer begins with the verdict, its reason, conditions and counterexample.

[conditional]  k is a multiple of 8 only if k % 8 == 0; at k = 1 it is 1
exactly where   k % 8 == 0
fails at        k = 1

A solution, as a picture or as LaTeX, says what was concluded, and from what.

    infer("(h t) k -> h t k", ["8*s, k"], arguments={"h": 8})

    h = 8      argument h
    t = s      h t = 8 s (input 0, dim 0) and h = 8 (argument h)
    k = k      input 0, dim 1
    output 0   (8, s, k)

Where mathematics is typeset the LaTeX is shown, anywhere else the picture. A coloured name is an
identifier of the annotation, any other is a symbol of the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dimsolve.ir.errors import DimsolveError
from dimsolve.ir.expression import values_text
from dimsolve.ir.read_expression import read_dimension, read_relation
from dimsolve.solver.algebra.poly import Dim
from dimsolve.solver.equations import Step
from dimsolve.solver.proof.verdict import Proof
from dimsolve.solver.solution import Solution

from .annotation import annotation_picture, colours_of
from .picture import (
    Picture,
    badge,
    begun,
    chip,
    clipped,
    column,
    faint,
    flow,
    paragraph,
    row,
    table,
    words,
)
from .svg import FAINT, INK, MIDTONES, VERDICTS, hues
from .tex import expression_tex, name_tex, relation_tex, text_tex

_WIDTH = 92


def verdict_picture(
    verdict: str,
    reason: str,
    conditions: Sequence[str] = (),
    counterexample: Mapping[str, int] | None = None,
) -> Picture:
    """Returns the head of an answer. ``conditions`` of what is unknown are what is left to show."""
    colour = VERDICTS[verdict]
    head = row(badge(verdict, colour), paragraph(reason, width=_WIDTH), gap=10, middle=False)
    title = "left to show" if verdict == "unknown" else "exactly where"
    lines = []
    if conditions:
        chips = [chip(clipped(text, _WIDTH), colour, size=12) for text in conditions]
        lines.append([faint(title), flow(chips, width=640)])
    if counterexample:
        point = values_text(counterexample)
        lines.append([faint("fails at"), paragraph(point, width=_WIDTH)])
    return column(head, table(lines), gap=8)


_EQUATION = re.compile(r"([\w*]+) = ((?:[^()=]|\([^()=]*\))+?)(?= \(\w)")
"""``h*t = 8*s`` in a reason: what stands before the brackets that say where it is from."""
_MOST_STEPS = 60


def solution_tex(solution: Solution) -> str:
    """Returns the steps, the outputs and what is left open, as LaTeX."""
    colours = hues(_names(solution), MIDTONES)
    rows = [_step_tex(step, colours) for step in _steps(solution)]
    rows += [
        rf"\text{{output {n}}} & & {_shape_tex(dims)} &"
        for n, dims in enumerate(solution.output_dims)
    ]
    rows += [rf"\text{{needs}} & & {_relation_tex(text)} &" for text in _unsaid(solution)]
    if solution.free:
        names = r",\ ".join(name_tex(name, colours) for name in solution.free)
        rows.append(rf"\text{{free}} & & {names} &")
    body = r" \\ ".join(rows)
    return rf"$\displaystyle \begin{{array}}{{rcll}} {body} \end{{array}}$"


def solution_svg(solution: Solution) -> str:
    """Returns the same as a picture, as SVG text."""
    colours = hues(_names(solution))
    needs = [chip(text, VERDICTS["conditional"], size=12) for text in solution.conditions]
    picture = column(
        annotation_picture(solution.annotation),
        table(_step_row(step, colours) for step in _steps(solution)),
        table(_result_rows(solution)),
        row(faint("needs"), flow(needs)) if needs else Picture(0, 0),
        gap=12,
    )
    return picture.card(f"the shapes of {solution.text}", solution.explain())


def _names(solution: Solution) -> list[str]:
    """The annotation's identifiers, and the names of what ``*`` stands for."""
    return [*colours_of(solution.annotation), *solution.layout.star]


def _steps(solution: Solution) -> Sequence[Step]:
    return solution.trace()[:_MOST_STEPS]


def _unsaid(solution: Solution) -> list[str]:
    """The conditions that no step has named."""
    said = {step.conclusion.removeprefix("if ") for step in _steps(solution)}
    return [text for text in solution.conditions if text not in said]


def _step_tex(step: Step, colours: Mapping[str, str]) -> str:
    left, equals, right = step.conclusion.partition(" = ")
    if step.conclusion.startswith("if "):
        conclusion = rf"\text{{if}} & & {_relation_tex(step.conclusion.removeprefix('if '))}"
    elif equals:
        conclusion = f"{_dim_tex(left, colours)} & = & {_dim_tex(right)}"
    else:
        conclusion = f"& & {text_tex(step.conclusion)}"
    return rf"{conclusion} & \quad {_reason_tex(step.reason, colours)}"


def _reason_tex(reason: str, colours: Mapping[str, str]) -> str:
    """``h*t = 8*s (input 0, dim 0) and h = 8 (argument h)``, the equations as mathematics."""
    parts = []
    end = 0
    for said in _EQUATION.finditer(reason):
        parts.append(text_tex(reason[end : said.start()]))
        parts.append(f"{_dim_tex(said[1], colours)} = {_dim_tex(said[2])}")
        end = said.end()
    return "".join([*parts, text_tex(reason[end:])])


def _dim_tex(text: str, colours: Mapping[str, str] | None = None) -> str:
    try:
        return expression_tex(read_dimension(text), colours)
    except DimsolveError:  # words, or a text past the limits of the reader
        return text_tex(text)


def _relation_tex(text: str) -> str:
    try:
        return relation_tex(read_relation(text))
    except DimsolveError:
        return text_tex(text)


def _shape_tex(dims: Sequence[Dim] | None) -> str:
    if dims is None:
        return r"\text{?}"
    inner = r",\ ".join(_dim_tex(str(dim)) for dim in dims)
    return rf"\left({inner}\right)"


def _step_row(step: Step, colours: Mapping[str, str]) -> Sequence[Picture]:
    left, equals, right = step.conclusion.partition(" = ")
    names = left.split("*") if equals else []
    colour = colours.get(left, INK) if len(names) == 1 else INK
    conclusion = (
        row(words(left, fill=colour, bold=True), words(f"= {begun(right, 60)}"), gap=8)
        if equals
        else words(begun(step.conclusion, 60), fill=VERDICTS["conditional"])
    )
    return conclusion, paragraph(step.reason, width=80, size=12, fill=FAINT)


def _result_rows(solution: Solution) -> Iterator[Sequence[Picture]]:
    for number, dims in enumerate(solution.output_dims):
        text = "?" if dims is None else f"({', '.join(map(str, dims))})"
        yield faint(f"output {number}"), paragraph(text, width=90)
    for star, names in solution.expansions.items():
        yield faint(star), words(f"stands for {' '.join(names)}", size=12)
    if solution.free:
        yield faint("free"), paragraph(", ".join(solution.free), width=90)


def proof_svg(proof: Proof) -> str:
    """Returns the picture as SVG text."""
    picture = verdict_picture(proof.verdict, proof.reason, proof.conditions, proof.counterexample)
    return picture.card(f"{proof.verdict}", proof.explain())
