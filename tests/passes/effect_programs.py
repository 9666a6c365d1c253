"""Programs with effects: each case beside others, in the entry, called twice, in a branch and in loops."""

from __future__ import annotations

from dataclasses import dataclass

TOKEN = "\n{p}t = token[] after-all({t})"
"""What a case ends with that has no order of its own."""
STATE, LOOP_STATE = "(f32[4], token[])", "(s32[], f32[4], token[])"


@dataclass(frozen=True, slots=True)
class EffectCase:
    """A case's instructions, `{p}` before each name, which take `{x}` and the token `{t}`, and yield `{p}o` and `{p}t`.

    `called` is the computation that it calls, where it calls one.
    """

    lines: str
    called: str = ""


def _fusion(case: str, lines: str) -> EffectCase:
    body = f"fused{{p}} {{{{ a = f32[4] parameter(0)\n{lines} }}}}"
    return EffectCase(f"{{p}}f = f32[4] fusion({{x}}), kind={case}, calls=fused{{p}}\n{{p}}o = f32[4] negate({{p}}f)" + TOKEN, body)


_LOG = 'custom_call_target="log", custom_call_has_side_effect=true'
_THREAD = 'async_execution_thread="side"'
_ALL = "channel_id={channel}, replica_groups={{{{0,1}}}}, use_global_device_ids=true"
_HOST = "channel_id={channel}, is_host_transfer=true"
_ASYNC = "((f32[4]), f32[4], s32[])"
_ASYNC_LINES = f"""{{p}}s = {_ASYNC} async-start({{x}}), calls=async{{p}}, {_THREAD}
  {{p}}u = {_ASYNC} async-update({{p}}s)
  {{p}}d = f32[4] async-done({{p}}u)"""

CASES: dict[str, EffectCase] = {
    "infeed": EffectCase("""{p}i = (f32[4], token[]) infeed({t}), infeed_config="c"
  {p}v = f32[4] get-tuple-element({p}i), index=0
  {p}t = token[] get-tuple-element({p}i), index=1
  {p}o = f32[4] add({x}, {p}v)"""),
    "infeed, unread": EffectCase("""{p}i = (f32[4], token[]) infeed({t})
  {p}t = token[] get-tuple-element({p}i), index=1
  {p}o = f32[4] negate({x})"""),
    "outfeed": EffectCase("""{p}t = token[] outfeed({x}, {t}), outfeed_shape=f32[4]{{0}}, outfeed_config="d"
  {p}o = f32[4] negate({x})"""),
    "send": EffectCase(f"""{{p}}s = (f32[4], u32[], token[]) send({{x}}, {{t}}), {_HOST}
  {{p}}t = token[] send-done({{p}}s), {_HOST}
  {{p}}o = f32[4] abs({{x}})"""),
    "recv": EffectCase(f"""{{p}}s = (f32[4], u32[], token[]) recv({{t}}), {_HOST}
  {{p}}d = (f32[4], token[]) recv-done({{p}}s), {_HOST}
  {{p}}v = f32[4] get-tuple-element({{p}}d), index=0
  {{p}}t = token[] get-tuple-element({{p}}d), index=1
  {{p}}o = f32[4] add({{x}}, {{p}}v)"""),
    "call, unread": EffectCase(f"{{p}}c = f32[4] custom-call({{x}}), {_LOG}\n{{p}}o = f32[4] negate({{x}})" + TOKEN),
    "call": EffectCase(f"{{p}}c = f32[4] custom-call({{x}}), {_LOG}\n{{p}}o = f32[4] add({{p}}c, {{x}})" + TOKEN),
    "call of a token": EffectCase(f"{{p}}t = token[] custom-call({{x}}, {{t}}), {_LOG}\n{{p}}o = f32[4] negate({{x}})"),
    "state of rng": EffectCase("""{p}r = u64[2] rng-get-and-update-state(), delta=3
  {p}q = u32[2,2] bitcast-convert({p}r)
  {p}w = u32[4] reshape({p}q)
  {p}b = f32[4] bitcast-convert({p}w)
  {p}o = f32[4] add({x}, {p}b)""" + TOKEN),
    "rng": EffectCase("""{p}z = f32[] constant(0)
  {p}y = f32[] constant(1)
  {p}r = f32[4] rng({p}z, {p}y), distribution=rng_uniform
  {p}o = f32[4] add({x}, {p}r)""" + TOKEN),
    "sharding": EffectCase("""{p}n = f32[4] negate({x})
  {p}s = f32[4] custom-call({p}n), custom_call_target="Sharding", sharding={{devices=[2]<=[2]}}
  {p}o = f32[4] negate({p}s)""" + TOKEN),
    "sharded": EffectCase("""{p}n = f32[4] negate({x}), sharding={{devices=[2]<=[2]}}
  {p}o = f32[4] negate({p}n), sharding={{replicated}}""" + TOKEN),
    "barrier": EffectCase("""{p}n = f32[4] negate({x})
  {p}u = (f32[4], f32[4]) tuple({p}n, {x})
  {p}b = (f32[4], f32[4]) opt-barrier({p}u)
  {p}g = f32[4] get-tuple-element({p}b), index=0
  {p}h = f32[4] get-tuple-element({p}b), index=1
  {p}o = f32[4] subtract({p}g, {p}h)""" + TOKEN),
    "async": EffectCase(
        f"{_ASYNC_LINES}\n{{p}}o = f32[4] negate({{p}}d)" + TOKEN,
        'async{p} {{ a = f32[4] parameter(0)  ROOT c = f32[4] negate(a) }}, execution_thread="side"',
    ),
    "async, unread": EffectCase(
        f"{_ASYNC_LINES}\n{{p}}o = f32[4] negate({{x}})" + TOKEN,
        f'async{{p}} {{{{ a = f32[4] parameter(0)  ROOT c = f32[4] custom-call(a), {_LOG} }}}}, execution_thread="side"',
    ),
    "all-reduce": EffectCase(f"""{{p}}s = f32[4] all-reduce-start({{x}}), {_ALL}, to_apply=add
  {{p}}d = f32[4] all-reduce-done({{p}}s)
  {{p}}o = f32[4] negate({{p}}d)""" + TOKEN),
    "permute": EffectCase("""{p}s = (f32[4], f32[4]) collective-permute-start({x}), channel_id={channel}, source_target_pairs={{{{0,1}},{{1,0}}}}
  {p}d = f32[4] collective-permute-done({p}s)
  {p}o = f32[4] negate({p}d)""" + TOKEN),
    "all-gather": EffectCase(f"""{{p}}s = (f32[4], f32[8]) all-gather-start({{x}}), {_ALL}, dimensions={{{{0}}}}
  {{p}}d = f32[8] all-gather-done({{p}}s)
  {{p}}o = f32[4] slice({{p}}d), slice={{{{[2:6]}}}}""" + TOKEN),
    "copy": EffectCase("""{p}s = (f32[4], f32[4], u32[]) copy-start({x})
  {p}d = f32[4] copy-done({p}s)
  {p}o = f32[4] negate({p}d)""" + TOKEN),
    "dependency": EffectCase("""{p}n = f32[4] negate({x})
  {p}k = token[] after-all({t})
  {p}a = f32[4] add-dependency({p}n, {p}k)
  {p}t = token[] after-all({p}k)
  {p}o = f32[4] negate({p}a)"""),
    "kLoop": _fusion("kLoop", "b = f32[4] negate(a)  ROOT c = f32[4] add(b, b)"),
    "kInput": _fusion("kInput", """z = f32[] constant(0)  r = f32[] reduce(a, z), dimensions={{0}}, to_apply=add
  ROOT c = f32[4] broadcast(r), dimensions={{}}"""),
    "kOutput": _fusion("kOutput", """m = f32[2,2] reshape(a)
  d = f32[2,2] dot(m, m), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}  ROOT c = f32[4] reshape(d)"""),
    "kCustom": _fusion("kCustom", "b = f32[4] negate(a)  ROOT c = f32[4] negate(b)"),
}  # fmt: skip

