"""dimsolve."""
