"""Law: imports have no circle, of any length; those for types and inside functions count too."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_module_imports_itself_by_any_way() -> None:
    graph = grimp.build_graph("dimsolve", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 100
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None
