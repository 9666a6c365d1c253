"""What grad, value_and_grad, vjp and jvp take and yield."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.autodiff.rules.indexing import is_same_value
from hloom.autodiff.transform import drop_unused_collectives
from hloom.ir import Trait
from hloom.text import HloomError

from .check import entry, module, run

SQUARE = entry("x = f64[3] parameter(0) y = f64[3] parameter(1) p = f64[3] multiply(x, y) "
               "z = f64[] constant(0) ROOT r = f64[] reduce(p, z), dimensions={0}, to_apply=add_f64")  # fmt: skip
X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])


def test_grad_is_of_every_floating_point_parameter():
    of_x, of_y = run(hloom.grad(SQUARE), [X, Y])
    np.testing.assert_array_equal(of_x, Y)
    np.testing.assert_array_equal(of_y, X)


@pytest.mark.parametrize("wrt", [1, "y", ["y"], [1], "%y"])
def test_wrt_names_parameters(wrt):
    (of_y,) = run(hloom.grad(SQUARE, wrt), [X, Y])
    np.testing.assert_array_equal(of_y, X)


def test_gradients_come_in_the_order_of_wrt():
    of_y, of_x = run(hloom.grad(SQUARE, ["y", "x"]), [X, Y])
    np.testing.assert_array_equal(of_x, Y)
    np.testing.assert_array_equal(of_y, X)


def test_value_and_grad_yields_the_value_first():
    value, of_x, _ = run(hloom.value_and_grad(SQUARE), [X, Y])
    assert value == 32
    np.testing.assert_array_equal(of_x, Y)


def test_jvp_yields_results_and_tangents():
    value, tangent = run(hloom.jvp(SQUARE, "x"), [X, Y, np.ones(3)])
    assert (value, tangent) == (32, 15)


def test_vjp_takes_a_cotangent_for_each_floating_point_result():
    both = entry("x = f64[] parameter(0) s = f64[] sine(x) n = s32[] constant(7) c = f64[] cosine(x) "
                 "ROOT t = (f64[], s32[], f64[]) tuple(s, n, c)")  # fmt: skip
    (result,) = run(hloom.vjp(both), [np.array(0.5), np.array(2.0), np.array(3.0)])
    assert result == pytest.approx(2 * np.cos(0.5) - 3 * np.sin(0.5))


def test_the_gradient_of_what_does_not_reach_the_result_is_zero():
    unused = entry("x = f64[2] parameter(0) y = f64[] parameter(1) ROOT r = f64[] negate(y)")
    of_x, of_y = run(hloom.grad(unused), [np.ones(2), np.array(1.0)])
    np.testing.assert_array_equal(of_x, [0, 0])
    assert of_y == -1


def test_stop_cuts_the_gradient():
    chain = entry("x = f64[] parameter(0) s = f64[] sine(x) ROOT r = f64[] multiply(s, x)")
    (result,) = run(hloom.grad(chain, stop=["s"]), [np.array(0.5)])
    assert result == pytest.approx(np.sin(0.5))


def test_of_chooses_a_result():
    both = entry("x = f64[] parameter(0) s = f64[] sine(x) c = f64[] cosine(x) ROOT t = (f64[], f64[]) tuple(s, c)")
    (result,) = run(hloom.grad(both, of=1), [np.array(0.5)])
    assert result == pytest.approx(-np.sin(0.5))


def test_third_order():
    power = entry("x = f64[] parameter(0) y = f64[] multiply(x, x) z = f64[] multiply(y, y) ROOT r = f64[] negate(z)")
    (result,) = run(hloom.grad(hloom.grad(hloom.grad(power))), [np.array(2.0)])
    assert result == -48


def test_nothing_is_computed_that_is_not_read():
    text = hloom.print(hloom.grad(entry("x = f64[] parameter(0) y = f64[] parameter(1) e = f64[] exponential(y) "
                                        "ROOT r = f64[] multiply(x, e)"), "x"), "short")  # fmt: skip
    assert "add" not in text
    assert text.count("exponential") == 1


def test_donations_become_buffer_donors():
    donated = hloom.parse(
        "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f64[])->f64[]}\n"
        "ENTRY e { x = f64[] parameter(0) ROOT r = f64[] negate(x) }"
    )
    header = hloom.print(hloom.vjp(donated)).splitlines()[0]
    assert "buffer_donor={ (0, {}) }" in header
    assert "entry_computation_layout={(f64[], f64[])->(f64[])}" in header
    assert hloom.verify(hloom.vjp(donated)).level is hloom.Level.HLO


MIXED = entry("x = f64[2] parameter(0) n = s32[] parameter(1) ROOT r = f64[2] negate(x)")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wrt": "n"}, r"parameter 1 \(n\) is s32\[\]: it has no derivative"),
        ({"wrt": "w"}, "computation e has no parameter 'w'"),
        ({"wrt": 5}, "wrt=5, but computation e has 2 parameters"),
        ({"wrt": []}, "wrt= names no parameter"),
        ({"of": 3}, "of=3, but module m has 1 results"),
        ({}, r"result 0 is f64\[2\], and a gradient is of a real scalar"),
        ({"stop": ["q"]}, "module m has no instruction to stop at: 'q'"),
        ({"checkpoints": 0}, "checkpoints=0 must be at least 1"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(HloomError, match=message):
        hloom.grad(MIXED, **options)


def test_an_opcode_without_a_rule_is_refused_where_it_is_active():
    dims = module("ENTRY e { x = f64[4] parameter(0) n = s32[] parameter(1) "
                  "d = f64[<=4] set-dimension-size(x, n), dimensions={0} z = f64[] constant(0) "
                  "ROOT r = f64[] reduce(d, z), dimensions={0}, to_apply=add_f64 }")  # fmt: skip
    with pytest.raises(HloomError, match="e: d: set-dimension-size cannot be differentiated"):
        hloom.grad(dims)


def test_a_custom_call_without_a_rule_is_named():
    call = entry('x = f64[] parameter(0) ROOT r = f64[] custom-call(x), custom_call_target="mystery"')
    with pytest.raises(HloomError, match="the custom call 'mystery' has no derivative"):
        hloom.grad(call)


def test_an_error_says_where_the_instruction_stands(tmp_path):
    path = tmp_path / "program.hlo"
    path.write_text('HloModule m\n\nENTRY e {\n  x = f64[2] parameter(0)\n  ROOT c = f64[2] custom-call(x), custom_call_target="mine"\n}\n')
    with pytest.raises(hloom.HloomError, match=r"program\.hlo:5:8: .*the custom call 'mine' has no derivative") as caught:
        hloom.vjp(path)
    assert "custom_call_target" in str(caught.value)


def test_calls_nested_to_any_depth():
    """sin(x) x^n, by a chain of calls."""
    depth = 400
    lines = ["f0 { a = f64[] parameter(0) ROOT r = f64[] sine(a) }"]
    lines += [f"f{n} {{ a = f64[] parameter(0) c = f64[] call(a), to_apply=f{n - 1} ROOT r = f64[] multiply(c, a) }}"
              for n in range(1, depth)]  # fmt: skip
    program = module("\n".join([*lines, f"ENTRY e {{ x = f64[] parameter(0) ROOT r = f64[] call(x), to_apply=f{depth - 1} }}"]))
    gradient = hloom.grad(program)
    assert gradient.node_count < 10 * depth
    (slope,) = run(gradient, [np.array(0.9)])
    n = depth - 1
    np.testing.assert_allclose(slope, np.cos(0.9) * 0.9**n + n * np.sin(0.9) * 0.9 ** (n - 1))


def test_an_error_in_a_text_shows_the_line():
    text = '''HloModule m
f {
  a = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(a), custom_call_target="mine"
}
ENTRY e { b = f32[4] parameter(0) ROOT y = f32[4] call(b), to_apply=f }'''
    with pytest.raises(hloom.HloomError, match=r"<text>:4:8: .*the custom call 'mine' has no derivative"):
        hloom.vjp(hloom.parse(text))


def test_control_predecessors_of_the_program_before_are_left_out():
    module = hloom.parse(
        """ENTRY e {
        x = f32[2] parameter(0)
        first = f32[2] sine(x)
        second = f32[2] tanh(first), control-predecessors={x}
        ROOT all = (f32[2]) tuple(second), control-predecessors={x, first}
        }"""
    )
    assert not hloom.verify(hloom.vjp(module)).unresolved


def test_control_predecessors_inside_loops_stay_in_their_computation():
    module = hloom.parse(
        """HloModule m
        body { s = (f32[2], s32[]) parameter(0) x = f32[2] get-tuple-element(s), index=0 i = s32[] get-tuple-element(s), index=1
          a = f32[2] sine(x) b = f32[2] copy(a) c = f32[2] tanh(a), control-predecessors={b}
          d = f32[2] multiply(b, c), control-predecessors={a} k = s32[] constant(1) j = s32[] add(i, k)
          ROOT r = (f32[2], s32[]) tuple(d, j) }
        cond { s = (f32[2], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1 n = s32[] constant(5)
          ROOT p = pred[] compare(i, n), direction=LT }
        ENTRY e { x = f32[2] parameter(0) z = s32[] constant(0) t = (f32[2], s32[]) tuple(x, z)
          w = (f32[2], s32[]) while(t), condition=cond, body=body ROOT y = f32[2] get-tuple-element(w), index=0 }"""
    )
    for derivative in (hloom.vjp(module), hloom.jvp(module)):
        assert not hloom.verify(derivative).unresolved


SCALED = """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  scale = f32[4] constant({...})
  y = f32[4] OPCODE(x, scale)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(y, zero), dimensions={0}, to_apply=add
}
"""


def test_constants_that_were_left_out_are_refused_where_the_derivative_needs_them():
    with pytest.raises(HloomError) as caught:
        hloom.grad(hloom.parse(SCALED.replace("OPCODE", "multiply")))
    assert str(caught.value).startswith(
        "<text>:9:3: scale: the derivative needs this constant, whose data were left out of the text, as {...}\n"
        "    scale = f32[4] constant({...})\n    ^"
    )
    hloom.verify(hloom.grad(hloom.parse(SCALED.replace("OPCODE", "add"))))


def test_expressions_of_any_op_without_effects_are_compared():
    """Values that the same instructions make of the same operands are one, whatever the opcode."""
    text = "x = f32[4] parameter(0) {} ROOT r = (f32[4], f32[4]) tuple(b1, b2)"
    for opcode in ("sine", "sinh", "xor", "reverse"):
        suffix = ", dimensions={0}" if opcode == "reverse" else ""
        element = "u32" if opcode == "xor" else "f32"
        operands = "x, x" if opcode == "xor" else "x"
        lines = " ".join(f"b{number} = f32[4] {opcode}({operands}){suffix}" for number in (1, 2))
        made = entry(text.format(lines).replace("f32", element))
        assert is_same_value(*made.entry.root.operands)


def test_unused_collectives_of_every_kind_are_dropped():
    program = entry(
        "x = f32[4] parameter(0) o = f32[4] parameter(1) i = s32[2] parameter(2) "
        "a = f32[4] ragged-all-to-all(x, o, i, i, i, i), replica_groups={{0,1}} "
        "s = f32[4] all-reduce-start(x), replica_groups={{0,1}}, to_apply=add_f32 d = f32[4] all-reduce-done(s) "
        "ROOT r = f32[4] negate(x)"
    )
    while drop_unused_collectives(program):
        pass
    assert [node.opcode for node in program.entry.nodes if node.has_trait(Trait.COLLECTIVE)] == []


def test_a_long_call_is_differentiated_in_place_where_a_select_discards_what_is_computed_of_its_result():
    """The derivative of sqrt is infinite at 0, where the select takes the other side: an infinity times 0 were NaN."""
    steps = "\n".join(f"v{number} = f32[2] negate(v{number - 1})" for number in range(1, 81))
    callee = f"root {{ x = f32[2] parameter(0)\nv0 = f32[2] copy(x)\n{steps}\nROOT r = f32[2] sqrt(v80) }}"
    text = f"""
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
    {callee}
    ENTRY e {{
      x = f32[2] parameter(0)
      a = f32[2] call(x), to_apply=root
      b = f32[2] exponential(a)
      other = f32[2] call(b), to_apply=root
      zero = f32[] constant(0)
      zeros = f32[2] broadcast(zero), dimensions={{}}
      p = pred[2] compare(x, zeros), direction=GT
      s = f32[2] select(p, b, zeros)
      both = f32[2] add(s, other)
      ROOT r = f32[] reduce(s, zero), dimensions={{0}}, to_apply=add
    }}
    """
    (gradient,) = hloom.evaluate(hloom.grad(hloom.parse(text)), [np.array([0.0, 1.0], np.float32)])
    np.testing.assert_allclose(gradient, [0, np.e / 2], rtol=1e-6)
