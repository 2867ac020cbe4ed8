"""A model as one rank runs it: its parts of the parameters, its state, its faults."""
