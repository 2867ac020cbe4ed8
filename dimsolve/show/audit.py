"""What `audit` answers as a picture: for which counts a plan is right, and what is to blame.

[legal]     tp = 2, 4   LlamaForCausalLM   9 rules
[illegal]   tp = 3, 8
model.layers.0.self_attn: rank 2 raised RuntimeError: ...
"""

from __future__ import annotations

from dimsolve.exec.engines.audit import VERDICT_WORDS, Audit

from .picture import Picture, badge, column, faint, paragraph, row, words
from .svg import FAINT, INK, VERDICTS


def audit_svg(audit: Audit) -> str:
    """Returns the picture as SVG text."""
    title = row(words(audit.model, bold=True), faint(f"{len(audit.plan)} rules", 11), gap=10)
    picture = column(title, *_verdicts(audit), *map(_line, str(audit).splitlines()[1:]), gap=8)
    found = ", ".join(f"{each.count} {each.verdict}" for each in audit.counts)
    return picture.card(f"{audit.model}: {found}", str(audit))


def _verdicts(audit: Audit) -> list[Picture]:
    return [
        row(badge(word, VERDICTS[word]), words(f"tp = {', '.join(map(str, counts))}"), gap=10)
        for word in VERDICT_WORDS
        if (counts := audit.having(word))
    ]


def _line(text: str) -> Picture:
    indented = text.startswith("      ") or not text.startswith("  tp")
    return paragraph(text.strip(), width=96, size=12, fill=FAINT if indented else INK)
