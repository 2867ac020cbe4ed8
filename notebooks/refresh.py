"""Runs the notebooks and writes them back with their outputs, and with nothing that changes by
itself: no times, no machine, no widget state.

    python notebooks/refresh.py                 all of them
    python notebooks/refresh.py 03*.ipynb       these
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
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
            cell.outputs = _joined(
                output
                for output in cell.outputs
                if WIDGET not in output.get("data", {}) and not _is_progress(output)
            )
    return notebook


def _is_progress(output: Any) -> bool:
    """Whether it is a line that was written anew again and again: how long something took."""
    return output.get("name") == "stderr" and "\r" in output.text


def _joined(outputs: Iterable[Any]) -> list[Any]:
    """The outputs; what was printed is one output, however it was cut on its way."""
    joined: list[Any] = []
    for output in outputs:
        output.pop("transient", None)
        last = joined[-1] if joined else {}
        if output.output_type == "stream" and output.name == last.get("name"):
            last.text += output.text
        else:
            joined.append(output)
    return joined


def main(names: list[str]) -> None:
    """Runs the notebooks of these names, or all."""
    import nbformat

    for path in sorted(HERE / name for name in names) or sorted(HERE.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
