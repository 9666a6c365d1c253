"""The extensions that Model Explorer registers, and what they show of a file; only Model Explorer imports this."""

from __future__ import annotations

import os
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import model_explorer  # pyright: ignore[reportMissingImports]

from hloom.analysis import device
from hloom.api.load import load
from hloom.inspection.page import GraphExport, SourceLinks, export_graphs, figures, overlays
from hloom.text import HloomError, HloomWarning

explorer: Any = model_explorer
DEVICE = "HLOOM_DEVICE"
"""The environment variable that names the device whose times are shown."""
DEFAULT_DEVICE = "h100"
SUFFIXES = ["hlo", "txt", "pb", "gz", "zst"]
"""The last suffixes of the files that hloom reads."""
ADAPTER = "hloom"
OVERLAYS = {
    "flops": "FLOPs",
    "bytes": "bytes accessed",
    "seconds": "time (roofline), µs",
    "peak": "held at the peak, bytes",
    "collective_bytes": "sent by collectives, bytes",
    "element_type": "element type",
    "sharding": "sharding",
    "collective": "collective",
}
"""The providers' ids, and the overlays of `hloom.page` that they give."""

Overlays = dict[str, dict[str, Any]]


class HloAdapter(explorer.Adapter):
    """Gives the graphs of a module: the entry first, instructions grouped by scope."""

    metadata = explorer.AdapterMetadata(
        id=ADAPTER,
        name="hloom: XLA HLO",
        description="HLO text and protos, plain or packed, and the stages of XLA's dumps",
        fileExts=SUFFIXES,
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> Any:
        """The graphs of a file; raises HloomError where it does not read."""
        export, _ = _shown(model_path)
        return {"graphs": [explorer.graph_builder.Graph(**record) for record in export.graphs]}


class HloNodeData(explorer.NodeDataProvider):
    """Colours instructions by what they cost, take, hold and send, by element type and by sharding."""

    metadata = [  # noqa: RUF012 - Model Explorer reads a list, of the class
        explorer.NodeDataProviderMetadata(
            id=f"hloom_{identifier}",
            name=name,
            description=f"{name} of each instruction, by hloom",
            icon="palette",
            filter=explorer.NodeDataProviderFilter(adapterIds=[ADAPTER]),
        )
        for identifier, name in OVERLAYS.items()
    ]

    def get_config_editors(self, provider_id: str) -> Any:
        """Nothing to choose."""
        return explorer.GetConfigEditorsResult(configEditors=[])

    def run(self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any) -> Any:
        """The values of one graph's instructions, and their colours; an error where the module has none."""
        name = OVERLAYS[provider_id.removeprefix("hloom_")]
        try:
            data = _shown(model_path)[1].get(name, {}).get(graph_id)
        except HloomError as error:
            return explorer.NodeDataProviderResult(error=str(error))
        if data is None:
            return explorer.NodeDataProviderResult(error=f"{graph_id}: no instruction has '{name}'")
        build = explorer.node_data_builder
        results = {node: build.NodeDataResult(**values) for node, values in data["results"].items()}
        gradient = [build.GradientItem(**stop) for stop in data.get("gradient", ())]
        return explorer.NodeDataProviderResult(
            result=build.GraphNodeData(results=results, name=name, gradient=gradient)
        )


def _shown(path: str) -> tuple[GraphExport, Overlays]:
    """What is shown of a file as it is now."""
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError:
        changed = 0  # reading it says what is wrong
    return _read(path, changed, os.environ.get(DEVICE, DEFAULT_DEVICE))


@lru_cache(maxsize=1)
def _read(path: str, changed: int, device_name: str) -> tuple[GraphExport, Overlays]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        module = load(Path(path))
    numbers = figures(module, device(device_name))
    export = export_graphs(module, numbers, SourceLinks(module))
    return export, overlays(export, numbers.collectives)
