"""Passes by name, and pipelines of passes, as run by `hloom.opt`, `hloom.jit` and `hloom opt`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Concatenate, ParamSpec

from hloom.ir import Apply, Module, Node, Op, verify
from hloom.ops import OPS
from hloom.rewrite import Family, Report, Rule, RuleError, RuleIndex, load_rules, rewrite
from hloom.text import Cursor, HloomError, ParseError, Source, tracked

Options = ParamSpec("Options")

FIXPOINT = "fixpoint"
"""`fixpoint(a,b)` repeats a and b until neither changes anything."""
RULE_FILE = ".json"
"""The suffix of rule files."""

_DEEPEST = 20
"""The maximum nesting depth of fixpoints: the reader is recursive, and nobody writes more than two."""
_NAME = re.compile(r"[^\s,()]+")
_OPTION = re.compile(r"([A-Za-z_][\w-]*)\s*=")
_VALUE = re.compile(r"[^,()]+")

MAX_ROUNDS = 20
"""The maximum rounds of a fixpoint; it nearly always ends after two or three."""


@dataclass(frozen=True, slots=True)
class Pass:
    """An in-place change of a module: its name, what to run, and a one-sentence summary.

    `options` are the keyword arguments that `run` takes in addition to the module.
    """

    name: str
    run: Callable[..., Report] = field(repr=False)
    summary: str = ""
    options: tuple[str, ...] = ()
    json_keys = "pass=name summary options"

    @property
    def parts(self) -> tuple[Pass, ...]:
        """The passes it consists of; empty for a single pass."""
        return self.run.parts if isinstance(self.run, _Composite) else ()

    @property
    def reaches_fixpoint(self) -> bool:
        """Whether a second run right after the first has nothing to change: rules are applied until none fires."""
        return bool(self.rules) and not self.parts

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules it applies, including those of its parts; empty if it is not a pass of rules."""
        run = self.run.func if isinstance(self.run, partial) else self.run
        if isinstance(run, _RuleApplication):
            return run.rules
        return tuple(dict.fromkeys(rule for part in self.parts for rule in part.rules))

    def run_again(self, module: Module, touched: Collection[Node]) -> Report:
        """Run again on a module in which it had nothing left to change before these nodes were touched."""
        keywords: dict[str, Any] = self.run.keywords if isinstance(self.run, partial) else {}
        run = self.run.func if isinstance(self.run, partial) else self.run
        return run(module, touched, **keywords) if isinstance(run, _RuleApplication) else self.run(module)

    def with_options(self, **options: Any) -> Pass:
        """The same pass with options set; raises HloomError for an unknown option."""
        unknown = [name for name in options if name not in self.options]
        if unknown:
            known = f"it takes {', '.join(self.options)}" if self.options else "it takes none"
            raise HloomError(f"pass {self.name} takes no option '{unknown[0]}'", hint=known)
        return replace(self, run=partial(self.run, **options)) if options else self


@dataclass(frozen=True, slots=True)
class Watch:
    """Callbacks for each pass: before it starts, and after it ends, with its report.

    The parts of a fixpoint or a sequence that is not in PASSES are watched individually.
    """

    before: Callable[[str, Module], None] = lambda name, module: None
    after: Callable[[str, Module, Report], None] = lambda name, module, report: None


PassLike = Pass | Rule | Family | Sequence[Rule] | str | Callable[[Module], Any]
"""Anything that can be used as a pass: a Pass, one or several rules, a function that changes a module in place, or a
text.

A text names passes as on the command line: `simplify,cse`, `fixpoint(fold,cse)`, `microbatch(n=4)`, `my_rules.json`.
"""

