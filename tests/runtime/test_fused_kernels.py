"""Fusions run as the kernels that XLA's CPU compiler makes of them, and not as the calls that `run` makes of them."""

import hloom
from hloom.runtime import check_kernels

IN_PLACE = """
shifted { p = f32[8] parameter(0) z = s32[] constant(0) two = s32[] constant(2)
  d = f32[4] dynamic-slice(p, z), dynamic_slice_sizes={4} ROOT u = f32[8] dynamic-update-slice(p, d, two) }
both { a = f32[8] parameter(0) b = f32[8] negate(a) c = f32[8] tanh(b) ROOT t = (f32[8], f32[8]) tuple(b, c) }
ENTRY e { p = f32[8] parameter(0) k = (f32[8], f32[8]) fusion(p), kind=kLoop, calls=both
  g = f32[8] get-tuple-element(k), index=0 ROOT f = f32[8] fusion(g), kind=kLoop, calls=shifted }
"""


def test_an_update_in_place_of_what_is_read_differs():
    """What the slice reads has been overwritten: XLA gives the result the buffer of the updated array."""
    module = hloom.parse(IN_PLACE)
    result = check_kernels(module)
    assert (result.agreeing, [name for name, _ in result.differing], result.skipped) == (("k",), ["f"], ())
    assert "f32[8]" in result.differing[0][1].reason
    assert list(result.to_json()["differing"]) == ["f"]
    assert check_kernels(module, known=module.clone()).count == 0


def test_layouts_and_operands_that_are_read_twice():
    module = hloom.parse("""
    mixed { a = f32[3,4]{0,1} parameter(0) b = f32[3,4]{1,0} parameter(1) c = f32[3,4]{1,0} copy(a)
      ROOT d = f32[3,4]{1,0} add(b, c) }
    ENTRY e { p = f32[3,4]{0,1} parameter(0) q = f32[3,4]{1,0} parameter(1)
      ROOT f = f32[3,4]{1,0} fusion(p, q), kind=kLoop, calls=mixed }""")
    assert check_kernels(module).agreeing == ("f",)


def test_fusions_that_the_cpu_has_no_kernels_for_are_skipped():
    text = """
    product {{ a = f32[4,4] parameter(0) d = f32[4,4] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      ROOT s = f32[4,4] add(d, a) }}
    ENTRY e {{ p = f32[4,4] parameter(0) ROOT f = f32[4,4] fusion(p), kind={}, calls=product }}"""
    for fusion_kind in ("kOutput", "kCustom", "kLoop"):  # the last holds a dot, of which no loop is emitted
        result = check_kernels(hloom.parse(text.format(fusion_kind)))
        assert (result.agreeing, result.differing, result.skipped) == ((), (), ("f",))
        assert "no such kernels" in result.reason


def test_a_module_without_fusions():
    assert check_kernels(hloom.parse("ENTRY e { x = f32[] parameter(0) ROOT y = f32[] negate(x) }")).count == 0


def test_what_xla_refuses_is_found_among_the_others():
    """A scatter that is not in the form that XLA's CPU compiler makes first."""
    module = hloom.parse("""
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    negated { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }
    doubled { a = f32[4] parameter(0) ROOT b = f32[4] add(a, a) }
    added { p = f32[4] parameter(0) k = s32[4,1] parameter(1) u = f32[4] parameter(2)
      ROOT s = f32[4] scatter(p, k, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
        index_vector_dim=1, to_apply=add }
    ENTRY e { p = f32[4] parameter(0) k = s32[4,1] parameter(1) n = f32[4] fusion(p), kind=kLoop, calls=negated
      s = f32[4] fusion(p, k, n), kind=kLoop, calls=added ROOT d = f32[4] fusion(s), kind=kLoop, calls=doubled }""")
    result = check_kernels(module)
    assert (set(result.agreeing), result.differing, result.skipped) == ({"n", "d"}, (), ("s",))
    assert "scatter" in result.reason
