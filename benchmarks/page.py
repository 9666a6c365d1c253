"""Figures of pages: how long one takes to make, how large it is, and what headless Chromium says of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program, training_step
from hloom.formats.hlo import parse
from hloom.inspection.page import page_text
from tests.inspection.page.chromium import FRAMES, Chromium, program, wait_for_graph

LIMITS = {
    "MB": (5.5, 7.0),
    "made in": (3.0, 15.0),
    "first view": (4.0, 12.0),
    "resident MB": (350.0, 900.0),
    "expand": (2.0, 5.0),
    "search": (1.0, 2.0),
    "go to a hit": (2.0, 5.0),
}
"""What the small and the large step may take: megabytes, seconds."""
LINEAR = AtMost(2)
VIEWS = 2
"""How often each page is opened, in a browser of its own."""
MISSED = 999.0
"""The ratio of what could not be measured: over its bar."""
GROUPS = ("inputs", "forward", "backward", "(no scope)")
"""The groups of a training step that are expanded, one after the other, from the first view."""
PAUSE = 1.0
"""Seconds for which the viewer may move to what it was told to go to."""
HIT = "layer_0.*dot_general"
CENTRE = (615, 544)
"""Where the viewer moves what it goes to, in a window of 1600 by 1000."""
_SPY = """
window.lastAnswer = 0;
window.Worker = class extends window.Worker {
  constructor(...all) {
    super(...all);
    this.addEventListener("message", () => { window.lastAnswer = performance.now() });
  }
};
window.settled = async start => {
  const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
  while (window.lastAnswer <= start) {
    if (performance.now() > start + 15000) return -1;
    await pause(20);
  }
  for (;;) {
    const before = window.lastAnswer;
    const drawn = await FRAMES;
    await pause(400);
    if (window.lastAnswer === before) return drawn - start;
  }
};
"""
"""Notes when the viewer's worker, which lays groups out, last answered."""


def pages(plan: Plan) -> Iterator[Figure]:
    """Seconds and bytes of both steps' pages, and the browser's seconds and memory."""
    steps = training_step(plan.small, True), training_step(plan.large, True)
    jobs = [Job(page_text, lambda text=step.text: parse(text)) for step in steps]
    less, more = take_turns(jobs, plan.seconds)
    for size, (step, times) in enumerate(zip(steps, (less, more), strict=True)):
        yield timed("page made in", step, times.best, "made in", size)
    yield growth("page", *steps, less, more, LINEAR)
    for size, step in enumerate(steps):
        text = page_text(parse(step.text))
        yield _limited("page, MB", step, f"{len(text) / 1e6:.1f}", len(text) / 1e6, "MB", size)
        path = program()
        if path is not None:
            yield from least([list(_viewed(path, step, text, size)) for _ in range(VIEWS)])


def least(views: list[list[Figure]]) -> Iterator[Figure]:
    """The least of what several views took: the rest is the machine. Of requests and errors the least ratio is most."""
    for figures in zip(*views, strict=True):
        yield min(figures, key=lambda figure: figure.ratio or 0)


def _viewed(path: str, step: Program, text: str, size: int) -> Iterator[Figure]:
    """What the browser needs for one page, by the clock; what could not be measured is over its bar."""
    with tempfile.TemporaryDirectory() as folder, Chromium(path) as browser:
        target = Path(folder) / "page.html"
        target.write_text(text)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=_SPY.replace("FRAMES", FRAMES))
        browser.open(target)
        wait_for_graph(browser, 300)
        yield timed("first view", step, browser.evaluate("performance.now()") / 1000, "first view", size)
        resident = browser.resident_megabytes()
        yield _limited("first view, resident MB", step, f"{resident:.0f}", resident, "resident MB", size)
        for group in GROUPS:
            yield timed(f"search: {group}", step, _search(browser, _pattern(group)), "search", size)
            _go_to(browser, group)
            time.sleep(PAUSE)
            clicks = (_settle(browser, lambda: browser.click(*CENTRE, count=2)) for _ in range(3))
            yield timed(f"expand: {group}", step, next(filter(None, clicks), 0), "expand", size)
        yield timed("search for a dot", step, _search(browser, HIT), "search", size)
        yield timed("go to a hit", step, _settle(browser, lambda: _go_to(browser, "dot", 0)), "go to a hit", size)
        problems = len(browser.problems()) + len(browser.requests()) - 1
        ratio = 1 / (1 + problems)
        yield Figure(f"requests and errors: {step.name}", str(problems), "limit", "0", ratio, ratio, AtLeast(1))


def _pattern(group: str) -> str:
    return "^" + group.replace("(", r"\(").replace(")", r"\)") + "$"


def _search(browser: Chromium, pattern: str) -> float:
    """Seconds from the text of a search to its results, without the 0.3 s for which the viewer waits for more of it."""
    box = "document.querySelector('input[placeholder*=Search]')"
    browser.evaluate(f"{box}.focus(), {box}.select()")
    browser.type(" ")
    browser.wait("!document.querySelector('.search-results-container')")
    browser.evaluate(f"{box}.select()")
    start = browser.evaluate("performance.now()")
    browser.type(pattern)
    browser.wait("/[0-9]+ results?/.test((document.querySelector('.search-results-container') || {}).textContent)")
    return max(browser.evaluate(FRAMES) - start - 300, 1) / 1000


def _go_to(browser: Chromium, label: str, number: int = -1) -> None:
    """Click on a result of a label, with Alt: it is moved to the middle and selected."""
    leaves = "[...document.querySelectorAll('.search-results-container *')].filter(leaf => !leaf.children.length)"
    browser.click_element(
        f"{leaves}.filter(leaf => leaf.textContent.trim() === {json.dumps(label)}).at({number})", modifiers=1
    )


def _settle(browser: Chromium, act: Callable[[], None]) -> float:
    """Seconds from an action to the last frame that follows from it; 0 where it laid out nothing anew."""
    start = browser.evaluate("performance.now()")
    act()
    return max(browser.evaluate(f"settled({start})"), 0) / 1000


def timed(subject: str, step: Program, seconds: float, limit: str, size: int) -> Figure:
    if not seconds:
        return Figure(
            f"{subject}: {step.name}", "not measured", "limit", f"{LIMITS[limit][size]:g}", MISSED, MISSED, AtMost(1)
        )
    return _limited(subject, step, milliseconds(seconds), seconds, limit, size)


def _limited(subject: str, step: Program, ours: str, value: float, limit: str, size: int) -> Figure:
    most = LIMITS[limit][size]
    return Figure(f"{subject}: {step.name}", ours, "limit", f"{most:g}", value / most, value / most, AtMost(1))
