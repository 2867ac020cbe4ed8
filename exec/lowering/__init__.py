"""From a plan to the one program that all ranks run, and its text."""
