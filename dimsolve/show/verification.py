"""What `verify` answers as a picture: does it hold, for which splits, and what is to blame.

[holds]   ops.matmul_custom
m, k, n   split into 2, 3, 4   equal to the whole
"""

from __future__ import annotations

from dimsolve.exec.verification.verification import Verification

from .picture import Picture, badge, clipped, column, faint, paragraph, row, table, words
from .svg import FAINT, INK, VERDICTS


def verification_svg(verification: Verification) -> str:
    """Returns the picture as SVG text."""
    verdict = "holds" if verification.ok else "does not hold"
    title = row(
        badge(verdict, VERDICTS[verdict]),
        words(clipped(verification.target, 80), bold=True),
        gap=10,
    )
    picture = column(
        title,
        table([words(name, bold=True), *_said(text)] for name, text in _lines(verification)),
        *(paragraph(note, width=92, size=12, fill=FAINT) for note in verification.notes),
        *(_blame(str(culprit)) for culprit in verification.culprits),
        _apart(verification),
        gap=10,
    )
    return picture.card(f"{verification.target} {verdict}", str(verification))


def _lines(verification: Verification) -> list[tuple[str, str]]:
    lines = [
        (name, f"split into {', '.join(map(str, counts))}: equal to the whole")
        for name, counts in verification.splits.items()
    ]
    return lines + [(name, f"not split: {why}") for name, why in verification.frozen.items()]


def _said(text: str) -> list[Picture]:
    return [paragraph(text, width=80, size=12, fill=INK)]


def _blame(text: str) -> Picture:
    lines = [
        paragraph(line, width=92, size=12, fill=VERDICTS["does not hold"])
        for line in text.splitlines()
    ]
    return column(*lines, gap=2)


def _apart(verification: Verification) -> Picture:
    if not verification.splits:
        return Picture(0, 0)
    apart = ", ".join(f"{kind} {far:.1e}" for kind, far in verification.differences.items())
    return faint(f"largest relative difference: {apart}", 11)
