"""Runs the notebooks and writes them back with their outputs, and with nothing that changes by
itself: no times, no machine, no widget state.

    python notebooks/refresh.py                 all of them
    python notebooks/refresh.py 03*.ipynb       these
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WIDGET = "application/vnd.jupyter.widget-view+json"
SECONDS = 120


def executed(path: Path) -> Any:
    """Returns the notebook as it is after it was run from the beginning, cleaned."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": HERE}}
    )
    return cleaned(client.execute())


def cleaned(notebook: Any) -> Any:
    """Returns the notebook without what another run would change."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [
                output for output in cell.outputs if WIDGET not in output.get("data", {})
            ]
            for output in cell.outputs:
                output.pop("transient", None)
    return notebook


def main(names: list[str]) -> None:
    """Runs the notebooks of these names, or all."""
    import nbformat

    for path in sorted(HERE / name for name in names) or sorted(HERE.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
