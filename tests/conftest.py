"""Processes that tests start find the tests too: what a test sends them is imported there by name.

The root goes to the end of the path, so that an installed dimsolve comes before the tree.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

# A timed assertion never decides a test: how long an example takes depends on the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

sys.path.append(str(Path(__file__).parent.parent))
