"""`dimsolve run`: processes, steps, and the comparison with one device."""
