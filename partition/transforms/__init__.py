"""Transform rules of torch functions: splits that marks cannot tell, with what a rank runs instead.

    embedding       rows of the table     each rank serves the ids it holds, the results are summed
    cross_entropy   the batch             parts divide by what all ranks count together
    cross_entropy   the classes           each rank has a part of every row of logits
    batch_norm      the batch             statistics of all ranks
    var, norm       what is reduced       sums of squares of all ranks
    argmax          what is searched      the first place of all ranks
    tril            rows and columns      a diagonal that lies where the part begins

What a rule computes needs torch and is imported when it runs.
"""

from __future__ import annotations

from .table import rules_of, with_rules

__all__ = ["rules_of", "with_rules"]
