"""Element-wise functions, activations, conversions, and Python's own operators."""
