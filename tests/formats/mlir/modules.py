"""Modules in MLIR's text, generated: ops with operands, packs of results, attributes, regions."""

from __future__ import annotations

from hypothesis import strategies as st

INTEGERS = ("i1", "i8", "si8", "ui8", "i32", "si64", "i64", "index", "i7")
FLOATS = ("f32", "f64", "f16", "bf16", "f8E4M3FN")
TYPES = st.sampled_from(
    [
        "i32",
        "f32",
        "index",
        "none",
        "tensor<2x3xf32>",
        "tensor<f32>",
        "tensor<?x2xsi8>",
        "tensor<4xui8>",
        "tensor<2xi1>",
        "tensor<2xcomplex<f32>>",
        "tensor<*xf32>",
        "tensor<2xf32, #x.layout<[1]>>",
        "memref<2xf32, 1>",
        "vector<4xi32>",
        "tuple<i32, f32>",
        "!x.token",
        "!x.pair<i32, !y<[1, 2]>>",
        "(i32) -> (f32, f32)",
    ]
)
NAMES = st.sampled_from(["a", "axis", "op_name", "with space", "0", "é", 'quo"te', "a.b"])


def _integer(type_text: str) -> st.SearchStrategy[str]:
    bits = 64 if type_text == "index" else int(type_text.lstrip("siu"))
    low = 0 if type_text.startswith("u") else -(1 << (bits - 1))
    return st.integers(low, (1 << (bits - 1)) - 1).map(lambda value: f"{value} : {type_text}")


numbers = st.one_of(
    st.sampled_from([type_text for type_text in INTEGERS if type_text != "i1"]).flatmap(_integer),
    st.tuples(st.integers(-(2**40), 2**40), st.integers(-20, 20), st.sampled_from(FLOATS[:4])).map(
        lambda parts: f"{parts[0]}.0e{parts[1]} : {parts[2]}"
    ),
    st.tuples(st.integers(0, 2**8 - 1), st.just("f8E4M3FN")).map(lambda parts: f"0x{parts[0]:X} : {parts[1]}"),
)
strings = st.text(max_size=6).map(
    lambda text: (
        '"' + "".join(f"\\{byte:02X}" if byte < 32 or byte in b'"\\' else chr(byte) for byte in text.encode()) + '"'
        if text.isascii()
        else '"é"'
    )
)
leaves = st.one_of(
    numbers,
    strings,
    TYPES,
    st.sampled_from(
        [
            *("true", "false", "unit", "@a::@b", '@"x y"', '#d.a<b [1, "]"]>', "#d.plain", '"s" : i32'),
            *("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", "dense<1.5> : tensor<4xf32>", "dense<> : tensor<0xf32>"),
            *('dense<"0x00FF"> : tensor<2xi8>', "dense<true> : tensor<2xi1>", "affine_map<(d0) -> (d0)>"),
            *("array<i64: 1, -2>", "array<f32>"),
        ]
    ),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.dictionaries(NAMES, inner, max_size=3).map(lambda parts: dictionary(parts)),
    ),
    max_leaves=6,
)


def dictionary(parts: dict[str, str]) -> str:
    named = (
        f"{name if name.replace('.', '').isalpha() and name.isascii() else _quoted(name)} = {value}"
        for name, value in parts.items()
    )
    return "{" + ", ".join(named) + "}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', "\\22") + '"'


@st.composite
def operation(draw, scope: list[tuple[str, str]], fresh: list[int], depth: int) -> list[str]:
    """The lines of one op; what it defines enters the scope."""
    uses = draw(st.lists(st.sampled_from(scope), max_size=3)) if scope else []
    results = draw(st.lists(TYPES, max_size=3))
    attributes = draw(st.dictionaries(NAMES, values, max_size=3))
    properties = {
        name: value
        for name, value in draw(st.dictionaries(NAMES, values, max_size=1)).items()
        if name not in attributes
    }
    count = draw(st.integers(0, 2)) if depth < 2 and draw(st.booleans()) else 0
    regions = [draw(region(list(scope), fresh, depth + 1)) for _ in range(count)]
    name = f"v{fresh[0]}"
    fresh[0] += 1
    head, defined = "", []
    if results:
        is_pack = draw(st.booleans()) and len(results) > 1
        names = [name] if is_pack else [f"{name}_{number}" for number in range(len(results))]
        head = (f"%{name}:{len(results)}" if is_pack else ", ".join(f"%{result}" for result in names)) + " = "
        defined = [(f"{name}#{n}" if is_pack else names[n], type_text) for n, type_text in enumerate(results)]
    op = draw(st.sampled_from(["x.a", "x.b", "y.c.d", "plain"]))
    shown = ", ".join(results) if len(results) == 1 and not results[0].startswith("(") else f"({', '.join(results)})"
    text = f'{head}"{op}"({", ".join("%" + use for use, _ in uses)})'
    text += f" <{dictionary(properties)}>" if properties else ""
    text += f" ({', '.join(regions)})" if regions else ""
    text += f" {dictionary(attributes)}" if attributes else ""
    text += f" : ({', '.join(type_text for _, type_text in uses)}) -> {shown}"
    scope += defined
    return [text + draw(st.sampled_from(["", ' loc("f":1:2)', " // a comment"]))]


@st.composite
def region(draw, scope: list[tuple[str, str]], fresh: list[int], depth: int) -> str:
    arguments = [(f"b{fresh[0]}_{n}", type_text) for n, type_text in enumerate(draw(st.lists(TYPES, max_size=2)))]
    fresh[0] += 1
    inside = scope + arguments
    label = f"^bb0({', '.join(f'%{name}: {type_text}' for name, type_text in arguments)}):\n" if arguments else ""
    lines = [line for _ in range(draw(st.integers(0, 2))) for line in draw(operation(inside, fresh, depth))]
    return "{\n" + label + "\n".join(lines) + "\n}"


@st.composite
def function(draw, number: int) -> str:
    fresh = [0]
    scope = [(f"p{n}", type_text) for n, type_text in enumerate(draw(st.lists(TYPES, max_size=3)))]
    arguments = ", ".join(f"%{name}: {type_text}" for name, type_text in scope)
    lines = [line for _ in range(draw(st.integers(0, 4))) for line in draw(operation(scope, fresh, 0))]
    returned = draw(st.lists(st.sampled_from(scope), max_size=3)) if scope else []
    kinds = [type_text for _, type_text in returned]
    keyword, back = draw(
        st.sampled_from(
            [("oneflow.job", "oneflow.return"), ("func.func", "return"), ("func.func private", "func.return")]
        )
    )
    result = f" -> ({', '.join(kinds)})" if kinds else ""
    last = f"{back} {', '.join('%' + name for name, _ in returned)} : {', '.join(kinds)}" if kinds else back
    return f"{keyword} @f{number}({arguments}){result} {{\n" + "\n".join([*lines, last]) + "\n}"


@st.composite
def modules(draw) -> str:
    count = draw(st.integers(0, 3))
    parts = [draw(function(number)) for number in range(count)]
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, count)), "\n".join(draw(operation([], [1000], 0))))
    body = "\n".join(parts)
    return draw(
        st.sampled_from(
            [f"module {{\n{body}\n}}\n", f"module @m attributes {{a = 1 : i32}} {{\n{body}\n}}\n", body + "\n"]
        )
    )