_NAMES = {
    "hoist": ("hoist", "sink"),
    "all_reduce_sinker": ("sink-all-reduces",),
    "inline": ("inline", "inline-fusions"),
    "dce": ("dce",),
    "collective_simplifier": (
        *("simplify-all-reduces", "fold-all-reduces", "reassociate-all-reduces", "create-reduce-scatters"),
        *("reorder-all-gathers", "simplify-collectives"),
    ),
    "conditional_mover": ("move-into-branches", "move-out-of-branches", "move-across-branches"),
    "constant_propagation": ("propagate-constants",),
    "convert_mover": ("move-converts",),
    "cse": ("cse",),
    "dead_updates": ("eliminate-dead-updates",),
    "dot_merger": ("merge-dots",),
    "loop_concatenation": ("carry-concatenations",),
    "loop_simplifier": ("simplify-loops",),
    "outline": ("outline",),
    "reduce_merger": ("merge-reduces",),
    "reshape_mover": ("sink-reshapes",),
    "simplify": (
        *("simplify", "simplify-xla", "fast-math", "fold", "convolution-to-dot", "dot-strength-reduction"),
        *("conditional-to-select", "fold-transposes", "drop-roundings", "canonical-dots", "canonical-gathers"),
        *("canonical-broadcasts", "hoist-slices"),
    ),
    "slice_sinker": ("sink-slices",),
    "tuple_simplifier": ("simplify-tuples",),
    "unroll": ("unroll",),
}
"""The passes that each file of this package registers: it is imported when one of them is first asked for."""
_FILES = {name: file for file, names in _NAMES.items() for name in names}


class _Passes(MutableMapping[str, Pass]):
    """Registered passes by name, and those that their files will register once they are imported."""

    def __init__(self) -> None:
        self._registered: dict[str, Pass] = {}

    def __getitem__(self, name: str) -> Pass:
        if name not in self._registered and name in _FILES:
            import_module(f"hloom.passes.{_FILES[name]}")
        return self._registered[name]

    def __setitem__(self, name: str, given: Pass) -> None:
        self._registered[name] = given

    def __delitem__(self, name: str) -> None:
        del self._registered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES | self._registered)

    def __len__(self) -> int:
        return len(_FILES | self._registered)


PASSES: MutableMapping[str, Pass] = _Passes()
"""The passes that can be used by name."""


def register_pass(name: str, summary: str, run: Callable[..., Report], options: Sequence[str] = ()) -> Pass:
    """Register a pass by name; `options` are the keyword arguments that `run` takes."""
    if name in PASSES:
        raise HloomError(f"there is a pass named '{name}' already")
    PASSES[name] = Pass(name, run, summary, tuple(options))
    return PASSES[name]


def rules_pass(
    name: str,
    rules: Iterable[Rule] | Callable[..., Iterable[Rule]],
    summary: str = "",
    options: Sequence[str] = (),
) -> Pass:
    """A pass that applies rules until none fires; if it has options, a function of them returns the rules."""
    return Pass(name, _RuleApplication(name, rules), summary, tuple(options))


def until_settled(
    change: Callable[Concatenate[Module, Options], Report],
) -> Callable[Concatenate[Module, Options], Report]:
    """Repeat a change of a module until it changes nothing.

    For a pass that may change its own result. A second run of the repeated pass changes nothing, unless the report
    notes that the first one stopped early.
    """

    @wraps(change)
    def run(module: Module, *given: Options.args, **options: Options.kwargs) -> Report:
        report = latest = change(module, *given, **options)
        for _ in range(MAX_ROUNDS):
            if not latest.changed:
                return report
            latest = change(module, *given, **options)
            report.add(latest)
        report.notes.append(f"stopped after {MAX_ROUNDS} rounds, each of which changed the module")
        return report

    return run


def fixpoint(name: str, parts: Sequence[PassLike], summary: str = "") -> Pass:
    """A pass that repeats several passes in order until none changes anything.

    Raises HloomError if that takes more than 20 rounds.
    """
    return Pass(name, _Composite(name, parts, MAX_ROUNDS), summary)


def sequence(name: str, parts: Sequence[PassLike], summary: str = "") -> Pass:
    """A pass that runs several passes in order."""
    return Pass(name, _Composite(name, parts), summary)


def leaf_passes(ran: Pass, report: Report) -> Iterator[tuple[Pass, Report]]:
    """The passes that ran, in order, with their reports: parts instead of composites, and every round."""
    parts = ran.parts
    if not parts:
        yield ran, report
        return
    for index, inner in enumerate(report.passes):
        yield from leaf_passes(parts[index % len(parts)], inner)


