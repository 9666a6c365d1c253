"""What `verify` asks beyond types, as XLA's own verifier does: each refusal at its node, beside what is accepted.

Covers `alias_checks.py`, `buffer_checks.py`, `call_checks.py`, `group_checks.py` and `pair_checks.py`.
"""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.ir import Level, VerifyError, verify
from tests.ops.verifier import complaint

ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
NEGATE = "f {\n  p = f32[8] parameter(0)\n  ROOT q = f32[8] negate(p)\n}\n\n"
NEVER = "never {\n  p = f32[8] parameter(0)\n  ROOT t = pred[] constant(false)\n}\n\n"
STATE = "((f32[8]), f32[8], s32[])"
PARTS = "replica_groups={{0,1}}"


def module(*lines: str, computations: str = "", header: str = "") -> str:
    """A module that takes and yields f32[8], with these lines in its entry."""
    body = "".join(f"  {line}\n" for line in lines)
    entry = f"ENTRY e {{\n  x = f32[8] parameter(0)\n{body}  ROOT root = f32[8] negate(x)\n}}\n"
    return f"HloModule m{header}\n\n{computations}{entry}"


def computation(*lines: str, thread: str = "") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return f"f {{\n  p = f32[8] parameter(0)\n{body}}}{thread}\n\n"


def composite(attributes: str) -> str:
    call = f"bad = f32[8] call(x), to_apply=f, is_composite=true, frontend_attributes={{{attributes}}}"
    return module(call, computations=NEGATE)


def collective(line: str) -> str:
    return module(f"bad = {line}", computations=ADD)


def permute(pairs: str) -> str:
    return collective(f"f32[8] collective-permute(x), source_target_pairs={pairs}")


def sharded(sharding: str, type_text: str = "f32[8]", line: str = "negate(x)") -> str:
    return module(f"bad = {type_text} {line}, sharding={sharding}")


def fusion(*lines: str, attributes: str = "") -> str:
    call = f"bad = f32[8] fusion(x), kind=kLoop{attributes}, calls=f"
    return module(call, computations=computation(*lines))


def custom(target: str, type_text: str, operands: str, *aliases: str) -> str:
    aliasing = f", output_to_operand_aliasing={{{', '.join(aliases)}}}" if aliases else ""
    return f'{type_text} custom-call({operands}), custom_call_target="{target}"{aliasing}'


def asynchronous(*lines: str, computations: str = NEGATE) -> str:
    return module(f"s = {STATE} async-start(x), calls=f", *lines, computations=computations)


def transfer(send: str, done: str) -> str:
    first = f"bad = (f32[8], u32[], token[]) send(x, t), channel_id=1{send}"
    return module("t = token[] after-all()", first, f"d = token[] send-done(bad), channel_id=1{done}")


ALIAS = "{}: (0, {})"
BUFFER = "b(f32[8])"
PIN = f"b = {custom('Pin', BUFFER, 'x', ALIAS)}"
STARTS = {
    "copy": ("(f32[8], f32[8], u32[])", "copy-start(x)", "f32[8] copy-done(s)"),
    "all-gather": (
        "(f32[8], f32[16])",
        f"all-gather-start(x), {PARTS}, dimensions={{0}}",
        "f32[16] all-gather-done(s)",
    ),
    "all-reduce": ("f32[8]", "all-reduce-start(x), replica_groups={}, to_apply=add", "f32[8] all-reduce-done(s)"),
    "collective-permute": (
        "(f32[8], f32[8], u32[], u32[])",
        "collective-permute-start(x), source_target_pairs={{0,1}}",
        "f32[8] collective-permute-done(s)",
    ),
    "async": (STATE, "async-start(x), calls=f", "f32[8] async-done(s)"),
    "send": ("(f32[8], u32[], token[])", "send(x, t), channel_id=1", "token[] send-done(s), channel_id=1"),
    "recv": ("(f32[8], u32[], token[])", "recv(t), channel_id=1", "(f32[8], token[]) recv-done(s), channel_id=1"),
}
"""Of each operation in two parts the type and the text of its start, and its end."""


def pair(what: str, *further: str, end: bool = True) -> str:
    type_text, start, done = STARTS[what]
    token = ["t = token[] after-all()"] if what in ("send", "recv") else []
    lines = [*token, f"s = {type_text} {start}", *([f"d = {done}"] if end else []), *further]
    return module(*lines, computations=ADD + NEGATE)


@pytest.mark.parametrize("what", list(STARTS))
def test_a_start_has_one_end(what: str):
    type_text, _, done = STARTS[what]
    refuse(pair(what, end=False), "s", "must have one user")
    refuse(pair(what, f"again = {done}"), "s", "must have one user")
    refuse(pair(what, f"copied = {type_text} copy(s)"), "s", "must have one user")
    accept(pair(what))


