"""Deduction over whole graphs: every shape of a graph as one system of equations."""
