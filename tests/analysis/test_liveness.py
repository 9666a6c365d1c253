"""Which values share a buffer, rule by rule: HLO in, bytes out, worked out by hand.

An array f32[256] takes 1,024 bytes: K below.

Covers `alias_info.py`, `buffers.py`, `heap_simulator.py`, `dataflow.py`.
"""

import pytest

import hloom
from hloom.targets.memory import memory

K = 1024
POINTER = 8
"""The bytes of a tuple's pointer to one element."""
ALIGNED = 64
"""The bytes up to the next buffer's offset that a smaller one takes."""
SCHEDULED = "HloModule m, is_scheduled=true{header}\n{callees}\nENTRY e {{\n{body}\n}}\n"
SUM = "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }"
ADD_ONE = "g { p = f32[256] parameter(0)\n c = f32[256] parameter(1)\n ROOT r = f32[256] add(p, c) }"


def temporaries(body: str, callees: str = "", header: str = "") -> int:
    return report(body, callees, header).temporaries


def report(body: str, callees: str = "", header: str = ""):
    text = SCHEDULED.format(header=header, callees=callees, body=body)
    return memory(hloom.parse(text.replace("K[]", "f32[256]")))


def test_arguments_and_outputs():
    usage = report("x = K[] parameter(0)\n ROOT y = K[] exponential(x)")
    assert (usage.arguments, usage.outputs, usage.aliases, usage.temporaries, usage.peak) == (K, K, 0, 0, 2 * K)


def test_a_tuple_is_a_table_of_pointers():
    body = "x = K[] parameter(0)\n y = K[] sine(x)\n z = K[] cosine(x)\n ROOT t = (K[], K[]) tuple(y, z)"
    usage = report(body)
    assert (usage.outputs, usage.temporaries) == (2 * K + 16, 0)


def test_the_text_decides_what_is_alive_together():
    """Two products alive at once, each read by a dot, which writes over nothing."""
    body = """
        x = f32[16,16] parameter(0)
        a = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        b = f32[16,16] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        c = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        d = f32[16,16] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        z = f32[] constant(0)
        ROOT r = f32[] reduce(d, z), dimensions={0,1}, to_apply=s
    """
    assert temporaries(body, SUM) == 3 * K


def total(operand: str) -> str:
    return f"z = f32[] constant(0)\n ROOT r = f32[] reduce({operand}, z), dimensions={{0}}, to_apply=s"


def test_temporaries_are_in_an_output_before_it_is_written():
    """y is in the output's memory: exponential writes over it."""
    assert temporaries("x = K[] parameter(0)\n y = K[] sine(x)\n ROOT r = K[] exponential(y)") == 0


def test_elementwise_results_take_over_an_operand_that_dies():
    body = f"x = K[] parameter(0)\n a = K[] sine(x)\n b = K[] negate(a)\n c = K[] add(b, x)\n {total('c')}"
    assert temporaries(body, SUM) == K


def test_not_an_operand_that_is_read_later():
    body = f"x = K[] parameter(0)\n a = K[] sine(x)\n b = K[] negate(a)\n c = K[] add(b, a)\n {total('c')}"
    assert temporaries(body, SUM) == 2 * K


def test_not_by_a_copy_or_a_reverse():
    for opcode in ("copy(a)", "reverse(a), dimensions={0}"):
        body = f"x = K[] parameter(0)\n a = K[] sine(x)\n b = K[] {opcode}\n {total('b')}"
        assert temporaries(body, SUM) == 2 * K


def test_not_in_another_type():
    body = f"x = K[] parameter(0)\n a = K[] sine(x)\n b = s32[256] convert(a)\n c = K[] convert(b)\n {total('c')}"
    assert temporaries(body, SUM) == 2 * K


def test_a_bitcast_makes_nothing():
    body = """
        x = f32[16,16] parameter(0)
        a = f32[16,16] transpose(x), dimensions={1,0}
        b = f32[256] bitcast(a)
        ROOT r = f32[256] reverse(b), dimensions={0}
    """
    assert temporaries(body) == K