@pytest.mark.parametrize("what", list(STARTS))
def test_an_end_is_that_of_a_start(what: str):
    type_text, _, done = STARTS[what]
    start = f's = {type_text} custom-call(), custom_call_target="made"'
    refuse(module("t = token[] after-all()", start, f"d = {done}"), "d", "the operand of")


REFUSED = {
    "composite without a name": (composite('composite.version="1"'), "composite.name"),
    "composite with an empty name": (composite('composite.name=""'), "composite.name"),
    "composite with empty attributes": (composite('composite.name="n",composite.attributes=""'), "is empty"),
    "composite with a negative version": (composite('composite.name="n",composite.version="-1"'), "not '-1'"),
    "composite with a long version": (
        composite('composite.name="n",composite.version="9223372036854775808"'),
        "number of 64 bits",
    ),
    "groups without devices": (
        collective("f32[8] all-reduce(x), replica_groups={{0},{}}, to_apply=add"),
        "a group without devices",
    ),
    "groups with a device twice": (
        collective("f32[8] all-reduce(x), replica_groups={{0,0}}, to_apply=add"),
        "device 0 twice",
    ),
    "groups with a device too many": (
        collective("f32[8] all-reduce(x), replica_groups={{1,2}}, to_apply=add"),
        "2 is not in 0 to 1",
    ),
    "no groups of global devices": (
        collective("f32[8] all-reduce(x), channel_id=1, use_global_device_ids=true, replica_groups={}, to_apply=add"),
        "not empty",
    ),
    "uneven groups of reduce-scatter": (
        collective("f32[8] reduce-scatter(x), replica_groups={{0},{1,2}}, dimensions={0}, to_apply=add"),
        "of one size",
    ),
    "uneven groups of all-gather": (
        collective("f32[16] all-gather(x), replica_groups={{0,1,2},{3}}, dimensions={0}"),
        "of one size",
    ),
    "uneven groups of all-to-all": (
        collective("f32[8] all-to-all(x), replica_groups={{0},{1,2}}, dimensions={0}"),
        "of one size",
    ),
    "operands of all-to-all": (collective(f"(f32[8]) all-to-all(x), {PARTS}"), "1 operands for groups of 2"),
    "operands of all-to-all over all": (
        collective("(f32[8], f32[8]) all-to-all(x, x), replica_groups={}"),
        "2 operands for groups of 1",
    ),
    "a source twice": (permute("{{0,1},{0,2}}"), "0 is a source in source_target_pairs more than once"),
    "a target twice": (permute("{{0,1},{2,1}}"), "1 is a target in source_target_pairs more than once"),
    "a negative source": (permute("{{-1,0}}"), "-1 is a source"),
    "offsets of a slice": (
        module(
            "i = s32[] constant(0)",
            "o = (s32[], s32[]) tuple(i, i)",
            "bad = f32[8] collective-permute(x, x, o, o), source_target_pairs={{0,1}}, slice_sizes={{4}}",
        ),
        "has 1 numbers, not 2",
    ),
    "layouts constrained in one all-reduce": (
        module(
            "a = f32[8] all-reduce(x), replica_groups={}, to_apply=add",
            "bad = f32[8] all-reduce(x), replica_groups={}, constrain_layout=true, to_apply=add",
            computations=ADD,
        ),
        "constrain_layout",
    ),
    "a host transfer that ends as none": (transfer(", is_host_transfer=true", ""), "is_host_transfer differs"),
    "an end of a host transfer": (transfer("", ", is_host_transfer=true"), "is_host_transfer differs"),
    "two instructions run asynchronously": (
        asynchronous("d = f32[8] async-done(s)", computations=computation("n = f32[8] negate(p)", "ROOT q = f32[8] negate(n)"))
        .replace("s = (", "bad = (").replace("(s)", "(bad)"),
        "must be one instruction, but contains n",
    ),
    "two updates of a start": (
        asynchronous(f"u = {STATE} async-update(s)", f"v = {STATE} async-update(s)", "d = f32[8] async-done(u)")
        .replace("s = (", "bad = (").replace("(s)", "(bad)"),
        "must have one user",
    ),
    "an update without an end": (asynchronous(f"bad = {STATE} async-update(s)"), "must have one user"),
    "a tile dimension too many": (sharded("{devices=[2,1]0,1}"), "for arrays of rank 2, not for f32[8]"),
    "a mesh dimension too many": (sharded("{mesh['a'=2], [{'a'}, {}]}"), "for arrays of rank 2"),
    "more places than devices": (sharded("{devices=[14]<=[8]}"), "14 places for 8 devices"),
    "a device twice": (sharded("{devices=[2]0,0}"), "names a device twice"),
    "a negative device": (sharded("{maximal device=-1}"), "not in 0 to 0"),
    "a tuple's sharding on an array": (sharded("{{replicated}}"), "is for a tuple"),
    "too few leaves": (sharded("{{replicated}}", "(f32[8], f32[8])", "tuple(x, x)"), "1 leaves"),
    "a leaf of another rank": (
        sharded("{{maximal device=0},{devices=[2,1]0,1}}", "(f32[8], f32[8])", "tuple(x, x)"),
        "for arrays of rank 2",
    ),
    "a loop's state sharded in two ways": (
        module(
            "bad = f32[8] while(x), condition=never, body=f, sharding={replicated}",
            computations=NEVER + NEGATE.replace("parameter(0)", "parameter(0), sharding={devices=[2]0,1}"),
        ),
        "while needs one sharding",
    ),
    "branches sharded in two ways": (
        module(
            "i = s32[] constant(0)",
            "bad = f32[8] conditional(i, x), branch_computations={f}, sharding={replicated}",
            computations=NEGATE.replace("negate(p)", "negate(p), sharding={devices=[2]0,1}"),
        ),
        "conditional needs one sharding",
    ),
    "a fusion on another thread": (
        module(
            "bad = f32[8] fusion(x), kind=kLoop, calls=f",
            computations=computation("ROOT q = f32[8] negate(p)", thread=', execution_thread="host"'),
        ),
        "runs on the thread 'main', and f on 'host'",
    ),
    "a fusion's root is used": (
        fusion("ROOT q = f32[8] negate(p)", "n = f32[8] negate(q)"),
        "the root of f must not be used",
    ),
    "an alias of a lacking operand": (
        fusion("ROOT q = f32[8] negate(p)", attributes=", output_to_operand_aliasing={{}: (1, {})}"),
        "operand 1 of 1",
    ),
    "an alias of a lacking element": (module(f"bad = {custom('g', 'f32[8]', 'x', '{}: (0, {0})')}"), "lacks"),
    "an alias of another type": (module(f"bad = {custom('g', 'f32[4]', 'x', ALIAS)}"), "they differ"),
    "a seed of 32 bits": (module(f"bad = {custom('GetRngSeed', 'u32[]', '')}"), "yields u64[], not u32[]"),
    "a seed of something": (module(f"bad = {custom('GetRngSeed', 'u64[]', 'x')}"), "takes no operand"),
    "a pin without an alias": (module(f"bad = {custom('Pin', BUFFER, 'x')}"), "there are 0 aliases"),
    "a pin of two": (module(f"bad = {custom('Pin', BUFFER, 'x, x', ALIAS)}"), "takes one array"),
    "a pin that yields an array": (module(f"bad = {custom('Pin', 'f32[8]', 'x', ALIAS)}"), "yields a buffer"),
    "an unpin of an array": (module(f"bad = {custom('Unpin', 'f32[8]', 'x', ALIAS)}"), "takes one buffer"),
    "a new buffer of something": (module(f"bad = {custom('CreateBuffer', BUFFER, 'x')}"), "takes no operand"),
    "two writers of a buffer": (
        module(PIN, f"c = {custom('g', BUFFER, 'b', ALIAS)}", f"bad = {custom('g', BUFFER, 'b', ALIAS)}"),
        "c writes the buffer b already",
    ),
    "a buffer that goes nowhere": (module(PIN, f"bad = {custom('g', 'f32[8]', 'b')}"), "not of 0"),
    "a buffer from nowhere": (module(f"bad = {custom('g', BUFFER, '')}"), "not of 0"),
    "a copy of a buffer": (module(PIN, f"bad = {BUFFER} copy(b)"), "neither takes nor yields buffers"),
    "floats compared as integers": (
        module("bad = pred[8] compare(x, x), direction=LT, type=SIGNED"),
        "type=SIGNED is not for f32[8]",
    ),
    "signed integers compared as unsigned": (
        module("i = s32[8] convert(x)", "bad = pred[8] compare(i, i), direction=LT, type=UNSIGNED"),
        "type=UNSIGNED is not for s32[8]",
    ),
    "a state of another type": (
        module("bad = u64[3] rng-get-and-update-state(), delta=1"),
        "yields u64[2]",
    ),
}
"""Modules that XLA's verifier refuses at `bad`, and words of our message."""


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_is_refused(what: str):
    text, words = REFUSED[what]
    refuse(text, "bad", words)


