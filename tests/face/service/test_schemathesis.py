"""schemathesis against the running service finds nothing.

Its own run, with every check it has, as anybody would start it; `schemathesis.toml` says why 422 is
a right answer. For more examples: ``schemathesis run URL/openapi.json --max-examples 1000``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.face.running import Service

ROOT = Path(__file__).resolve().parents[3]


def test_schemathesis_finds_nothing(service: Service) -> None:
    program = Path(sys.executable).with_name("schemathesis")
    found = subprocess.run(
        [
            *(program, "--config-file", ROOT / "schemathesis.toml"),
            *("run", f"{service.url}/openapi.json", "--checks", "all", "--max-examples", "4"),
            *("--seed", "7", "--continue-on-failure", "--no-color", "--request-timeout", "600"),
        ],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "13 selected / 13 total" in found.stdout
