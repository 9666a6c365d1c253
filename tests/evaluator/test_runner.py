"""What evaluating takes, yields and refuses, apart from single opcodes.

Covers `inputs.py`.
"""

import weakref

import numpy as np
import pytest

from hloom.evaluator import TABLE, CannotEvaluate, LimitReached, evaluate, evaluate_graph, evaluate_node
from hloom.evaluator.table import evaluator
from hloom.formats.hlo import parse
from hloom.ops import OPS
from hloom.text import HloomError

PAIR = parse("""ENTRY e {
  pair = (f32[2], (s32[], token[])) parameter(0)
  x = f32[2] parameter(1)
  a = f32[2] get-tuple-element(pair), index=0
  rest = (s32[], token[]) get-tuple-element(pair), index=1
  ROOT all = (f32[2], (s32[], token[])) tuple(a, rest)
}""")
A, X = np.array([1, 2], np.float32), np.array([3, 4], np.float32)


def test_every_opcode_has_a_row():
    assert set(OPS) - set(TABLE) == set()
    assert {opcode for opcode in TABLE if "." not in opcode} - set(OPS) == set()  # dialects' ops have a dot


def test_a_second_row_is_refused():
    with pytest.raises(ValueError, match="reshape has an evaluator already"):
        evaluator("reshape")(lambda node, operands, run: operands[0])


def test_tuples_are_flat_outside_and_tokens_left_out():
    outputs = evaluate(PAIR, [A, np.int32(7), X])
    assert [output.tolist() for output in outputs] == [[1, 2], 7]
    by_name = evaluate(PAIR, {"x": X, "pair.1.0": np.int32(7), "pair.0": A})
    assert [output.tolist() for output in by_name] == [[1, 2], 7]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([A], "the program takes 3 arrays, 1 are given"),
        ([A, X, X], "input pair.1.0 is f32[2], the program takes s32[]"),
        ([A, np.int32(7), np.array([1], np.float32)], "input x is f32[1], the program takes f32[2]"),
        ([A, np.int32(7), np.array(["a", "b"])], "input x is a numpy array of <U1, the program takes f32[2]"),
        ({"x": X, "pair.0": A, "q": A}, "the program has no parameter 'q'"),
        ({"x": X, "pair.0": A}, "no input is given for pair.1.0"),
        ({"x": X, "2": A, "pair.0": A}, "two inputs are given for x"),
    ],
)
def test_inputs_must_fit(inputs, message):
    with pytest.raises(HloomError) as caught:
        evaluate(PAIR, inputs)
    assert caught.value.message == message


def test_graphs_and_nodes_alone():
    module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }")
    assert evaluate_graph(module.entry, [A]).tolist() == [2, 4]  # type: ignore
    assert evaluate_node(module.entry.root, [A, X]).tolist() == [4, 6]  # type: ignore


def test_a_wrong_type_is_noticed():
    module = parse("ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] transpose(x), dimensions={1,0} }")
    with pytest.raises(CannotEvaluate, match=r"y: transpose gives float32\[3, 2\], but its type is f32\[2,3\]"):
        evaluate(module, [np.zeros((2, 3), np.float32)])


def test_what_numpy_refuses_names_the_instruction():
    module = parse("ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[7] reshape(x) }")
    with pytest.raises(
        CannotEvaluate,
        match=r"y: cannot evaluate reshape: operands float32\[2, 3\] and its attributes do not go together",
    ):
        evaluate(module, [np.zeros((2, 3), np.float32)])


def test_elided_constants_are_refused():
    module = parse("ENTRY e { ROOT c = f32[100] constant({...}) }")
    with pytest.raises(HloomError, match=r"c: the data of this f32\[100\] constant were left out of the text"):
        evaluate(module)


def test_what_is_not_needed_is_not_evaluated():
    module = parse("""ENTRY e {
      x = f32[2] parameter(0)
      c = f32[100] constant({...})
      unused = f32[2] custom-call(x, c), custom_call_target="f"
      ROOT y = f32[2] add(x, x)
    }""")
    assert evaluate(module, [A])[0].tolist() == [2, 4]


