"""The passes `inline` and `inline-fusions`: before and after."""

from importlib import import_module

import hloom
from hloom.ir import verify
from hloom.passes import apply, apply_in_place
from tests.helpers.work import calls, growth
from tests.passes.rule_assertions import module_of

CALLED = """
inner {{ a = f32[] parameter(0)  ROOT b = f32[] sine(a) }}
outer {{ a = f32[] parameter(0)  c = f32[] call(a), to_apply=inner  ROOT d = f32[] call(c), to_apply=inner }}
ENTRY e {{ x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=outer{more} }}
"""


def inlined(text: str, name: str = "inline"):
    result, report = apply(module_of(text), name)
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


def test_calls_that_multiply_without_end_stop(monkeypatch):
    monkeypatch.setattr(import_module("hloom.passes.inline"), "MAX_NODES", 10_000)
    levels = ["f0 { a = f32[] parameter(0)  ROOT b = f32[] sine(a) }"]
    levels += [
        f"f{n} {{ a = f32[] parameter(0)  b = f32[] call(a), to_apply=f{n - 1}\n ROOT c = f32[] call(b), to_apply=f{n - 1} }}"
        for n in range(1, 40)
    ]
    text = "\n".join(levels) + "\nENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=f39 }"
    result, report = inlined(text)
    assert result.node_count < 20_000
    assert "more than 10,000" in report.notes[-1]


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
