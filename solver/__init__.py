"""What must hold: lengths solved from equations, and claims about lengths proved.

algebra/ (exact polynomials) comes before proof/ (divisibility, order, verdicts), then shapes,
equations, unify and infer: one operator. graphs/ deduces the types of whole graphs; operators/ says
what torch's functions promise.
"""