def test_get_tuple_element_passes_an_element_on():
    body = f"""
        x = K[] parameter(0)
        a = K[] reverse(x), dimensions={{0}}
        t = (K[], K[]) tuple(a, x)
        b = K[] get-tuple-element(t), index=0
        {total("b")}
    """
    assert temporaries(body, SUM) == K + 2 * POINTER


UPDATE = "u = f32[4] slice(x), slice={[0:4]}\n i = s32[] constant(0)\n"


def test_dynamic_update_slice_writes_in_place():
    body = f"""
        x = K[] parameter(0)
        {UPDATE}
        a = K[] reverse(x), dimensions={{0}}
        b = K[] dynamic-update-slice(a, u, i)
        {total("b")}
    """
    assert temporaries(body, SUM) == K + 16


def test_scatter_writes_in_place():
    dims = "scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    body = f"""
        x = K[] parameter(0)
        i = s32[4,1] parameter(1)
        u = f32[4] parameter(2)
        a = K[] reverse(x), dimensions={{0}}
        b = K[] scatter(a, i, u), update_window_dims={{}}, inserted_window_dims={{0}}, {dims}, to_apply=s
        {total("b")}
    """
    assert temporaries(body, SUM) == K


def test_sort_writes_in_place():
    less = "l { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }"
    body = "x = K[] parameter(0)\n a = K[] reverse(x), dimensions={0}\n b = K[] sort(a), dimensions={0}, to_apply=l"
    assert temporaries(f"{body}\n {total('b')}", f"{less}\n{SUM}") == K


FUSED_UPDATE = """f {
  p = f32[256] parameter(0)
  q = f32[4] parameter(1)
  i = s32[] constant(0)
  n = f32[4] negate(q)
  ROOT r = f32[256] dynamic-update-slice(p, n, i)
}"""


def test_a_fusion_that_ends_with_an_update_writes_in_place():
    body = f"""
        x = K[] parameter(0)
        u = f32[4] parameter(1)
        a = K[] reverse(x), dimensions={{0}}
        b = K[] fusion(a, u), kind=kLoop, calls=f
        {total("b")}
    """
    assert temporaries(body, f"{FUSED_UPDATE}\n{SUM}") == K


@pytest.mark.parametrize(("made", "kilobytes"), [("negate(p)", 1), ("reverse(p), dimensions={0}", 2)])
def test_an_elementwise_fusion_takes_over_its_operand(made: str, kilobytes: int):
    fused = f"f {{ p = f32[256] parameter(0)\n n = f32[256] {made}\n ROOT r = f32[256] sine(n) }}"
    body = f"""
        x = K[] parameter(0)
        a = K[] reverse(x), dimensions={{0}}
        b = K[] fusion(a), kind=kLoop, calls=f
        {total("b")}
    """
    assert temporaries(body, f"{fused}\n{SUM}") == kilobytes * K


@pytest.mark.parametrize(
    ("read", "kilobytes"), [("m = f32[256] multiply(p, t)", 2), ("m = f32[256] reverse(p), dimensions={0}", 3)]
)
def test_a_fusion_of_the_library_takes_over_what_it_reads_element_by_element(read: str, kilobytes: int):
    fused = f"""
        f {{
          p = f32[256] parameter(0)
          q = f32[256] parameter(1)
          z = f32[] constant(0)
          s = f32[] reduce(q, z), dimensions={{0}}, to_apply=s
          t = f32[256] broadcast(s), dimensions={{}}
          {read}
          ROOT r = f32[256] add(m, q)
        }}"""
    config = 'backend_config={"fusion_config":{"kind":"__ynn_fusion"}}'
    body = f"""
        x = K[] parameter(0)
        a = K[] reverse(x), dimensions={{0}}
        b = K[] reverse(a), dimensions={{0}}
        c = K[] fusion(a, b), kind=kCustom, calls=f, {config}
        {total("c")}
    """
    assert temporaries(body, f"{SUM}\n{fused}") == kilobytes * K


def test_what_a_fusion_makes_inside_takes_no_memory():
    fused = (
        "f { p = f32[256] parameter(0)\n a = f32[256] sine(p)\n b = f32[256] cosine(p)\n ROOT r = f32[256] add(a, b) }"
    )
    assert temporaries("x = K[] parameter(0)\n ROOT y = K[] fusion(x), kind=kLoop, calls=f", fused) == 0


def test_a_custom_call_writes_where_it_says():
    body = f"""
        x = K[] parameter(0)
        a = K[] reverse(x), dimensions={{0}}
        b = K[] custom-call(a), custom_call_target="f", output_to_operand_aliasing={{{{}}: (0, {{}})}}
        {total("b")}
    """
    assert temporaries(body, SUM) == K


def test_a_custom_call_needs_its_scratch():
    body = """
        x = K[] parameter(0)
        a = (K[], f32[1024]) custom-call(x), custom_call_target="f"
        ROOT y = K[] get-tuple-element(a), index=0
    """
    assert temporaries(body) == 4 * K + 2 * POINTER


LOOP = """
c {{ p = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }}
b {{ p = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[256] get-tuple-element(p), index=1
  y = f32[256] get-tuple-element(p), index=2
  {body}
  ROOT r = (s32[], f32[256], f32[256]) tuple(j, z, y) }}
