"""Random programs of constants in which the rules of folding.py fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Domain = Callable[[Random], str]
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
_WHOLE = ("s8", "s32", "s64", "u8", "u16", "u32")
_REAL = ("f32", "f64", "bf16", "f16")


def _values(random: Random, element: str, count: int) -> str:
    if element in _REAL:
        return ", ".join(
            random.choice(("0", "-0", "1", "-2.5", "nan", "inf", "-inf", "1e3", "0.125")) for _ in range(count)
        )
    if element == "pred":
        return ", ".join(random.choice(("true", "false")) for _ in range(count))
    return ", ".join(str(random.randrange(0 if element[0] == "u" else -5, 100)) for _ in range(count))


def _uniform(random: Random) -> str:
    element = random.choice((*_WHOLE, *_REAL))
    dims = random.choice(("2,3", "1000000,10", "5"))
    rank = dims.count(",") + 1
    array_text, small = f"{element}[{dims}]", f"{element}[{','.join('1' * rank)}]"
    lines = (
        f"  a = {element}[] constant({_values(random, element, 1)})\n  b = {element}[] constant({_values(random, element, 1)})\n"
        f"  x = {array_text} broadcast(a), dimensions={{}}\n  y = {array_text} broadcast(b), dimensions={{}}\n"
        f"  f = {array_text} {random.choice(_BINARY)}(x, y)\n  r = {small} slice(f), slice={{{', '.join(['[0:1]'] * rank)}}}"
    )
    return _entry(lines, small)


def _constants(random: Random) -> str:
    element = random.choice((*_WHOLE, *_REAL))
    return random.choice((_binary, _reduce, _moved, _compared, _looped))(random, element)


def _entry(lines: str, array_text: str, computations: str = "") -> str:
    return f"{computations}ENTRY e {{\n  i = f32[2] parameter(0)\n{lines}\n  ROOT t = (f32[2], {array_text}) tuple(i, r)\n}}\n"


def _binary(random: Random, element: str) -> str:
    array_text = f"{element}[4]"
    lines = (
        f"  a = {array_text} constant({{{_values(random, element, 4)}}})\n  b = {array_text} constant({{{_values(random, element, 4)}}})\n"
        f"  r = {array_text} {random.choice(_BINARY)}(a, b)"
    )
    return _entry(lines, array_text)


def _reduce(random: Random, element: str) -> str:
    op = random.choice(("maximum", "minimum", "add"))
    computation = (
        f"f {{\n  x = {element}[] parameter(0)\n  y = {element}[] parameter(1)\n  ROOT z = {element}[] {op}(x, y)\n}}\n"
    )
    rows = ", ".join(f"{{{_values(random, element, 3)}}}" for _ in range(2))
    lines = (
        f"  a = {element}[2,3] constant({{{rows}}})\n  b = {element}[] constant(1)\n"
        f"  r = {element}[2] reduce(a, b), dimensions={{1}}, to_apply=f"
    )
    return _entry(lines, f"{element}[2]", computation)


def _moved(random: Random, element: str) -> str:
    rows = ", ".join(f"{{{_values(random, element, 3)}}}" for _ in range(2))
    form, array_text = random.choice((
        ("transpose(a), dimensions={1,0}", "[3,2]"), ("reshape(a)", "[6]"), ("slice(a), slice={[0:2], [1:3]}", "[2,2]"),
        ("reverse(a), dimensions={1}", "[2,3]"), ("concatenate(a, a), dimensions={0}", "[4,3]"),
    ))  # fmt: skip
    return _entry(
        f"  a = {element}[2,3] constant({{{rows}}})\n  r = {element}{array_text} {form}", f"{element}{array_text}"
    )


def _compared(random: Random, element: str) -> str:
    lines = (
        f"  a = {element}[4] constant({{{_values(random, element, 4)}}})\n  b = {element}[] constant(1)\n"
        f"  c = {element}[4] broadcast(b), dimensions={{}}\n"
        f"  r = pred[4] compare(a, c), direction={random.choice(('LT', 'EQ', 'NE', 'GE'))}"
    )
    return _entry(lines, "pred[4]")


def _looped(random: Random, element: str) -> str:
    count = random.randrange(0, 9)
    computations = f"""cond {{
  s = (s32[], f32[3]) parameter(0)
  c = s32[] get-tuple-element(s), index=0
  l = s32[] constant({count})
  ROOT p = pred[] compare(c, l), direction=LT
}}
body {{
  s = (s32[], f32[3]) parameter(0)
  c = s32[] get-tuple-element(s), index=0
  x = f32[3] get-tuple-element(s), index=1
  o = s32[] constant(1)
  n = s32[] add(c, o)
  y = f32[3] add(x, x)
  ROOT t = (s32[], f32[3]) tuple(n, y)
}}
"""
    lines = (
        "  z = s32[] constant(0)\n  k = f32[3] constant({1, 2, 0.5})\n  b = (s32[], f32[3]) tuple(z, k)\n"
        "  w = (s32[], f32[3]) while(b), condition=cond, body=body\n  r = f32[3] get-tuple-element(w), index=1"
    )
    return _entry(lines, "f32[3]", computations)


def _element(random: Random) -> str:
    index = random.randrange(2)
    array_text = ("s32[2]", "f32[]")[index]
    lines = f"  a = (s32[2], f32[]) constant(({{1, 2}}, 3))\n  r = {array_text} get-tuple-element(a), index={index}"
    return _entry(lines, array_text)


def _nothing(random: Random) -> str:
    element = random.choice(("f32", "s32", "bf16", "c64"))
    size = random.randint(0, 3)
    return random.choice((
        f"ENTRY e {{\n  x = {element}[{size},0] parameter(0)\n  ROOT r = {element}[{size},0] negate(x)\n}}\n",
        f"ENTRY e {{\n  x = {element}[0,{size}] parameter(0)\n  y = {element}[0,{size}] parameter(1)\n"
        f"  ROOT r = {element}[0,{size}] multiply(x, y)\n}}\n",
        f"ENTRY e {{\n  x = {element}[{size},2] parameter(0)\n"
        f"  ROOT r = {element}[{size},0] slice(x), slice={{[0:{size}], [1:1]}}\n}}\n",
    ))  # fmt: skip


def _copy(random: Random) -> str:
    element = random.choice((*_WHOLE, *_REAL, "pred"))
    numbers = _values(random, element, 3)
    return f"ENTRY e {{\n  c = {element}[3] constant({{{numbers}}})\n  ROOT r = {element}[3] copy(c)\n}}\n"


def _fusion(random: Random) -> str:
    element = random.choice((*_WHOLE, *_REAL))
    operation, other = random.choice(_BINARY), random.choice(_BINARY)
    array_text = f"{element}[3]"
    computation = (
        f"f {{\n  x = {array_text} parameter(0)\n  y = {array_text} parameter(1)\n  a = {array_text} {operation}(x, y)\n"
        f"  b = {array_text} {other}(a, y)\n  ROOT t = ({array_text}, {array_text}) tuple(b, a)\n}}\n"
    )
    lines = (
        f"  k = {array_text} constant({{{_values(random, element, 3)}}})\n  c = {element}[] constant(2)\n"
        f"  l = {array_text} broadcast(c), dimensions={{}}\n"
        f"  u = ({array_text}, {array_text}) fusion(k, l), kind=kLoop, calls=f\n"
        f"  r = {array_text} get-tuple-element(u), index={random.randrange(2)}"
    )
    return _entry(lines, array_text, computation)


def _windows(random: Random) -> str:
    element, operation = random.choice((*_WHOLE, *_REAL)), random.choice(("add", "maximum", "minimum", "multiply"))
    computation = (
        f"f {{\n  x = {element}[] parameter(0)\n  y = {element}[] parameter(1)\n"
        f"  ROOT z = {element}[] {operation}(x, y)\n}}\n"
    )
    size, stride, dilation = random.randint(1, 3), random.randint(1, 2), random.randint(1, 2)
    count = random.randint(1, 5)
    length = (size - 1) * dilation + 1 + (count - 1) * stride
    lines = (
        f"  a = {element}[] constant({_values(random, element, 1)})\n  s = {element}[] constant({random.choice((0, 1, 3))})\n"
        f"  b = {element}[4,{length}] broadcast(a), dimensions={{}}\n"
        f"  r = {element}[3,{count}] reduce-window(b, s), "
        f"window={{size=2x{size} stride=1x{stride} rhs_dilate=1x{dilation}}}, to_apply=f"
    )
    return _entry(lines, f"{element}[3,{count}]", computation)


def _bitcast(random: Random) -> str:
    element = random.choice((*_WHOLE, *_REAL))
    rows = ", ".join(f"{{{_values(random, element, 3)}}}" for _ in range(2))
    order = random.choice(("{1,0}", "{0,1}"))
    made = random.choice(("[3,2]{1,0}", "[3,2]{0,1}", "[6]{0}", "[2,3]{0,1}", "[2,3]{1,0}"))
    lines = f"  a = {element}[2,3]{order} constant({{{rows}}})\n  r = {element}{made} bitcast(a)"
    return _entry(lines, f"{element}{made}")


DOMAINS: dict[str, Domain] = {
    "bitcast-of-constant": _bitcast,
    "fold-fusion": _fusion,
    "fold-uniform-windows": _windows,
    "copy-of-constant": _copy,
    "fold-uniform": _uniform,
    "fold-constants": _constants,
    "nothing-to-compute": _nothing,
    "element-of-constant": _element,
}
