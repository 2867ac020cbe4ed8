"""Exact integers and polynomials over the positive integers, below all proofs and equations."""