"""
LOOPED = """
    x = K[] parameter(0)
    y = K[] parameter(1)
    i = s32[] constant(0)
    k = s32[] copy(i)
    a = K[] copy(x)
    t = (s32[], K[], K[]) tuple(k, a, y)
    w = (s32[], K[], K[]) while(t), condition=c, body=b
    ROOT r = K[] get-tuple-element(w), index=1
"""


def test_a_loop_carries_its_state_in_one_buffer():
    """The state is in the output's memory; the element that stays as it is, in the argument's."""
    usage = report(LOOPED, LOOP.format(body="z = f32[256] add(x, y)"))
    assert (usage.outputs, usage.temporaries) == (K, 2 * ALIGNED + 1)


def test_a_body_that_needs_more_takes_more():
    body = "s = f32[256] reverse(y), dimensions={0}\n z = f32[256] add(x, s)"
    assert temporaries(LOOPED, LOOP.format(body=body)) == K + ALIGNED + 4


def test_a_body_may_write_over_its_state():
    """With the product in the state's place once the state is read, nothing more is needed."""
    body = "s = f32[256] add(x, y)\n z = f32[256] multiply(s, y)"
    assert temporaries(LOOPED, LOOP.format(body=body)) == 2 * ALIGNED + 1


def test_a_conditional_takes_what_its_largest_branch_takes():
    branches = """
        f { p = f32[256] parameter(0)\n a = f32[256] reverse(p), dimensions={0}\n b = f32[256] reverse(a), dimensions={0}
          ROOT r = f32[256] reverse(b), dimensions={0} }
        g { p = f32[256] parameter(0)\n ROOT r = f32[256] negate(p) }
    """
    body = """
        x = K[] parameter(0)
        q = pred[] parameter(1)
        y = K[] conditional(q, x, x), true_computation=f, false_computation=g
        ROOT r = K[] copy(y)
    """
    assert temporaries(body, branches) == 2 * K


def test_a_call_hands_its_operands_in_and_its_result_out():
    assert temporaries("x = K[] parameter(0)\n ROOT y = K[] call(x, x), to_apply=g", ADD_ONE) == 0


def test_constants_stand_aside():
    body = "x = K[] parameter(0)\n c = K[] constant({...})\n ROOT y = K[] add(x, c)"
    assert temporaries(body) == 0


