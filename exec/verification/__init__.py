"""Checks promises by running: a call whole against the same call split."""