def resolve(passes: PassLike | Iterable[PassLike]) -> list[Pass]:
    """The passes that these values denote, with a list of rules as one pass; raises HloomError for unknown names."""
    listed = _as_list(passes)
    if len(listed) > 1 and all(isinstance(listed_pass, Rule) for listed_pass in listed):
        return [_as_pass(listed)]
    return [chosen for item in listed for chosen in _as_passes(item)]


def apply(module: Module, passes: PassLike | Iterable[PassLike], **options: Any) -> tuple[Module, Report]:
    """Run passes on a copy of a module; returns the copy and the report. Options are those of `apply_in_place`.

    >>> from hloom.formats.hlo import parse
    >>> module = parse("ENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x) ROOT b = f32[2] negate(a) }")
    >>> changed, report = apply(module, "simplify")
    >>> changed.entry.root.opcode, report.matched
    ('parameter', 1)
    """
    copy = module.clone()
    return copy, apply_in_place(copy, passes, **options)


def apply_in_place(
    module: Module,
    passes: PassLike | Iterable[PassLike],
    *,
    name: str = "pipeline",
    verify_each: bool = False,
    watch: Watch | None = None,
) -> Report:
    """Run passes on a module in order.

    With `verify_each` the module is verified after each pass, and an error names the pass that broke it. Raises
    HloomError if an instruction lacks a required attribute.
    """
    _check_attributes(module)
    watch = watch or Watch()
    return _Composite(name, _as_list(passes))(module, _verifying(watch) if verify_each else watch)


def _check_attributes(module: Module) -> None:
    """Raise HloomError if a node lacks an attribute that its op requires: passes rely on it."""
    for graph in module.graphs:
        for node in graph.nodes:
            if isinstance(node, Apply) and isinstance(op := node.function, Op) and op.required:
                lacking = op.lacking(node.attributes)
                if lacking is not None:
                    raise HloomError(f"{node.name} in {graph.name}: {op.name} has no attribute {lacking}")


class _RuleApplication:
    """What a pass of rules runs."""

    def __init__(self, name: str, rules: Iterable[Rule] | Callable[..., Iterable[Rule]]) -> None:
        self.name = name
        self._given = rules if callable(rules) else tuple(rules)
        self._indexes: dict[tuple[Any, ...], RuleIndex] = {}

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._made({})

    def __call__(self, module: Module, touched: Collection[Node] | None = None, **options: Any) -> Report:
        key = tuple(sorted(options.items()))
        if key not in self._indexes:
            self._indexes[key] = RuleIndex(self._made(options))
        return rewrite(module, self._indexes[key], name=self.name, touched=touched)

    def _made(self, options: dict[str, Any]) -> tuple[Rule, ...]:
        return tuple(self._given(**options)) if callable(self._given) else self._given


class _Composite:
    """What a fixpoint or a sequence runs."""

    def __init__(self, name: str, given: Sequence[PassLike], rounds: int = 0) -> None:
        self.name = name
        self.given = given
        self.rounds = rounds

    @property
    def parts(self) -> tuple[Pass, ...]:
        return tuple(resolve(self.given))

    def __call__(self, module: Module, watch: Watch | None = None) -> Report:
        total, parts, started = Report(self.name), self.parts, perf_counter()
        settled = 0  # the number of consecutive passes, ending with the last one, that have nothing to change
        touched: list[set[Node] | None] = [None] * len(parts)  # nodes touched since each part ran; None if unknown
        runs = range(len(parts) * (self.rounds or 1))
        for index in runs if self.rounds else tracked(runs):
            at = index % len(parts)
            part = parts[at]
            report = _run_one(part, module, watch or Watch(), touched[at])
            total.passes.append(report)
            _note_touched(touched, report)
            touched[at] = set() if part.reaches_fixpoint else None
            settled = settled + 1 if not report.changed else int(part.reaches_fixpoint)
            if self.rounds and settled >= len(parts):
                break
        total.seconds = perf_counter() - started
        if self.rounds and settled < len(parts):
            names = ", ".join(inner.name for inner in total.passes[-len(parts) :] if inner.changed)
            raise HloomError(f"{self.name} found no end in {self.rounds} rounds: {names} still change the module")
        return total


