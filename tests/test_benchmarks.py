"""The benchmarks run and say what they should, on programs too small to time."""

import gc
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("jaxlib")

from benchmarks import page, peers
from benchmarks.clock import Job, Times, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth, times_as_fast, times_the_time
from benchmarks.first import DUMPS
from benchmarks.minimize import FAULTS as PLANTED
from benchmarks.programs import Plan, Program, all_different, all_equal, repeated, training_step
from benchmarks.ranks import spearman
from benchmarks.sections import SECTIONS
from benchmarks.table import to_json, to_table
from hloom.formats.hlo import parse
from hloom.ir import equal
from scripts.lower_gpt2 import Config

TINY = Config(layers=1, width=8, heads=2, vocabulary=16, sequence=4, batch=2)
LARGER = Config(layers=2, width=8, heads=2, vocabulary=16, sequence=4, batch=2)
PLAN = Plan(small=TINY, large=LARGER, copies=3, rows=20, seconds=0, chain=30, long_chain=90, layers=(1, 2))

NEEDS = {"xdsl": ["xdsl"], "mlir": ["xdsl"]}

FAST, SLOW = Times(1.0, 2.0), Times(2.0, 6.0)
PROGRAM = Program("p", "", 100)


MINUTES = {"bubble", "caps", "fit", "ranks"}
"""Sections that take minutes whatever the plan."""


def perceptron(layers: int) -> Program:
    """Products of a batch with one matrix, and the hyperbolic tangent of each."""
    product = "dot(x{0}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
    rows = [
        f"  d{n} = f32[64,8] {product.format(n)}\n  x{n + 1} = f32[64,8] tanh(d{n})\n" for n in range(layers)
    ]
    body = f"  x0 = f32[64,8] parameter(0)\n  w = f32[8,8] parameter(1)\n{''.join(rows)}"
    text = f"HloModule p\nENTRY e {{\n{body}  ROOT r = f32[64,8] negate(x{layers})\n}}\n"
    return Program(f"{layers} layers", text, 2 * layers + 3)


SMALLER: dict[str, dict[str, object]] = {
    "autodiff": {"CORPUS_NAMES": ("elementwise.hyperbolic", "linalg.solve")},
    "clusters": {"PROGRAM_NAMES": ("adam", "heat_equation"), "SHORT": 200, "LONG": 400},
    "diff": {"MOST_PAIRS": 1},
    "first": {"DUMPS": DUMPS[:1], "SAMPLES": 1, "compiled_programs": lambda _: ()},
    "functions": {
        "ROUNDS": 1000, "GRADIENT_ROUNDS": 100, "STATEMENTS": (2, 4), "DEPTHS": (2, 4), "CALLS_OF_ONE": (3, 6),
        "CALLS": 2, "FRESH": 1,
    },
    "kernels": {"LAYERS": 1, "MORE_LAYERS": 2, "LENGTH": 64, "WIDTH": 4, "HEADS": 1, "SAMPLES": 1},
    "minimize": {"FAULTS": PLANTED[3:4]},  # of a pass: XLA takes no part in it
    "oom": {"training_step": lambda config, _: perceptron(config.layers)},  # all is tried on each
    "page": {"program": lambda: None},  # no browser: tests/page drives one
    "pipeline": {"CHAINS": 3},
    "planning": {"FEWEST": 1},
    "prune": {"WIDTH": 64},
    "remat": {"SHARE": 1.0},
    "saturation": {"PROGRAM_NAMES": ("adam", "power_iteration"), "REWRITE_NAMES": ("transpose twice", "ewadd comm")},
    "startup": {"FEWEST": 1},
    "timeline": {"STATES": (10, 20), "FEWEST": 1},
}  # fmt: skip
"""What a section measures where a plan does not say it."""