def test_what_the_world_would_notice_is_refused_though_unused():
    module = parse("""ENTRY e {
      x = f32[2] parameter(0)
      t = token[] after-all()
      out = token[] outfeed(x, t), outfeed_shape=f32[2]
      ROOT y = f32[2] add(x, x)
    }""")
    with pytest.raises(CannotEvaluate, match="out: cannot evaluate outfeed: nothing takes it"):
        evaluate(module, [A])


def test_missing_names_are_refused():
    module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] add(x, nowhere) }")
    with pytest.raises(CannotEvaluate, match="graph e uses nowhere, which it does not define"):
        evaluate(module, [A])
    called = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=nowhere }")
    with pytest.raises(CannotEvaluate, match="graph nowhere is called, but not defined"):
        evaluate(called, [A])


def chain(count: int) -> str:
    graphs = ["g0 { x = f32[2] parameter(0) ROOT y = f32[2] add(x, x) }"]
    graphs += [
        f"g{k} {{ x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=g{k - 1} }}" for k in range(1, count)
    ]
    return "\n".join(graphs) + f"\nENTRY e {{ x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=g{count - 1} }}"


def test_calls_may_nest_to_any_depth():
    assert evaluate(parse(chain(5_000)), [A])[0].tolist() == [2, 4]


def test_mapped_calls_may_nest_to_any_depth():
    graphs = ["g0 { x = f32[] parameter(0) ROOT y = f32[] add(x, x) }"]
    graphs += [f"g{k} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=g{k - 1} }}" for k in range(1, 3_000)]
    entry = "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] map(x), dimensions={0}, to_apply=g2999 }"
    assert evaluate(parse("\n".join([*graphs, entry])), [A])[0].tolist() == [2, 4]


def test_recursion_ends():
    module = parse(chain(2))
    graph = module["g1"]
    graph.set_attributes(graph.root, graph.root.attributes.changed(to_apply=graph))
    with pytest.raises(HloomError, match="graph g1 calls itself, 100 deep: HLO has no recursion"):
        evaluate(module, [A])


def test_an_error_deep_inside_names_its_instruction():
    text = chain(300).replace("add(x, x)", 'custom-call(x), custom_call_target="none"')
    with pytest.raises(CannotEvaluate, match=r"^y: cannot evaluate custom-call"):
        evaluate(parse(text), [A])


def test_a_limit_of_elements():
    wide = parse("ENTRY e { x = f32[] parameter(0) ROOT y = f32[1000000000000] broadcast(x), dimensions={} }")
    with pytest.raises(LimitReached, match="y: more than 1000 elements would be computed"):
        evaluate(wide, [np.float32(1)], limit=1000)
    loop = parse("""
      always { x = f32[] parameter(0) ROOT t = pred[] constant(true) }
      step { x = f32[] parameter(0) ROOT y = f32[] add(x, x) }
      ENTRY e { x = f32[] parameter(0) ROOT y = f32[] while(x), condition=always, body=step }
    """)
    with pytest.raises(LimitReached, match="more than 1000 elements"):
        evaluate(loop, [np.float32(1)], limit=1000)


def test_long_chains_need_no_stack_and_little_memory():
    lines = "\n".join(f"x{k + 1} = f32[1000] add(x{k}, x{k})" for k in range(5000))
    module = parse(f"ENTRY e {{ x0 = f32[1000] parameter(0)\n{lines}\nROOT y = f32[1000] copy(x5000) }}")
    assert evaluate(module, [np.zeros(1000, np.float32)])[0].sum() == 0


def test_values_are_forgotten_at_their_last_use(monkeypatch):
    alive: list[weakref.ref] = []
    row = TABLE["negate"]

    def counting(node, operands, run):
        result = np.negative(operands[0])
        alive.append(weakref.ref(result))
        return result

    monkeypatch.setitem(TABLE, "negate", type(row)(counting, is_pointwise=True))
    module = parse(
        "ENTRY e { a = f32[2] parameter(0) b = f32[2] negate(a) c = f32[2] negate(b) ROOT d = f32[2] negate(c) }"
    )
    evaluate(module, [A])
    assert [reference() is None for reference in alive[:2]] == [True, True]
