"""Reductions, norms, order statistics, sorting and searching."""
