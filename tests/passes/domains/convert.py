"""Random modules in which the rules of conversion.py fire."""

from random import Random

from tests.passes.forms import FLOATS, INTEGERS, SHAPES, Domain, domain, form, one_of

_ALL = (*INTEGERS, *FLOATS, "pred")
_WIDER = {
    "pred": ("s8", "f32", "u64"), "s8": ("s16", "s64", "f16", "f32"), "u8": ("u16", "s32", "bf16", "f64"),
    "s16": ("s32", "f32"), "u16": ("s32", "u64", "f64"), "s32": ("s64", "f64"), "u32": ("s64", "f64"),
    "f16": ("f32", "f64"), "bf16": ("f32", "f64"), "f32": ("f64",),
}  # fmt: skip
_NARROW = {"s8": "s32", "u8": "u16", "u16": "u32", "s16": "s64", "u32": "u64"}


def _there_and_back(random: Random) -> str:
    first = random.choice(list(_WIDER))
    between = random.choice(_WIDER[first])
    return form(f"$T convert({between}[$D] convert(x))", f"{first}[{random.choice(SHAPES)}]")


def _by_a_wider_type(random: Random) -> str:
    first = random.choice(list(_WIDER))
    between = random.choice(_WIDER[first])
    integer = first not in FLOATS and first != "pred"
    last = random.choice(
        FLOATS if integer and between in FLOATS else tuple(item for item in _ALL if item[-1] != "4" or item[-2] == "6")
    )
    if last in (first, between):
        last = "f64" if between != "f64" else "f16" if first != "f16" else "bf16"
    return form(f"{last}[$D] convert({between}[$D] convert(x))", f"{first}[{random.choice(SHAPES)}]")


def _computed_wide(random: Random) -> str:
    narrow = random.choice(list(_NARROW))
    opcodes = ["add", "subtract", "multiply"] + (["divide", "remainder"] if narrow[0] == "u" else [])
    wide = f"{_NARROW[narrow]}[$D]"
    text = f"$T convert({random.choice(opcodes)}({wide} convert(x), {wide} convert(y)))"
    return form(text, f"{narrow}[{random.choice(SHAPES)}]")


def _bitcast_twice(random: Random) -> str:
    text = random.choice(
        ("u32[$D] bitcast-convert(s32[$D] bitcast-convert(x))", "u16[$D,2] bitcast-convert(s32[$D] bitcast-convert(x))")
    )
    return form(text, f"f32[{random.choice(('3', '2,5'))}]")


DOMAINS: dict[str, Domain] = {
    "convert-to-same-type": domain(_ALL, "$T convert(x)"),
    "convert-there-and-back": _there_and_back,
    "convert-by-a-wider-type": _by_a_wider_type,
    "narrow-integers-computed-wide": _computed_wide,
    "bitcast-convert-to-same-type": domain((*INTEGERS, *FLOATS), "$T bitcast-convert(x)"),
    "bitcast-convert-twice": _bitcast_twice,
    "bitcast-convert-of-concatenation": domain(
        ("f32", "s32"),
        "u = u32[6] concatenate(u32[$D] bitcast-convert(x), u32[$D] bitcast-convert(y)), dimensions={0}\n$E[6] bitcast-convert(u)",
        shapes=["3"],
    ),
    "bitcasts-around-one-op": domain(
        FLOATS,
        "b = $E[2,6] bitcast(x)\nn = $E[2,6] {f}(b)\n$E[12] bitcast(n)",
        shapes=["3,4", "12"],
        f=one_of("negate", "abs", "floor", "tanh"),
    ),
    "complex-of-its-parts": domain(("c64", "c128"), "complex(real(x), imag(x))"),
    "part-of-complex": domain(("f32", "f64"), "{f}(complex(x, y))", f=one_of("real", "imag")),
    "part-of-real": domain(FLOATS, "{f}(x)", f=one_of("real", "imag")),
    "integer-is-finite": domain(
        ("s8", "u8", "s16", "s32", "pred"), "is-finite({e}[$D] convert(x))", e=one_of("f32", "f64", "bf16")
    ),
    "rounding-of-whole": domain(
        FLOATS,
        "{f}({g}(x))",
        "{f}($T convert(p))",
        "{f}($T convert(s32[$D] convert(x)))",
        f=one_of("floor", "ceil", "round-nearest-afz"),
        g=one_of("floor", "ceil", "round-nearest-even"),
    ),
}
