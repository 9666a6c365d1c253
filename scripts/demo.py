"""The main job, shown on a program of a real size: read, inspect, draw, print, run and rewrite a GPT-2 training step.

    python scripts/demo.py

JAX lowers the step at that moment; nothing is stored beforehand. What is made goes under out/.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TypeVar

from lower_gpt2 import Config, lower
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

import hloom
from hloom.cli.inspect import tables
from hloom.runtime import run_text
from hloom.text import byte_text

OUT = Path(__file__).resolve().parent.parent / "out"
LARGE = Config()
SMALL = Config(layers=2, width=64, heads=4, vocabulary=512, sequence=64, batch=2)
TABLES = 3
"""How many of `hloom inspect`'s tables are shown: the head, the counts and the calls."""
PASSES = ("simplify", "cse", "outline")
TOLERANCE = 1e-4
"""The passes round no more than XLA does itself when it fuses otherwise."""
LINES = 12
"""How many lines each of them has at most."""

console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
Result = TypeVar("Result")


def main() -> int:
    OUT.mkdir(exist_ok=True)
    module, source = read_large()
    inspect(module)
    draw(module)
    print_back(module, source)
    rewrite_large(module)
    agrees = run_small() and rewrite_small()
    console.print(Rule())
    console.print(f"everything made is in {OUT}")
    return 0 if agrees else 1


def read_large() -> tuple[hloom.Module, str]:
    """Lower GPT-2 small's training step with JAX and read it."""
    title(f"1. Lower GPT-2 ({LARGE.layers} layers, width {LARGE.width}) with JAX, and read its HLO")
    source, lowering = timed(lambda: lower(LARGE))
    path = OUT / "gpt2.hlo"
    path.write_text(source)
    module, reading = timed(lambda: hloom.load(path))
    said("JAX lowers forward, backward and Adam", f"{len(source) / 1e6:.2f} MB of text", lowering)
    said("hloom.load", f"{module.node_count:,} instructions, {len(module.graphs):,} computations", reading)
    return module, source


def inspect(module: hloom.Module) -> None:
    """What `hloom inspect` shows."""
    title("2. What is in it: hloom inspect out/gpt2.hlo")
    module_summary, seconds = timed(lambda: hloom.inspect(module))
    for part in islice(tables(module_summary, LINES), TABLES):
        console.print(part)
    said("hloom.inspect", "these tables and more, as data", seconds)


def draw(module: hloom.Module) -> None:
    """One attention's softmax, as a picture and as graphs for other programs."""
    node = next(node for node in module.entry.nodes if node.opcode == "exponential")
    title(f"3. Draw what is near {node.name} ({node.metadata.op_name if node.metadata else ''})")
    for suffix in (".svg", ".png", ".dot", ".json", ".graphml"):
        path, seconds = timed(lambda s=suffix: hloom.draw(module, OUT / f"softmax{s}", around=node, hops=2))
        said(f"out/{path.name}", byte_text(path.stat().st_size), seconds)


def print_back(module: hloom.Module, source: str) -> None:
    """Printed and read again, the module is the same."""
    title("4. Print it back")
    for form in ("hlo", "short"):
        text, seconds = timed(lambda f=form: hloom.print(module, f))
        said(f'hloom.print(module, "{form}")', f"{len(text) / 1e6:.2f} MB (JAX wrote {len(source) / 1e6:.2f})", seconds)
    again = hloom.parse(hloom.print(module))
    same, seconds = timed(lambda: hloom.equal(module, again))
    said("hloom.equal(module, again)", verdict(same, "the same module", "not the same module"), seconds)


def rewrite_large(module: hloom.Module) -> None:
    """What the standard passes make of it, one after the other."""
    title("5. Rewrite it: hloom opt out/gpt2.hlo -p simplify,cse,outline")
    count = module.node_count
    for name in PASSES:
        (module, report), seconds = timed(lambda pass_name=name, given=module: hloom.opt(given, pass_name))
        what = f"{report.matched:,} rewrites, " if report.matched else ""
        said(f'hloom.opt(module, "{name}")', f"{what}{count:,} -> {module.node_count:,} instructions", seconds)
        count = module.node_count
    hloom.save(module, OUT / "gpt2-rewritten.hlo")


def rewrite_small() -> bool:
    """A small step before and after the passes, through XLA on the same inputs."""
    title("7. Run the rewritten step through XLA against the first")
    module = hloom.load(OUT / "gpt2-small.hlo")
    rewritten, _ = hloom.opt(module, PASSES)
    before = hloom.run(module, seed=1)
    after = hloom.run(rewritten, before.inputs)
    differences = hloom.compare(before.outputs, after.outputs, rtol=TOLERANCE, atol=TOLERANCE)
    shown = verdict(not differences, f"equal within {TOLERANCE:g}", f"{len(differences)} differ")
    console.print(f"  {len(before.outputs)} outputs: {shown}")
    return not differences


def run_small() -> bool:
    """A small step through XLA twice: JAX's own text, and what hloom made of it. The outputs must be the same bits."""
    title(f"6. Run it through XLA: {SMALL.layers} layers, width {SMALL.width}, JAX's text against hloom's")
    source = lower(SMALL)
    module = hloom.parse(source)
    hloom.save(module, OUT / "gpt2-small.hlo")
    original, first = timed(lambda: run_text(source))
    reprinted, second = timed(lambda: hloom.run(module, original.inputs))
    said("JAX's text", f"ran in {original.seconds * 1000:.1f} ms", first)
    said("hloom's text", f"ran in {reprinted.seconds * 1000:.1f} ms", second)
    differences = hloom.compare(original.outputs, reprinted.outputs, rtol=0, atol=0)
    agrees = not differences
    count = sum(array.size for array in original.outputs)
    said(
        f"{len(original.outputs)} outputs, {count:,} numbers",
        verdict(agrees, "identical, bit for bit", f"{len(differences)} differ"),
    )
    return agrees


def title(text: str) -> None:
    console.print()
    console.print(Rule(Text(text, style="bold"), align="left"))


def said(what: str, result: str | Text, seconds: float | None = None) -> None:
    """One line: what was done, what came of it, how long it took."""
    table = Table.grid(padding=(0, 2))
    for width in (42, 44, 10):
        table.add_column(width=width)
    table.add_row(Text(f"  {what}"), result, "" if seconds is None else f"{seconds * 1000:,.0f} ms")
    console.print(table)


def verdict(is_good: bool, good: str, bad: str) -> Text:
    return Text(good, style="green") if is_good else Text(bad, style="red")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
