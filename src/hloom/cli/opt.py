"""`hloom opt`: passes and rules over a module, with a report of each.

What only some options need (tables, dialects, the runtime) is imported where they are given: imports take most of the
time of a short run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hloom.cli.completion import complete_passes
from hloom.cli.exit_status import NO
from hloom.cli.input import progress
from hloom.cli.languages import Language, check_name, read_any, write_any
from hloom.cli.options import (
    ModuleSource,
    count_option,
    json_option,
    load_option,
    number_option,
    optional_file_argument,
    output_option,
    seed_option,
    target_option,
)
from hloom.cli.output import check_folder, write_note, write_record
from hloom.cli.pass_pipeline import named_passes, pipeline_reader
from hloom.cli.steps import replay_until, step_lines, steps_of
from hloom.ir import Module, verify
from hloom.passes import Pass, Watch, apply_in_place, load_further_passes, sequence
from hloom.rewrite import Report, Rule, Step, timed_rules
from hloom.text import Bytes, HloomError, Record

if TYPE_CHECKING:
    from hloom.cli.equivalence import EquivalenceResult
    from hloom.cli.misses import Misses
    from hloom.cli.target import ForTarget


@dataclass(frozen=True, slots=True)
class CompiledSide(Record):
    """The module before or after the passes: what the target's compiler makes of it, and its peak by hloom's model."""

    made: ForTarget
    model_peak: Bytes
    json_keys = "**made model_peak"


@dataclass(frozen=True, slots=True)
class OptRecord(Record):
    """What passes did to a module; the text is left out if -o has it, or if the result is wrong."""

    module: str
    report: Report
    steps: Sequence[Step]
    misses: Sequence[Misses]
    verify: EquivalenceResult | None
    compilers: Mapping[str, CompiledSide]
    text: str | None
    json_keys = "module report.changed steps report misses? verify? compilers? text?"


@dataclass(frozen=True, slots=True)
class PassList(Record):
    """The passes that `hloom opt -p` takes, with their options."""

    passes: tuple[Pass, ...]


@dataclass(frozen=True, slots=True)
class ListedRule(Record):
    """A rule of some passes: the opcodes it begins at, its statement, and where it is written."""

    rule: str
    family: str
    roots: Collection[str]
    benefit: float
    statement: str
    because: str | None
    origin: str | None


@dataclass(frozen=True, slots=True)
class RuleList(Record):
    """The rules of some passes, in the order in which they are tried."""

    rules: tuple[ListedRule, ...]


@click.command("opt")
@optional_file_argument
@click.option(
    "-p",
    "--passes",
    metavar="PASSES",
    multiple=True,
    shell_complete=complete_passes,
    help="Passes to run: names (see --list), .json rule files and fixpoint(...), separated by commas.",
)
@load_option()
@click.option("--list", "list_passes", is_flag=True, help="List the passes and exit.")
@click.option(
    "--list-rules", metavar="PASSES", shell_complete=complete_passes, help="List the rules of these passes and exit."
)
@click.option(
    "--verify",
    "is_verified",
    is_flag=True,
    help="Run the module before and after on XLA; exit with 1 if outputs differ.",
)
@target_option(
    "Compile the module before and after the passes with the compiler of this target (v5e:4x4, h100x8, cpu; see "
    "`hloom compile`), and show how its figures change."
)
@click.option("--verify-each", is_flag=True, help="Verify the module's structure and types after each pass.")
@seed_option("Seed for the inputs of --verify and for passes that need one.  [default: 0]")
@number_option("--rtol", min=0, metavar="R", help="Relative tolerance for --verify (default: by element type).")
@click.option(
    "--report", "is_reported", is_flag=True, help="Report what each pass and rule did, and why rules were rejected."
)
@click.option("--steps", "list_steps", is_flag=True, help="List every rewrite with its step number.")
@count_option("--until", least=0, help="Write the module as it was after step N of --steps.")
@click.option(
    "--trace-misses",
    metavar="NODE",
    multiple=True,
    help="For each rule, explain why it did not fire at this instruction.",
)
@click.option("--print-after-all", is_flag=True, help="Print a diff after each pass.")
@click.option("--print-changed", is_flag=True, help="Print a diff after each pass that changed something.")
@json_option('Write {"module": NAME, "text": TEXT, "report": ...}, without the text if -o is given.')
@output_option("Write the module to file OUT, atomically.")
def command(
    source: ModuleSource | None,
    passes: tuple[str, ...],
    load: tuple[Path, ...],
    list_passes: bool,
    list_rules: str | None,
    is_verified: bool,
    target: str | None,
    verify_each: bool,
    seed: int | None,
    rtol: float | None,
    is_reported: bool,
    list_steps: bool,
    until: int | None,
    trace_misses: tuple[str, ...],
    print_after_all: bool,
    print_changed: bool,
    json_output: bool,
    output: Path | None,
) -> None:
    """Rewrite a module with passes and write the result.

    PASSES is a comma-separated list of pass names (see --list), rule files (my_rules.json) and fixpoint(a,b), which
    repeats a and b until neither changes anything. --load executes a Python file and makes its rules and passes
    available by name; nothing in a module or a rule file is ever executed. MLIR text is read and written too. Reports,
    diffs and steps go to standard error. If --verify finds outputs that differ by more than the tolerance of their type
    (f32: 1e-4) or --rtol, the exit status is 1 and nothing is written.

    \b
    Examples:
      hloom opt step.hlo -p simplify,cse -o small.hlo --verify
      hloom opt step.hlo -p "fixpoint(simplify,cse)" --report
      hloom opt step.hlo -p my_rules.json --trace-misses main.add.3
      hloom opt step.hlo --load my_passes.py -p my_passes --print-changed
      hloom opt step.hlo -p simplify --steps --until 3
      hloom opt step.hlo -p "remat(budget=8GiB)" --for h100 -o small.hlo
      hloom opt before.mlir -p fuse-bias-add-dropout --seed 4920936260932536
    """
    reader = pipeline_reader(load, {} if seed is None else {"seed": seed})
    chosen = named_passes(reader, ",".join(passes)) if passes else []
    if list_passes:
        load_further_passes()
        _list_passes(reader.known, json_output, output)
        return
    if list_rules is not None:
        _list_rules(named_passes(reader, list_rules), json_output, output)
        return
    if source is None:
        raise click.UsageError("Missing argument 'FILE'.")
    if rtol is not None and not is_verified:
        raise click.UsageError("--rtol needs --verify")
    check_folder(output)
    original, language = read_any(source)
    if output is not None:
        check_name(output, language)
    if not passes and output is None and not json_output and not load:
        raise click.UsageError(
            "no passes given, so nothing would change: name passes with -p (see --list) or a file with -o; "
            "to print FILE, use hloom print"
        )
    if not passes:
        write_note("note: no passes given (-p), so the module is written unchanged")
    elif seed is not None and not is_verified and "seed" not in reader.taken:
        raise click.UsageError("--seed needs --verify or a pass that takes a seed; these passes take none")
    diffs = _Diffs(language, print_after_all) if print_after_all or print_changed else None
    keeps_original = is_verified or until is not None or bool(trace_misses) or target is not None
    run = _run(original, chosen, diffs, verify_each=verify_each, keeps_original=keeps_original)
    if until is not None:
        with progress("replaying"):
            run.replay(until)
    misses = [_guarded(lambda name=name: _misses_at(run, name)) for name in trace_misses]
    if list_steps:
        _note_steps(run)
    if is_reported and not json_output:
        _note_report(run)
    if not json_output:
        for miss in misses:
            write_note("\n".join(miss.lines()))
    verdict = None
    if is_verified:
        with progress("running both modules"):
            verdict = _equivalence(run, language, seed or 0, rtol)
        if not json_output:
            write_note("\n".join(verdict.lines()))
    compilers = {} if target is None else _compiled(run, language, target, is_shown=not json_output)
    is_wrong = verdict is not None and not verdict.agrees
    if json_output:
        write_record(_record(run, None if output or is_wrong else language, misses, verdict, compilers), None)
    if is_wrong:
        click.get_current_context().exit(NO)
    if output is not None or not json_output:
        write_any(run.after, language, output)


@dataclass(slots=True)
class _Run:
    """A pipeline that ran: the module before it (itself, where nobody asks) and after it, and the report."""

    pipeline: Pass
    before: Module
    after: Module
    report: Report

    def replay(self, last: int) -> None:
        """Bring the module to where it was after a step."""
        self.after = self.before.clone()
        _guarded(lambda: replay_until(self.after, self.pipeline, self.report, last))


class _Diffs:
    """Writes what each pass changed to the standard error."""

    def __init__(self, language: Language, show_unchanged: bool) -> None:
        self.language = language
        self.show_unchanged = show_unchanged
        self.text: str | None = None

    def before(self, name: str, module: Module) -> None:
        if self.text is None:
            self.text = self.language.to_short_text(module)

    def after(self, name: str, module: Module, report: Report) -> None:
        text = self.language.to_short_text(module)
        left, right = (self.text or "").splitlines(), text.splitlines()
        lines = list(difflib.unified_diff(left, right, f"before {name}", f"after {name}", lineterm=""))
        self.text = text
        if lines:
            write_note("\n".join(lines))
        elif self.show_unchanged:
            write_note(f"{name} changed nothing")


def _misses_at(run: _Run, name: str) -> Misses:
    from hloom.cli.misses import misses_at

    return misses_at(name, run.before, run.after, run.report)


def _note_steps(run: _Run) -> None:
    from hloom.cli.tables import note_tables

    note_tables(step_lines(run.pipeline, run.report))


def _note_report(run: _Run) -> None:
    from hloom.cli.pass_report import report_tables
    from hloom.cli.tables import note_tables

    note_tables(report_tables(run.pipeline, run.report))


def _equivalence(run: _Run, language: Language, seed: int, rtol: float | None) -> EquivalenceResult:
    from hloom.cli.equivalence import check_equivalence

    return check_equivalence(language.to_hlo(run.before), language.to_hlo(run.after), seed, rtol)


def _compiled(run: _Run, language: Language, target: str, *, is_shown: bool) -> dict[str, CompiledSide]:
    """What the target's compiler makes before and after the passes; shown on standard error if asked."""
    from hloom.cli.tables import note_tables
    from hloom.cli.target import before_and_after, change_lines
    from hloom.targets.memory import memory

    modules = language.to_hlo(run.before), language.to_hlo(run.after)
    pair = before_and_after(*modules, target)
    with progress("placing buffers"):
        peaks = [memory(module, target=target).peak for module in modules]
    if is_shown:
        note_tables(change_lines(*pair, (peaks[0], peaks[1])))
    return dict(zip(("before", "after"), map(CompiledSide, pair, peaks), strict=True))


