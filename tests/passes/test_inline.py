"""The passes `inline` and `inline-fusions`: before and after."""

import pytest

import hloom
from hloom.formats.hlo import parse, to_text
from hloom.ir import verify
from hloom.passes import PASSES, PassLike, apply, apply_in_place
from hloom.text import HloomError
from tests.helpers.work import calls, growth
from tests.passes.rule_assertions import module_of

PARTS = ("async-start", "async-update", "async-done")
CALLED = """
inner {{ a = f32[] parameter(0)  ROOT b = f32[] sine(a) }}
outer {{ a = f32[] parameter(0)  c = f32[] call(a), to_apply=inner  ROOT d = f32[] call(c), to_apply=inner }}
ENTRY e {{ x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=outer{more} }}
"""


def inlined(text: str, what: PassLike = "inline"):
    result, report = apply(module_of(text), what)
    verify(result)
    return result, report.passes[0]


def test_calls_of_calls_are_put_in_place():
    result, report = inlined(CALLED.format(more=""))
    wanted = module_of("x = f32[] parameter(0)\n a = f32[] sine(x)\n ROOT b = f32[] sine(a)")
    result.name = wanted.name
    assert hloom.difference(result, wanted) is None
    assert report.changes == 3


def test_calls_that_ask_to_stay_do():
    for more in (
        ', frontend_attributes={inlineable="false"}',
        ', frontend_attributes={inlineable="xla_late"}',
        ', frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\\"x\\"}>"}',
        ', backend_config={"a":1}',
        ", control-predecessors={x}",
    ):
        result, report = inlined(CALLED.format(more=more))
        assert result.entry.root.opcode == "call"
        assert report.changes == 2


def test_metadata_stays():
    result, _ = inlined(CALLED.format(more="").replace("sine(a)", 'sine(a), metadata={op_name="s"}'))
    assert [node.raw_metadata for node in result.entry.nodes] == [None, 'op_name="s"', 'op_name="s"']


def test_a_sharding_of_the_call_stays_with_its_value():
    result, _ = inlined(CALLED.format(more=", sharding={replicated}"))
    assert str(result.entry.root.attributes["sharding"]) == "{replicated}"


def test_a_called_identity_is_its_operand():
    text = """
    f { ROOT a = f32[] parameter(0) }
    ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=f, sharding={replicated} }
    """
    result, _ = inlined(text)
    assert result.entry.root.name == "x" and not result.entry.root.attributes


def test_what_only_a_fragment_names_stays():
    result, report = inlined("x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=nowhere")
    assert result.entry.root.opcode == "call"
    assert report.notes == ["1 calls stay: the computation is not defined"]


DOUBLED = "\n".join([
    "f0 { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }",
    *(f"f{n} {{ a = f32[] parameter(0)  b = f32[] call(a), to_apply=f{n - 1}  ROOT c = f32[] call(b), to_apply=f{n - 1} }}"
      for n in range(1, 40)),
    "ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=f39 }",
])  # fmt: skip


def test_calls_that_multiply_without_end_stop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(PASSES, "inline", PASSES["inline"].with_options(limit=1000))
    result, report = inlined(DOUBLED)
    assert result.node_count < 4_000
    assert report.notes[-1].endswith("the computation has more than 1,000 instructions (limit= allows more)")


def test_what_stays_at_the_limit_stays_in_a_second_run():
    result, report = inlined(DOUBLED, PASSES["inline"].with_options(limit=100))
    assert report.changes and result.node_count < 1_000
    assert not apply_in_place(result, PASSES["inline"].with_options(limit=100)).changed


def test_a_computation_that_is_called_once_is_inlined_whatever_its_size():
    text = "f { a = f32[] parameter(0)  b = f32[] sine(a)  ROOT c = f32[] cosine(b) }\n"
    module = parse(text + "ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=f }")
    assert apply_in_place(module, PASSES["inline"].with_options(limit=0)).changed
    assert [node.opcode for node in module.entry.nodes] == ["parameter", "sine", "cosine"]


def test_copies_of_asynchronous_operations_have_computations_of_their_own():
    text = """
    wrapped { a = f32[4] parameter(0)  ROOT b = f32[4] sine(a) }
    f { x = f32[4] parameter(0)  s = ((f32[4]), f32[4], s32[]) async-start(x), calls=wrapped
        u = ((f32[4]), f32[4], s32[]) async-update(s), calls=wrapped  ROOT d = f32[4] async-done(u), calls=wrapped }
    ENTRY e { x = f32[4] parameter(0)  a = f32[4] call(x), to_apply=f  ROOT b = f32[4] call(a), to_apply=f }
    """
    module = parse(text)
    apply_in_place(module, "inline")
    parse(to_text(module), strict=True)
    runs = [[node.attributes["calls"].name for node in module.entry.nodes if node.opcode == opcode] for opcode in PARTS]
    assert runs[0] == runs[1] == runs[2] and len(set(runs[0])) == 2


