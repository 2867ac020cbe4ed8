"""From a function and one line of annotation to an operator."""