ACCEPTED = {
    "composite": composite('composite.name="n",composite.attributes="{}",composite.version=" +1 "'),
    "uneven groups of all-reduce": collective("f32[8] all-reduce(x), replica_groups={{0},{1,2}}, to_apply=add"),
    "a start that rounds": module(
        "s = f16[8] all-reduce-start(x), replica_groups={}, to_apply=add",
        "d = f16[8] all-reduce-done(s)",
        computations=ADD,
    ),
    "a permutation's start with any context": module(
        "s = (f32[8], f32[8], s32[3], f16[]) collective-permute-start(x), source_target_pairs={{0,1}}",
        "d = f32[8] collective-permute-done(s)",
    ),
    "a chain of updates": asynchronous(
        f"u = {STATE} async-update(s)", f"v = {STATE} async-update(u)", "d = f32[8] async-done(v)"
    ),
    "one source per slice": module(
        "i = s32[] constant(0)",
        "o = (s32[]) tuple(i)",
        "q = ((s32[]), (s32[])) tuple(o, o)",
        "r = f32[8] collective-permute(x, x, q, q), source_target_pairs={{0,1},{0,2}}, slice_sizes={{4},{4}}",
    ),
    "one sharding written in two ways": module(
        "w = f32[8] while(x), condition=never, body=f, sharding={devices=[2]<=[2]}",
        computations=NEVER + NEGATE.replace("parameter(0)", "parameter(0), sharding={devices=[2]0,1}"),
    ),
    "one sharding for all leaves": sharded("{devices=[2]0,1}", "(f32[8], f32[8])", "tuple(x, x)"),
    "an empty tuple's sharding": sharded("{{replicated}}", "()", "tuple()"),
    "a token's sharding": sharded("{{replicated}, {replicated}}", "token[]", "after-all()"),
    "a replicated tiling": sharded("{devices=[1,2]<=[8] last_tile_dim_replicate}"),
    "a manual mesh": sharded("{mesh['a'=2], manual}"),
    "an alias of another type on request": module(
        f'y = {custom("g", "f32[4]", "x", ALIAS)}, frontend_attributes={{xla_skip_custom_call_alias_shape_check="1"}}'
    ),
    "a buffer pinned, written and given back": module(
        PIN, f"c = {custom('g', BUFFER, 'b', ALIAS)}", f"u = {custom('Unpin', 'f32[8]', 'c', ALIAS)}"
    ),
    "a buffer in a tuple": module(PIN, f"c = ({BUFFER}) tuple(b)", f"d = {BUFFER} get-tuple-element(c), index=0"),
    "a buffer updated": module(PIN, "i = s32[] constant(0)", f"c = {BUFFER} dynamic-update-slice(b, x, i)"),
    "a total order": module("y = pred[8] compare(x, x), direction=LT, type=TOTALORDER"),
}
"""Modules that XLA's verifier accepts."""