@pytest.mark.parametrize("what", ["inline(limit=some)", "inline(limit=-1)", "inline-fusions(limit=1e3)"])
def test_a_limit_that_is_no_number(what: str):
    with pytest.raises(HloomError, match="limit is a number of instructions, not "):
        inlined(DOUBLED, what)


def test_fusions():
    text = """
    f { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }
    g { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }
    ENTRY e { x = f32[] parameter(0)  p = f32[] fusion(x), kind=kLoop, calls=f
      ROOT r = f32[] fusion(p), kind=kCustom, calls=g }
    """
    result, _ = inlined(text, "inline-fusions")
    assert [node.opcode for node in result.entry.nodes] == ["parameter", "sine", "fusion"]
    assert inlined(text)[1].changes == 0


def nested(depth: int) -> str:
    """Calls in calls, each computation with an instruction of its own before and after."""
    bodies = ["f0 { ROOT p = f32[] parameter(0) }"]
    bodies += [
        f"f{n} {{ p = f32[] parameter(0)  a = f32[] sine(p)  b = f32[] call(a), to_apply=f{n - 1}  ROOT c = f32[] add(b, p) }}"
        for n in range(1, depth)
    ]
    return "\n".join([*bodies, f"ENTRY e {{ p = f32[] parameter(0)  ROOT r = f32[] call(p), to_apply=f{depth - 1} }}"])


def test_nested_calls_take_work_that_grows_with_their_number():
    def work(depth: int) -> int:
        module = hloom.parse(nested(depth))
        count = calls(lambda: apply_in_place(module, "inline"))
        assert len(module.graphs) == 1 and module.node_count == 2 * depth - 1
        return count

    assert growth(work, 50) < 1.1


def test_what_is_called_elsewhere_is_inlined_there_too():
    module, _ = inlined("""
        leaf { p = s32[] parameter(0)  ROOT n = s32[] negate(p) }
        middle { p = s32[] parameter(0)  ROOT c = s32[] call(p), to_apply=leaf }
        cond { p = s32[] parameter(0)  z = s32[] constant(0)  c = s32[] call(p), to_apply=middle  ROOT t = pred[] compare(c, z), direction=LT }
        ENTRY e { p = s32[] parameter(0)  a = s32[] call(p), to_apply=middle  ROOT w = s32[] while(a), condition=cond, body=middle }
    """)
    assert [graph.name for graph in module.graphs] == ["middle", "cond", "e"]
    assert not any(node.opcode == "call" for node in module.nodes())


def test_only_what_is_called_once_on_demand():
    """Restates call_inliner_test.cc: what is called twice stays called, and nothing is copied."""
    result, report = inlined(CALLED.format(more=""), "inline(once=1)")
    wanted = hloom.parse("""
    inner { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }
    ENTRY e { x = f32[] parameter(0)  c = f32[] call(x), to_apply=inner  ROOT d = f32[] call(c), to_apply=inner }
    """)
    result.name = wanted.name
    assert hloom.difference(result, wanted) is None and report.changes == 1
    assert not apply(result, "inline(once=1)")[1].changed
    with pytest.raises(HloomError, match="inline: once is 0 or 1, not 'twice'"):
        inlined(CALLED.format(more=""), "inline(once=twice)")


MANUAL = """
HloModule m{header}
{name} {{ x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }}
ENTRY e {{ x = f32[4] parameter(0) ROOT r = f32[4] call(x), to_apply={name} }}
"""
SHARDY = ", frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2]>}}"


@pytest.mark.parametrize(
    ("name", "header", "opcode"),
    [
        ("xla.sdy.manual_computation_body.3", "", "call"),
        ("xla.sdy.inlinable_manual_computation_body", "", "negate"),
        ("shmap_body.2", "", "negate"),
        ("shmap_body.2", SHARDY, "call"),
        ("f", SHARDY, "negate"),
    ],
)
def test_bodies_of_manual_computations_stay_for_shardy(name: str, header: str, opcode: str):
    """As InlineUnderShardy in XLA's call_inliner.cc: Shardy takes them for what a shard computes."""
    result, _ = inlined(MANUAL.format(name=name, header=header))
    assert result.entry.root.opcode == opcode


def test_what_says_that_it_may_go_goes():
    result, _ = inlined(CALLED.format(more=', frontend_attributes={inlineable="true"}'))
    assert "call" not in [node.opcode for node in result.nodes()]