_AROUND: dict[str, tuple[str, str]] = {
    "entry": ("", ""),
    "two calls": (STATE, f"c = {STATE} call(u), to_apply=inner\nROOT d = {STATE} call(c), to_apply=inner"),
    "branch": (STATE, f"""z = f32[1] slice(x), slice={{[0:1]}}  y = f32[] reshape(z)  k = f32[] constant(0)
  p = pred[] compare(y, k), direction=GT
  ROOT d = {STATE} conditional(p, u, u), true_computation=inner, false_computation=other"""),
    **{f"loop of {rounds}": (LOOP_STATE, f"""z = s32[] constant(0)  s = {LOOP_STATE} tuple(z, x, t)
  ROOT d = {LOOP_STATE} while(s), condition=condition{rounds}, body=inner""") for rounds in (1, 3)},
}  # fmt: skip
POSITIONS = tuple(_AROUND)
_COMMON = "HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
_OTHER = f"""other {{ q = {STATE} parameter(0)  a = f32[4] get-tuple-element(q), index=0
  b = token[] get-tuple-element(q), index=1  ROOT r = {STATE} tuple(a, b) }}
"""


def effect_program(cases: list[str], position: str) -> str:
    """A program that does these things in turn, and yields the sum of what they yield, and the last token."""
    graphs, lines, value, token = [_COMMON, _OTHER if position == "branch" else ""], list[str](), "x", "t"
    for number, case in enumerate(cases):
        names = {"p": f"e{number}.", "x": value if number % 2 else "x", "t": token, "channel": number + 1}
        graphs.append(CASES[case].called.format(**names))
        lines.append(CASES[case].lines.format(**names))
        lines.append(f"sum{number} = f32[4] add({value}, e{number}.o)")
        value, token = f"sum{number}", f"e{number}.t"
    body = "\n  ".join(lines)
    state, around = _AROUND[position]
    start = "ENTRY main {\n  x = f32[4] parameter(0)\n  t = token[] after-all()\n  "
    if not state:
        return "\n".join([*graphs, f"{start}{body}\n  ROOT r = {STATE} tuple({value}, {token})\n}}\n"])
    first = int(state == LOOP_STATE)
    inner = f"""inner {{
  q = {state} parameter(0)
  x = f32[4] get-tuple-element(q), index={first}
  t = token[] get-tuple-element(q), index={first + 1}
  {body}
"""
    if first:
        inner += f"""  i = s32[] get-tuple-element(q), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = {state} tuple(j, {value}, {token})
}}
condition{position.rpartition(" ")[2]} {{ q = {state} parameter(0)  i = s32[] get-tuple-element(q), index=0
  n = s32[] constant({position.rpartition(" ")[2]})  ROOT p = pred[] compare(i, n), direction=LT }}
"""
    else:
        inner += f"  ROOT r = {state} tuple({value}, {token})\n}}\n"
    return "\n".join([*graphs, f"{inner}{start}u = {STATE} tuple(x, t)\n  {around}\n}}\n"])