def test_a_branch_writes_over_what_the_conditional_is_given():
    """y, the update and x's copy are in one buffer: no branch reads what another has written."""
    callees = """
        g { t = (f32[256], f32[1]) parameter(0)
            p = f32[256] get-tuple-element(t), index=0
            u = f32[1] get-tuple-element(t), index=1
            z = s32[] constant(0)
            ROOT r = f32[256] dynamic-update-slice(p, u, z) }
        h { t = (f32[256], f32[1]) parameter(0)
            ROOT p = f32[256] get-tuple-element(t), index=0 }
        s { a = f32[] parameter(0)
            b = f32[] parameter(1)
            ROOT r = f32[] add(a, b) }
    """
    body = f"""
        x = K[] parameter(0)
        u = f32[1] parameter(1)
        i = s32[] parameter(2)
        n = K[] copy(x)
        t = (K[], f32[1]) tuple(n, u)
        y = K[] conditional(i, t, t), branch_computations={{g, h}}
        {total("y")}
    """
    assert temporaries(body, callees) == K + 2 * POINTER


def test_the_tables_of_two_tuples_share_no_memory():
    callees = "l { s = (f32[256]) parameter(0)\n ROOT x = f32[256] get-tuple-element(s), index=0 }\n" + SUM
    body = f"""
        x = K[] parameter(0)
        a = (K[]) tuple(x)
        y = K[] call(a), to_apply=l
        n = K[] negate(y)
        b = (K[]) tuple(n)
        v = K[] call(b), to_apply=l
        {total("v")}
    """
    assert temporaries(body, callees) == K + ALIGNED + POINTER


DONATED = ", input_output_alias={ {}: (0, {}, may-alias) }"


def test_a_donated_input_holds_its_output():
    usage = report("x = K[] parameter(0)\n ROOT y = K[] sine(x)", header=DONATED)
    assert (usage.arguments, usage.outputs, usage.aliases, usage.peak) == (K, K, K, K)


def test_temporaries_are_in_a_donated_input_once_it_is_read():
    body = """
        x = K[] parameter(0)
        t = f32[1] slice(x), slice={[0:1]}
        s = f32[] bitcast(t)
        b = K[] broadcast(s), dimensions={}
        c = K[] reverse(b), dimensions={0}
        ROOT y = K[] sine(c)
    """
    assert report(body, header=DONATED).peak == 2 * K
    assert report(body).peak == 3 * K


def test_a_donor_takes_the_first_output_of_its_type():
    usage = report("x = K[] parameter(0)\n ROOT y = K[] sine(x)", header=", buffer_donor={ (0, {}) }")
    assert (usage.aliases, usage.peak) == (K, K)


def test_a_donated_input_read_after_its_output_is_written_needs_a_copy():
    body = """
        x = K[] parameter(0)
        y = K[] reverse(x), dimensions={0}
        z = K[] add(x, x)
        ROOT t = (K[], K[]) tuple(y, z)
    """
    usage = report(body, header=", input_output_alias={ {0}: (0, {}, may-alias) }")
    assert usage.peak == 2 * K + 16 + K


def test_asynchronous_copies_make_the_copy_at_their_start():
    body = f"""
        x = K[] parameter(0)
        s = (K[], K[], u32[]) copy-start(x)
        d = K[] copy-done(s)
        {total("d")}
    """
    assert temporaries(body, SUM) == K + 3 * POINTER


def test_an_all_reduce_in_two_parts_works_in_place():
    body = f"""
        x = K[] parameter(0)
        a = K[] reverse(x), dimensions={{0}}
        s = K[] all-reduce-start(a), replica_groups={{}}, to_apply=s
        d = K[] all-reduce-done(s)
        {total("d")}
    """
    assert temporaries(body, SUM) == K


def test_four_bit_elements_are_packed_where_the_layout_says_so():
    body = "x = s4[256]{0:E(4)} parameter(0)\n ROOT y = s4[256]{0:E(4)} negate(x)"
    assert report(body).peak == 2 * 128