def _note_touched(touched: list[set[Node] | None], report: Report) -> None:
    """Add the nodes a pass touched to those touched since others ran, and remove them from its report."""
    if report.changed:
        for at, before in enumerate(touched):
            touched[at] = None if before is None or report.touched is None else before | report.touched
    report.touched = None


def _run_one(part: Pass, module: Module, watch: Watch, touched: set[Node] | None) -> Report:
    if isinstance(part.run, _Composite) and part.name not in PASSES:
        return part.run(module, watch)
    watch.before(part.name, module)
    started = perf_counter()
    report = part.run(module) if touched is None else part.run_again(module, touched)
    if not isinstance(report, Report):
        raise HloomError(
            f"the pass {part.name} returned {type(report).__name__}, not a Report",
            hint="a registered pass ends with `return hloom.rewrite.Report(name, changes=...)`",
        )
    report.seconds = report.seconds or perf_counter() - started
    watch.after(part.name, module, report)
    return report


def _verifying(watch: Watch) -> Watch:
    def after(name: str, module: Module, report: Report) -> None:
        watch.after(name, module, report)
        _verify_after(name, module)

    return Watch(watch.before, after)


def _as_list(passes: PassLike | Iterable[PassLike]) -> list[Any]:
    if isinstance(passes, (str, Pass, Rule, Family)) or callable(passes):
        return [passes]
    if not isinstance(passes, Iterable):
        raise _no_pass(passes)
    return list(passes)


def _as_passes(item: Any) -> list[Pass]:
    return PipelineReader().read(item) if isinstance(item, str) else [_as_pass(item)]


def _as_pass(item: Any) -> Pass:
    if isinstance(item, Pass):
        return item
    if isinstance(item, Rule):
        return rules_pass(item.name, [item], item.statement)
    if isinstance(item, Family):
        return rules_pass(item.name, item)
    if isinstance(item, Sequence):
        return rules_pass("rules", item)
    if callable(item):
        return _function(item)
    raise _no_pass(item)


def _no_pass(item: Any) -> HloomError:
    return HloomError(f"{item!r} is not a pass: give a name, a rule, a list of rules, or a function of a module")


