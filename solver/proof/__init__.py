"""The prover: from a claim and facts to proved, refuted with a counterexample, or conditional.

A claim travels through these files:

    claims        ``8*s % 3 == 0`` in canonical form: a polynomial and what is asked of its sign
    facts         what is known, read once, as a cover: cells that hold every value it allows
    case_splits   goals become cells; a goal that needs a case split makes several
      cells       one cell: substitutions, bounds, and polynomials that are >= 0, 0 or not 0
      floors      floors, remainders, minima and maxima written as polynomials of parameters
      elimination equations solved         order       inequalities propagated to bounds
      emptiness   cells that no values satisfy, by linear programming
    prove         in every cell: an identity, bounds (relaxation), a divisor (divisibility,
                  congruences, valuations)? Does the opposite have only empty cells (refutation)?
    search        small values in the cells, put into the claim and the facts as written
    verdict       the answer; conditions and readable write an exact condition as people do
"""