@pytest.mark.parametrize("what", list(ACCEPTED))
def test_what_is_accepted(what: str):
    accept(ACCEPTED[what])


@pytest.mark.parametrize(
    ("sharding", "problem"),
    [
        ("{devices=[8]<=[8]}", None),
        ("{replicated}", None),
        ("{devices=[1,4]<=[4] last_tile_dim_replicate}", None),
        ("{maximal device=7}", None),
        ("{devices=[2]<=[2]}", "for 2 devices, and the module has 8"),
        ("{devices=[2]7,8}", "names device 8"),
        ("{maximal device=8}", "not in 0 to 7"),
        ("{mesh['a'=16], [{'a'}]}", "for 16 devices"),
    ],
)
def test_devices_are_those_of_the_header(sharding: str, problem: str | None):
    parsed = parse(module(f"bad = f32[8] negate(x), sharding={sharding}", header=", num_partitions=8"))
    if problem is None:
        assert verify(parsed).level is Level.HLO
    else:
        with pytest.raises(VerifyError, match=problem):
            verify(parsed)


def test_a_host_computation_may_be_of_any_size():
    """XLA of August 2026 accepts it; jaxlib 0.10.2 wants one instruction on every thread."""
    host = computation("n = f32[8] negate(p)", "ROOT q = f32[8] negate(n)", thread=', execution_thread="host"')
    start = f's = {STATE} async-start(x), async_execution_thread="host", calls=f'
    assert verify(parse(module(start, "d = f32[8] async-done(s)", computations=host))).level is Level.HLO


def refuse(text: str, node: str, words: str) -> None:
    """`verify` refuses a text at a node, in these words, and XLA's verifier refuses it too."""
    with pytest.raises(VerifyError) as caught:
        verify(parse(text))
    assert f"node {node}: " in caught.value.message and words in caught.value.message
    assert complaint(text)


def accept(text: str) -> None:
    """Both accept a text."""
    assert verify(parse(text)).level is Level.HLO
    assert complaint(text) == ""