def test_graphs_that_call_each_other_are_refused():
    callees = "g { p = f32[256] parameter(0)\n ROOT r = f32[256] call(p), to_apply=h }\n"
    callees += "h { p = f32[256] parameter(0)\n ROOT r = f32[256] call(p), to_apply=g }"
    with pytest.raises(hloom.HloomError, match="in a circle"):
        report("x = K[] parameter(0)\n ROOT y = K[] call(x), to_apply=g", callees)


# Modules that no compiler has scheduled


def estimate(body: str, callees: str = "", schedule: str = "list"):
    text = f"HloModule m\n{callees}\nENTRY e {{\n{body}\n}}\n".replace("K[]", "f32[256]")
    return memory(hloom.parse(text), schedule=schedule)


def test_elementwise_work_is_taken_as_fused():
    body = "x = K[] parameter(0)\n a = K[] sine(x)\n b = K[] cosine(x)\n c = K[] add(a, b)\n ROOT r = K[] negate(c)"
    assert estimate(body).peak == 2 * K


def test_but_expensive_work_is_not_done_twice():
    body = f"x = K[] parameter(0)\n a = K[] tanh(x)\n b = K[] negate(a)\n c = K[] reverse(a), dimensions={{0}}\n {WIDE}"
    assert estimate(body, SUM).temporaries == K


WIDE = "z = f32[] constant(0)\n d = f32[] reduce(b, z), dimensions={0}, to_apply=s\n e = f32[] reduce(c, z), dimensions={0}, to_apply=s\n ROOT t = (f32[], f32[]) tuple(d, e)"


def test_the_schedule_keeps_less_alive_than_the_text():
    """Written breadth first: all products, then all sums; run one after the other, each sum right after its product."""
    made = [f"d{i} = f32[16,16] dot(x, y{i}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}" for i in range(8)]
    given = ["x = f32[16,16] parameter(0)", *(f"y{i} = f32[16,16] parameter({i + 1})" for i in range(8))]
    sums = [f"s{i} = f32[] reduce(d{i}, z), dimensions={{0,1}}, to_apply=s" for i in range(8)]
    root = "ROOT t = (" + ", ".join(["f32[]"] * 8) + ") tuple(" + ", ".join(f"s{i}" for i in range(8)) + ")"
    body = "\n".join([*given, "z = f32[] constant(0)", *made, *sums, root])
    assert estimate(body, SUM, "text").temporaries == 8 * K
    assert estimate(body, SUM, "list").temporaries < 2 * K


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match="no schedule is called 'x'"):
        estimate("ROOT x = K[] parameter(0)", schedule="x")


def test_names_that_nothing_defines_take_no_memory():
    text = """
f {
  x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, lost)
}
ENTRY e {
  p = f32[8] parameter(0)
  c = f32[8] call(gone), to_apply=f
  d = f32[8] call(p), to_apply=f
  t = (f32[8], f32[8]) tuple(c, never)
  g = f32[8] get-tuple-element(nowhere), index=1
  ROOT r = (f32[8], f32[8]) tuple(d, g)
}"""
    usage = memory(hloom.parse(text))
    assert (usage.arguments, usage.outputs) == (32, 80)


def test_aliasing_that_an_opcode_does_not_take_says_nothing():
    text = """ENTRY e {
  a = f32[8] parameter(0)
  ROOT b = f32[8] negate(a), output_to_operand_aliasing={{}: (0, {})}
}"""
    with pytest.warns(hloom.HloomWarning, match="kept as it is"):
        module = hloom.parse(text)
    assert memory(module).outputs == 32


@pytest.mark.parametrize("opcode", ["get-tuple-element", "bitcast", "all-gather-done"])
def test_an_instruction_without_its_operand_is_named(opcode: str):
    index = ", index=0" if opcode == "get-tuple-element" else ""
    module = hloom.parse(f"ENTRY e {{\n  a = f32[8] parameter(0)\n  ROOT b = f32[8] {opcode}(a){index}\n}}")
    module.entry.set_operands(module.entry.root, ())
    with pytest.raises(hloom.HloomError, match=f"(?s)node b: .*{opcode}"):
        memory(module)
