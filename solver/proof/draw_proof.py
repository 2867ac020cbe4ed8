"""A proof as a picture: the verdict, its reason, the condition and the counterexample."""

from __future__ import annotations

from dimsolve.ir.draw_verdict import verdict_picture

from .verdict import Proof


def proof_svg(proof: Proof) -> str:
    """Returns the picture as SVG text."""
    picture = verdict_picture(proof.verdict, proof.reason, proof.conditions, proof.counterexample)
    return picture.card(f"{proof.verdict}", proof.explain())