def _list_passes(known: Mapping[str, Pass], json_output: bool, output: Path | None) -> None:
    from hloom.cli.pass_report import pass_list
    from hloom.cli.tables import write_report

    write_report(lambda: PassList(tuple(known.values())), [pass_list(known.values())], json_output, output)


def _list_rules(passes: Sequence[Pass], json_output: bool, output: Path | None) -> None:
    from hloom.cli.pass_report import rule_list
    from hloom.cli.tables import write_report

    rules = sequence("listed", passes).rules
    shown = rule_list(rules) if rules else "these passes have no rules"
    write_report(lambda: RuleList(tuple(map(_listed_rule, rules))), [shown], json_output, output)


def _listed_rule(rule: Rule) -> ListedRule:
    from hloom.cli.pass_report import first_line

    origin = str(rule.origin) if rule.origin else None
    return ListedRule(rule.name, rule.family, rule.roots, rule.benefit, first_line(rule), rule.because or None, origin)


def _run(
    original: Module, chosen: Sequence[Pass], diffs: _Diffs | None, *, verify_each: bool, keeps_original: bool
) -> _Run:
    if verify_each:
        try:
            verify(original)
        except HloomError as error:
            raise HloomError(f"before any pass: {error.message}", error.location, error.hint) from error
    module = original.clone() if keeps_original else original
    watch = Watch(diffs.before, diffs.after) if diffs else None
    with progress("rewriting"), timed_rules():
        report = _guarded(lambda: apply_in_place(module, chosen, verify_each=verify_each, watch=watch))
    return _Run(sequence("pipeline", chosen), original, module, report)


def _guarded(work: Callable[[], Any]) -> Any:
    """The result of the work; an exception in a user's own pass or rule becomes an error with its location."""
    try:
        return work()
    except (HloomError, OSError, MemoryError):
        raise
    except Exception as error:
        from hloom.runtime import location_of

        raise HloomError(f"a pass raised {type(error).__name__}: {error}", location_of(error.__traceback__)) from error


def _record(
    run: _Run,
    language: Language | None,
    misses: Sequence[Misses],
    verdict: EquivalenceResult | None,
    compilers: Mapping[str, CompiledSide],
) -> OptRecord:
    text = None if language is None else language.to_text(run.after)
    return OptRecord(run.after.name, run.report, steps_of(run.report), misses, verdict, compilers, text)
