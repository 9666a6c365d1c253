"""Figures of the rewriting driver: against xDSL's and torch.fx's, with size, and with the number of rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchmarks.chains import (
    LINK,
    further_rules,
    fuse_multiply_add,
    hloom_chain,
    hloom_pairs,
    hloom_rewrite,
    replace_pair,
    torch_chain,
    torch_rewrite,
    xdsl_chain,
    xdsl_pdl_rewrite,
    xdsl_rewrite,
)
from benchmarks.clock import Job, Times, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program, training_step
from hloom.formats.hlo import parse
from hloom.passes import apply_in_place
from hloom.rewrite import RuleIndex

FURTHER = (9, 99, 999)
LINEAR = AtMost(1.3)
TWICE = AtMost(2)
LEAST_PER_SECOND = 50_000


@dataclass(frozen=True, slots=True)
class Peer:
    """Another rewriting driver: the package that it needs, how its chain is made and rewritten, and our bar."""

    name: str
    package: str
    make: Callable[[int], Any]
    run: Callable[[Any], int]
    bar: AtLeast | None = None


PEERS = (
    Peer("xDSL, declared (PDL)", "xdsl", xdsl_chain, xdsl_pdl_rewrite, AtLeast(4)),
    Peer("xDSL, written in Python", "xdsl", xdsl_chain, xdsl_rewrite),
    Peer("torch.fx", "torch", torch_chain, torch_rewrite),
)
"""Those that are installed are measured."""


def driver(plan: Plan) -> Iterator[Figure]:
    """One fusion per three ops: against the peers; in a chain 30 times as long; and among further rules, up to 999."""
    one = RuleIndex([fuse_multiply_add])
    among = [RuleIndex([*further_rules(count), fuse_multiply_add]) for count in FURTHER]
    size = plan.chain
    found = [peer for peer in PEERS if find_spec(peer.package) is not None]
    jobs = [_hloom(size, one), *(_peer(size, peer) for peer in found), *(_hloom(size, index) for index in among)]
    ours, *others = take_turns(jobs, plan.seconds, fewest=3)
    theirs, crowded = others[: len(found)], others[len(found) :]
    name = f"rewrite: one fusion per three of {size:,} ops"
    for peer, times in zip(found, theirs, strict=True):
        yield _against(name, size, ours, peer.name, times, peer.bar)
    yield Figure(
        f"{name}, a second", f"{size / ours.best:,.0f} ops", "the bar", f"{LEAST_PER_SECOND:,} ops",
        size / ours.best / LEAST_PER_SECOND, size / ours.median / LEAST_PER_SECOND, AtLeast(1), size / ours.best,
    )  # fmt: skip
    for count, times in zip(FURTHER, crowded, strict=True):
        yield Figure(
            f"{name}, with {count} further rules on the same root", milliseconds(times.best), "without them",
            milliseconds(ours.best), times.best / ours.best, times.median / ours.median, TWICE, size / times.best,
        )  # fmt: skip
    few, many = FURTHER[-2:]
    less, more = take_turns([_indexed(few), _indexed(many)], plan.seconds, fewest=3)
    yield growth("rules in a decision tree", _sized(few, "rules"), _sized(many, "rules"), less, more, TWICE)
    (pairs,) = take_turns([_pairs(size, RuleIndex([replace_pair]))], plan.seconds, fewest=3)
    yield Figure(
        f"rewrite: one pattern of two results per three of {size:,} ops, a second", f"{size / pairs.best:,.0f} ops",
        "the bar", f"{LEAST_PER_SECOND:,} ops", size / pairs.best / LEAST_PER_SECOND,
        size / pairs.median / LEAST_PER_SECOND, AtLeast(1), size / pairs.best,
    )  # fmt: skip
    less, more = take_turns([_hloom(size, one), _hloom(plan.long_chain, one)], plan.seconds, fewest=3)
    yield growth("rewrite", _sized(size), _sized(plan.long_chain), less, more, LINEAR)


def _hloom(ops: int, index: RuleIndex) -> Job:
    return Job(lambda module: _all_fused(hloom_rewrite(module, index), ops), lambda: hloom_chain(ops // LINK))


def _pairs(ops: int, index: RuleIndex) -> Job:
    return Job(lambda module: _all_fused(hloom_rewrite(module, index), ops), lambda: hloom_pairs(ops // LINK))


def _peer(size: int, peer: Peer) -> Job:
    return Job(lambda module: _all_fused(peer.run(module), size), lambda: peer.make(size // LINK))


def _all_fused(count: int, ops: int) -> None:
    if count != ops // LINK:
        raise RuntimeError(f"{count} pairs were fused, not {ops // LINK}")


def _against(name: str, size: int, ours: Times, peer: str, theirs: Times, bar: AtLeast | None) -> Figure:
    ratio, median = theirs.best / ours.best, theirs.median / ours.median
    rate = size / ours.best
    return Figure(name, milliseconds(ours.best), peer, milliseconds(theirs.best), ratio, median, bar, rate)


def _indexed(count: int) -> Job:
    return Job(RuleIndex, lambda: further_rules(count))


def _sized(count: int, what: str = "ops") -> Program:
    return Program(f"{count:,} {what}", "", count)


def attempts(plan: Plan) -> Iterator[Figure]:
    """How often `simplify` and `simplify-xla` try a rule at an instruction of a training step."""
    program = training_step(plan.small, True)
    for name in ("simplify", "simplify-xla"):
        module = parse(program.text)
        tried = sum(account.tried for account in apply_in_place(module, name).all_rules())
        share, count = tried / program.instructions, f"{program.instructions:,}"
        yield Figure(
            f"{name}: attempts, {program.name}", f"{tried:,}", "instructions", count, share, share,
            AtMost(2.5),
        )  # fmt: skip
