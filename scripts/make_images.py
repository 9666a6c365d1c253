"""Make the pictures in docs/images from real output, for the README, the guides and the gallery.

    python scripts/make_images.py
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from lower_gpt2 import Config, lower
from rich.console import Console, RenderableType

import hloom
from hloom.analysis import device
from hloom.cli import inspect, plan_report
from hloom.cli.plots import memory, roofline

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
DUMP = ROOT / "docs" / "dumps" / "gpt2_step.hlo"
FONT_URL = re.compile(r",?\s*url\(\"https?:[^)]*\)\s*format\([^)]*\)")
"""Where rich's pictures would load a font from; without it they use the reader's own."""
WIDTH = 84
PLAN_WIDTH = 96
LINES = 9
TABLES = 3
GELU = """HloModule gelu

ENTRY main {
  x = f32[4,256] parameter(0)
  factor = f32[] constant(0.044715)
  factors = f32[4,256] broadcast(factor), dimensions={}
  square = f32[4,256] multiply(x, x)
  cube = f32[4,256] multiply(square, x)
  scaled = f32[4,256] multiply(cube, factors)
  inner = f32[4,256] add(x, scaled)
  ROOT bent = f32[4,256] tanh(inner)
}
"""
LAYER = """HloModule layer, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }

ENTRY main {
  x = f32[512,4096] parameter(0)
  w = f32[4096,16384] parameter(1)
  v = f32[16384,4096] parameter(2)
  h = f32[512,16384] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[512,16384] tanh(h)
  y = f32[512,4096] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dv = f32[16384,4096] dot(a, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v1 = f32[16384,4096] subtract(v, dv)
  da = f32[512,16384] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dw = f32[4096,16384] dot(x, da), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  w1 = f32[4096,16384] subtract(w, dw)
  ROOT out = (f32[4096,16384], f32[16384,4096]) tuple(w1, v1)
}
"""
"""The layer of docs/sharding.md."""


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    module = hloom.parse(lower(Config()).replace(f"{ROOT}/", ""))
    module.source_name = "gpt2.hlo"
    listed = islice(inspect.tables(hloom.inspect(module), LINES), TABLES)
    terminal_picture("hloom inspect gpt2.hlo", listed, IMAGES / "inspect.svg")
    softmax = next(node for node in module.entry.nodes if node.opcode == "exponential")
    hloom.draw(module, IMAGES / "softmax.svg", around=softmax, hops=2)
    hloom.draw(hloom.parse(GELU), IMAGES / "gelu.svg")
    step = hloom.load(DUMP)
    (IMAGES / "memory.svg").write_text(memory.svg(hloom.memory(step)))
    (IMAGES / "roofline.svg").write_text(roofline.svg(hloom.roofline(step, device("h100"))))
    planned = hloom.plan(hloom.parse(LAYER), "model=8")
    parts = plan_report.tables(planned, None, is_full=False)
    tables = [part for part in parts if not str(part).startswith("planned in")]  # another time on another machine
    terminal_picture("hloom plan layer.hlo --mesh model=8", tables, IMAGES / "plan.svg", PLAN_WIDTH)


def terminal_picture(command: str, tables: Iterable[RenderableType], path: Path, width: int = WIDTH) -> None:
    """A command and what it writes, as a terminal shows it."""
    console = Console(record=True, width=width, file=io.StringIO(), highlight=False)
    console.print(f"[dim]$ {command}[/dim]")
    for table in tables:
        console.print(table)
    path.write_text(FONT_URL.sub("", console.export_svg(title=command, unique_id="hloom")))


if __name__ == "__main__":
    main()