class PipelineReader:
    """Reads texts such as `simplify,cse`, `fixpoint(fold,cse)`, `my_rules.json`, `microbatch(n=4)`.

    `own` are passes known in addition to PASSES; `options` are passed to the passes that accept them, and recorded in
    `taken`; errors call the text `source`.
    """

    def __init__(
        self, own: Mapping[str, Pass] | None = None, options: Mapping[str, Any] | None = None, source: str = "passes"
    ) -> None:
        self.own = own or {}
        self.options = options or {}
        self.source = source
        self.taken: set[str] = set()

    @property
    def known(self) -> Mapping[str, Pass]:
        """The passes that can be named as far as their packages are imported."""
        return {**PASSES, **self.own}

    def read(self, text: str) -> list[Pass]:
        """The passes of a text; raises ParseError with its place, and RuleError for an invalid rule file."""
        cursor = Cursor(Source(text, self.source))
        passes = self._list(cursor, 0)
        if cursor.peek():
            raise cursor.error(f"expected ',' or the end, found {cursor.next_token()}")
        return passes

    def _list(self, cursor: Cursor, depth: int) -> list[Pass]:
        passes = [self._one(cursor, depth)]
        while cursor.accept(","):
            passes.append(self._one(cursor, depth))
        return passes

    def _one(self, cursor: Cursor, depth: int) -> Pass:
        start = cursor.skip()
        name = cursor.read(_NAME, "a pass")[0]
        if not cursor.at("("):
            return self._configured(self._named(name, start, cursor))
        if name != FIXPOINT:
            return self._with_options(self._configured(self._named(name, start, cursor)), start, cursor)
        if depth == _DEEPEST:
            raise cursor.error(f"more than {_DEEPEST} fixpoints, one in another", start)
        cursor.expect("(")
        parts = self._list(cursor, depth + 1)
        if not cursor.accept(")"):
            raise cursor.error(f"expected ',' or ')', found {cursor.next_token()}")
        return fixpoint(cursor.text[start : cursor.position], parts)

    def _with_options(self, named: Pass, start: int, cursor: Cursor) -> Pass:
        if not named.options:
            raise cursor.error(f"'{named.name}' takes no passes and no options, {FIXPOINT} takes passes", start)
        return read_options(named, cursor)

    def _named(self, name: str, start: int, cursor: Cursor) -> Pass:
        named = self._known(name)
        if named is None and name.endswith(RULE_FILE):
            return rules_pass(Path(name).stem, self._rules(name), f"the rules of {name}")
        if named is None:
            load_further_passes()
            named = self._known(name)
        if named is None:
            raise self._unknown(name, start, cursor)
        return named

    def _known(self, name: str) -> Pass | None:
        return self.own.get(name) or PASSES.get(name)

    def _rules(self, name: str) -> list[Rule]:
        rows = _FURTHER[-1].rows() if _FURTHER else OPS
        try:
            return load_rules(Path(name), rows)
        except RuleError as error:
            if name in error.message:
                raise
            raise RuleError(f"{name}: {error.message}", error.location, error.hint) from None

    def _unknown(self, name: str, start: int, cursor: Cursor) -> ParseError:
        if name == FIXPOINT:
            hint = f"{FIXPOINT} takes passes: {FIXPOINT}(simplify,cse)"
        else:
            near = get_close_matches(name, self.known, 3)
            hint = f"near: {', '.join(near)}" if near else "hloom opt --list lists the passes"
        return cursor.error(f"there is no pass named '{name}'", start, hint)

    def _configured(self, named: Pass) -> Pass:
        given = {name: value for name, value in self.options.items() if name in named.options}
        self.taken.update(given)
        return named.with_options(**given)


@dataclass(frozen=True, slots=True)
class FurtherPasses:
    """Passes of packages above: `load` makes them register, `rows` are the ops that rule files may name."""

    load: Callable[[], None]
    rows: Callable[[], Mapping[str, Op]]


_FURTHER: list[FurtherPasses] = []


def provide_further_passes(further: FurtherPasses) -> None:
    """Register where further passes come from, loaded when a name is unknown; the last registration wins."""
    _FURTHER.append(further)


def load_further_passes() -> None:
    """Make the passes of packages above available by name."""
    if _FURTHER:
        _FURTHER[-1].load()


def read_options(named: Pass, cursor: Cursor) -> Pass:
    """Read a pass's options: `(4)` sets the first, `(n=4, other=text)` sets them by name.

    Raises ParseError for unknown options, and HloomError if it takes none.
    """
    if not named.options:
        raise cursor.error(f"'{named.name}' takes no options")
    cursor.expect("(")
    options: dict[str, Any] = {}
    while not options or cursor.accept(","):
        at = cursor.skip()
        key = cursor.match(_OPTION)
        option = key[1] if key else named.options[0]
        if option not in named.options or option in options:
            problem = "is given twice" if option in options else "is not one of its options"
            raise cursor.error(f"{option} {problem}", at, f"{named.name} takes {', '.join(named.options)}")
        text = cursor.read(_VALUE, "a value")[0].strip()
        options[option] = int(text) if text.lstrip("-").isdecimal() and len(text) < 19 else text
    if not cursor.accept(")"):
        raise cursor.error(f"expected ',' or ')', found {cursor.next_token()}")
    return named.with_options(**options)


def _function(function: Callable[[Module], Any]) -> Pass:
    name = getattr(function, "__name__", type(function).__name__).replace("_", "-")

    def run(module: Module) -> Report:
        result = function(module)
        if isinstance(result, Report):
            return result
        return Report(name, changes=0 if result is False else 1)

    return Pass(name, run, (function.__doc__ or "").split("\n")[0])


def _verify_after(name: str, module: Module) -> None:
    try:
        verify(module)
    except HloomError as error:
        raise HloomError(f"after pass {name}: {error.message}", error.location, error.hint) from error
