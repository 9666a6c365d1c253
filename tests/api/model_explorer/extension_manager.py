"""Run in a child process: what Model Explorer's own ExtensionManager makes of a file, as JSON.

    python extension_manager.py FILE EXTENSION_ID COMMAND [GRAPH_ID]

Model Explorer's package imports its server, which needs flask and others; where they are not installed, its files are
imported without the package's own `__init__.py`, which only collects names.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types

NAMES = {
    "adapter": ("Adapter", "AdapterMetadata"),
    "node_data_provider": (
        "GetConfigEditorsResult",
        "NodeDataProvider",
        "NodeDataProviderFilter",
        "NodeDataProviderMetadata",
        "NodeDataProviderResult",
    ),
}


def import_without_server() -> None:
    specification = importlib.util.find_spec("model_explorer")
    assert specification is not None and specification.submodule_search_locations
    package = types.ModuleType("model_explorer")
    package.__path__ = list(specification.submodule_search_locations)
    sys.modules["model_explorer"] = package
    sys.modules.setdefault("dacite", types.ModuleType("dacite")).__dict__.setdefault("from_dict", None)
    for module, names in NAMES.items():
        imported = importlib.import_module(f"model_explorer.{module}")
        for name in names:
            setattr(package, name, getattr(imported, name))
    for module in ("graph_builder", "node_data_builder"):
        setattr(package, module, importlib.import_module(f"model_explorer.{module}"))


def main(path: str, extension: str, command: str, *graph: str) -> None:
    try:
        importlib.import_module("model_explorer")
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "model_explorer"]:
            del sys.modules[name]
        import_without_server()
    manager = importlib.import_module("model_explorer.extension_manager").ExtensionManager(["hloom.api.model_explorer"])
    manager.load_extensions()
    asked = {"extensionId": extension, "cmdId": command, "modelPath": path, "settings": {}, "configValues": {}}
    try:
        answer = manager.run_cmd(asked | {"graphId": graph[0] if graph else "", "deleteAfterConversion": False})
    except Exception as error:
        answer = {"raised": f"{type(error).__name__}: {error}"}
    metadata = [known for known in manager.get_extensions_metadata() if known["id"].startswith("hloom")]
    sys.stdout.write("\n" + json.dumps({"metadata": metadata, "answer": answer}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