@pytest.mark.parametrize("section", [name for name in SECTIONS if name not in MINUTES])
def test_every_section_gives_figures(section: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("benchmarks.clock.FEWEST", 1)
    monkeypatch.setattr("benchmarks.analysis.FEWEST", 1)
    monkeypatch.setattr(gc, "unfreeze", lambda: None)  # what the test session froze stays frozen
    for name, value in SMALLER.get(section, {}).items():
        monkeypatch.setattr(f"benchmarks.{section}.{name}", value)
    for peer in NEEDS.get(section, ()):
        pytest.importorskip(peer)
    figures = list(SECTIONS[section](PLAN))
    assert figures
    assert all(figure.ratio is not None and figure.ratio > 0 for figure in figures)


def test_jobs_take_turns_backwards_every_other_round():
    order: list[str] = []
    take_turns([Job(lambda _: order.append("a")), Job(lambda _: order.append("b"))], seconds=0, fewest=3)
    assert "".join(order) == "abbaab"


def test_a_job_gets_a_fresh_argument_each_time():
    made: Iterator[int] = iter(range(100))
    seen: list[int] = []
    take_turns([Job(seen.append, lambda: next(made))], seconds=0, fewest=3)
    assert seen == [0, 1, 2]


def test_times_as_fast_is_higher_when_we_are_faster():
    figure = times_as_fast("read", PROGRAM, FAST, "XLA", SLOW, AtLeast(2))
    assert (figure.ratio, figure.median_ratio, figure.passes) == (2.0, 3.0, True)
    assert figure.instructions_per_second == 100


def test_times_the_time_is_lower_when_we_are_faster():
    figure = times_the_time("print", PROGRAM, SLOW, "XLA", FAST, AtMost(1.5))
    assert (figure.ratio, figure.passes) == (2.0, False)


def test_growth_is_one_when_linear():
    figure = growth("read", PROGRAM, Program("q", "", 200), FAST, SLOW, AtMost(1.3))
    assert (figure.ratio, figure.median_ratio) == (1.0, 1.5)


def test_ranks_are_correlated():
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(1 - 6 * 2 / (4 * 15))


@pytest.mark.long
@pytest.mark.parametrize("section", sorted(MINUTES))
def test_sections_of_minutes_give_figures(section: str):
    assert all(figure.ratio is not None for figure in SECTIONS[section](PLAN))


def test_what_a_page_takes_is_the_least_of_its_views_and_what_is_missing_fails():
    bar = AtMost(1)
    views = [
        [Figure("first view", f"{r} s", "limit", "1", r, r, bar), Figure("errors", "0", "limit", "0", e, e, AtLeast(1))]
        for r, e in ((1.2, 1.0), (0.9, 0.5))
    ]
    first, errors = page.least(views)
    assert first.ours == "0.9 s" and first.passes and errors.passes is False
    missing = page.timed("expand: inputs", PROGRAM, 0.0, "expand", 1)
    assert missing.ours == "not measured" and missing.passes is False
    assert page.timed("expand: inputs", PROGRAM, 4.0, "expand", 1).passes


def test_without_a_bar_there_is_no_verdict():
    assert Figure("x", "1", "p", "2", 0.5).passes is None


def test_repeated_copies_keep_their_own_computations():
    once = training_step(TINY, False)
    often = repeated(once, 3)
    assert often.instructions == 3 * once.instructions
    module = parse(often.text)
    last = [graph for graph in module.graphs if graph.name.endswith(".copy2")]
    assert len(module.graphs) == 3 * len(last)
    assert all(called in last for graph in last for node in graph.nodes for called in node.called_graphs)
    assert equal(module.entry, parse(once.text).entry)


@pytest.mark.parametrize("program", [all_equal(20), all_different(20)], ids=["all_equal", "all_different"])
def test_made_texts_are_programs_that_xla_reads_too(program: Program):
    (graph,) = peers.xla_parse(program.text).computations()
    assert len(graph.instructions()) == program.instructions


def test_the_table_and_the_json_have_a_row_for_each_figure():
    figures = [Figure("x", "1 ms", "XLA", "2 ms", 2.0, 2.1, AtLeast(1), 10.0), Figure("y", "1 B", "limit", "2 B")]
    assert to_table(figures).row_count == 2
    rows = json.loads(to_json(figures))["figures"]
    assert [row["subject"] for row in rows] == ["x", "y"]
    assert [row["passes"] for row in rows] == [True, None]
