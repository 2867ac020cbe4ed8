"""The small language in which the families declare what torch functions promise."""
