"""Functions that make, reshape, join, move, index or scatter elements."""
