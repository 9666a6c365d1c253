"""Random modules as text: typed ops over several element types, nested control flow, attributes of every kind.

XLA accepts every one of them in strict mode; what an op computes does not matter, only how it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from hypothesis import strategies as st

from hloom.text import escape

DTYPES = ("f32", "bf16", "f16", "f64", "s32", "s8", "u8", "u64", "s4", "pred", "c64", "f8e4m3fn")
FLOATS = ("f32", "bf16", "f16", "f64")
UNARY = {
    "negate": FLOATS,
    "tanh": FLOATS,
    "abs": FLOATS,
    "not": ("s32", "u8", "pred"),
    "real": ("c64",),
    "copy": DTYPES,
}
BINARY = {"add": DTYPES, "multiply": FLOATS, "maximum": FLOATS, "and": ("s32", "u8", "pred"), "power": FLOATS}
STRANGE = st.text(st.sampled_from(list("ab {}()[],=\"'\\/*%#\n\té字\x01")), max_size=12)
"""Text that is hard to tell from HLO."""


@dataclass(frozen=True, slots=True)
class Array:
    """An element type and dimensions."""

    dtype: str
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass
class Writer:
    """One module on its way: finished computations, numbers for names, and how to write names."""

    draw: Callable
    computations: list[str] = field(default_factory=list)
    numbers: count = field(default_factory=count)
    percent: str = "%"
    typed: bool = False

    def name(self, stem: str) -> str:
        return f"{stem}{self.draw(st.sampled_from(['.', '_', '-', '.x.']))}{next(self.numbers)}"

    def type(self, array: Array) -> str:
        """The type with a layout, without one, or with one that has parts."""
        order = self.draw(st.permutations(range(len(array.dims))))
        parts = self.draw(st.sampled_from(["", "", "", ":S(5)", ":T(8,128)(2,1)", ":E(32)", ":T(2)S(1)"]))
        if not array.dims:
            return f"{array}{{{parts}}}" if parts else str(array)
        return f"{array}{{{','.join(map(str, order))}{parts}}}" if self.draw(st.booleans()) else str(array)

    def array(self) -> Array:
        dims = self.draw(st.lists(st.integers(0, 3), max_size=3))
        return Array(self.draw(st.sampled_from(DTYPES)), tuple(dims))

    def computation(self, array: Array, depth: int, result: Array | None = None, count: int = 1) -> str:
        """A computation of some parameters of one type: its name, or its body in place."""
        body = Body(self, depth)
        for number in range(count):
            body.add("p", array, f"parameter({number})")
        body.grow(self.draw(st.integers(0, 3)))
        wanted = result or array
        root = body.add(
            "r", wanted, f'custom-call({body.operand(array)}), custom_call_target="f"', common=False, root=True
        )
        if self.draw(st.integers(0, 4)) == 0:
            return "{ " + " ".join(body.lines) + " }"
        name = self.name("f")
        signature = ", ".join(f"{self.name('q')}: {array}" for _ in range(count))
        heading = f" ({signature}) -> {wanted}" if self.draw(st.booleans()) else ""
        thread = ', execution_thread="side"' if self.draw(st.integers(0, 5)) == 0 else ""
        self.computations.append(f"{self.percent}{name}{heading} {{\n" + "\n".join(body.lines) + f"\n}}{thread}\n")
        del root
        return f"{self.percent}{name}"


@dataclass
class Body:
    """One computation on its way: its lines, and its values by type."""

    writer: Writer
    depth: int
    lines: list[str] = field(default_factory=list)
    values: dict[Array, list[tuple[str, str]]] = field(default_factory=dict)

    def add(self, stem: str, array: Array, text: str, *, common: bool = True, root: bool = False) -> str:
        """One more instruction of this type; its name."""
        writer = self.writer
        name, array_type = writer.name(stem), writer.type(array)
        tail = writer.draw(common_attributes(self)) if common else ""
        if name.endswith("7"):
            tail += " // , } a comment"
        text = f"  {'ROOT ' if root else ''}{writer.percent}{name} = {array_type} {text}{tail}"
        self.lines.append(text if "//" not in text else text + "\n")
        self.values.setdefault(array, []).append((name, array_type))
        return name

    def operand(self, array: Array) -> str:
        """A value of this type, made if there is none."""
        if array not in self.values:
            self.add("c", array, f"constant({literal(self.writer.draw, array)})", common=False)
        name, array_type = self.writer.draw(st.sampled_from(self.values[array]))
        return f"{array_type} {self.writer.percent}{name}" if self.writer.typed else f"{self.writer.percent}{name}"

    def any(self) -> Array:
        """The type of some value."""
        return self.writer.draw(st.sampled_from(list(self.values))) if self.values else self.writer.array()

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            self.writer.draw(st.sampled_from(GROWTHS))(self)


def literal(draw: Callable, array: Array) -> str:
    if 0 in array.dims or len(array.dims) > 1:
        return _braces(array.dims, lambda: _scalar(draw, array.dtype))
    return _braces(array.dims, lambda: _scalar(draw, array.dtype))


def _braces(dims: tuple[int, ...], scalar: Callable[[], str]) -> str:
    if not dims:
        return scalar()
    return "{" + ", ".join(_braces(dims[1:], scalar) for _ in range(dims[0])) + "}"


def _scalar(draw: Callable, dtype: str) -> str:
    if dtype == "pred":
        return draw(st.sampled_from(["true", "false"]))
    if dtype == "c64":
        return f"({_scalar(draw, 'f32')}, {_scalar(draw, 'bf16')})".replace("nan", "1")
    if dtype == "s4":
        return str(draw(st.integers(-8, 7)))
    if dtype in ("u8", "u64", "s8"):
        return str(draw(st.integers(0, 127)))
    if dtype == "s32":
        return str(draw(st.integers(-(2**31), 2**31 - 1)))
    if dtype == "f8e4m3fn":
        return draw(st.sampled_from(["0.5", "1", "-2.25", "nan"]))
    return draw(st.sampled_from(["0", "-0.0", "1", "1e-05", "-1.5e3", "inf", "-inf", "nan", "-nan", "0.1", "3.14159"]))


@st.composite
def common_attributes(draw: Callable, body: Body) -> str:
    """What any instruction may carry, in any order."""
    attributes: list[str] = []
    chosen = draw(st.sets(st.integers(0, 6), max_size=3)) if draw(st.integers(0, 2)) == 0 else set()
    if 0 in chosen:
        attributes.append("sharding=" + draw(st.sampled_from(SHARDINGS)))
    if 1 in chosen:
        pairs = draw(st.dictionaries(st.sampled_from(["a", "b.c", "_d"]), STRANGE, min_size=1))
        attributes.append("frontend_attributes={" + ",".join(f'{k}="{escape(v)}"' for k, v in pairs.items()) + "}")
    if 2 in chosen:
        attributes.append(
            f'metadata={{op_type="{escape(draw(STRANGE))}" op_name="{escape(draw(STRANGE))}" source_line=3}}'
        )
    if 3 in chosen:
        attributes.append(
            "backend_config=" + draw(st.sampled_from(['{"a":{"b":[1,"}"]}}', f'"{escape(draw(STRANGE))}x"']))
        )
    names = [name for values in body.values.values() for name, _ in values]
    if 4 in chosen and names:
        attributes.append(f"control-predecessors={{{body.writer.percent}{draw(st.sampled_from(names))}}}")
    if 5 in chosen:
        attributes.append("statistics={visualizing_index=0,cycles=1.5,b=2}")
    if 6 in chosen:
        attributes.append('origin={{"x" {0}}}')
    return "".join(f", {attribute}" for attribute in draw(st.permutations(attributes)))


SHARDINGS = (
    "{replicated}",
    "{manual}",
    "{maximal device=1}",
    "{devices=[2,1]<=[2]}",
    "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
    "{devices=[2,1,2]0,1,2,3 last_tile_dims={manual}}",
    "{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}",
    '{replicated metadata={op_name="a, {b}"}}',
)


def unary(body: Body) -> None:
    opcode = body.writer.draw(st.sampled_from(list(UNARY)))
    dtype = body.writer.draw(st.sampled_from(UNARY[opcode]))
    array = Array(dtype, body.any().dims)
    result = Array("f32", array.dims) if opcode == "real" else array
    accuracy = ", result_accuracy={mode=highest}" if opcode == "tanh" and body.writer.draw(st.booleans()) else ""
    body.add(opcode, result, f"{opcode}({body.operand(array)}){accuracy}")


def binary(body: Body) -> None:
    opcode = body.writer.draw(st.sampled_from(list(BINARY)))
    array = Array(body.writer.draw(st.sampled_from(BINARY[opcode])), body.any().dims)
    body.add(opcode, array, f"{opcode}({body.operand(array)}, {body.operand(array)})")


def compare(body: Body) -> None:
    array = Array("f32", body.any().dims)
    type_attribute = body.writer.draw(st.sampled_from(["", ", type=TOTALORDER", ", type=FLOAT"]))
    direction = body.writer.draw(st.sampled_from(["EQ", "NE", "GE", "GT", "LE", "LT"]))
    text = f"compare({body.operand(array)}, {body.operand(array)}), direction={direction}{type_attribute}"
    body.add("compare", Array("pred", array.dims), text)


def select(body: Body) -> None:
    array = body.any()
    flag = body.operand(Array("pred", array.dims))
    body.add("select", array, f"select({flag}, {body.operand(array)}, {body.operand(array)})")


def broadcast(body: Body) -> None:
    array = body.any()
    extra = body.writer.draw(st.integers(1, 3))
    dims = ",".join(str(number + 1) for number in range(len(array.dims)))
    result = Array(array.dtype, (extra, *array.dims))
    body.add("broadcast", result, f"broadcast({body.operand(array)}), dimensions={{{dims}}}")


def transpose(body: Body) -> None:
    array = body.any()
    order = body.writer.draw(st.permutations(range(len(array.dims))))
    result = Array(array.dtype, tuple(array.dims[dim] for dim in order))
    body.add("transpose", result, f"transpose({body.operand(array)}), dimensions={{{','.join(map(str, order))}}}")


def reshape(body: Body) -> None:
    array = body.any()
    body.add("reshape", Array(array.dtype, (1, *array.dims)), f"reshape({body.operand(array)})")


def slice_of(body: Body) -> None:
    array = body.any()
    step = body.writer.draw(st.sampled_from(["", ":1", ":2"]))
    ranges = ", ".join(f"[0:{size}{step}]" for size in array.dims)
    dims = tuple((size + 1) // 2 for size in array.dims) if step == ":2" else array.dims
    body.add("slice", Array(array.dtype, dims), f"slice({body.operand(array)}), slice={{{ranges}}}")


def pad(body: Body) -> None:
    array = Array(body.any().dtype, (2, 3))
    zero = body.operand(Array(array.dtype, ()))
    padding = body.writer.draw(st.sampled_from(["0_1x2_0", "-1_1x0_0", "0_0_1x1_1_2", "0_0x0_0"]))
    body.add("pad", array, f"pad({body.operand(array)}, {zero}), padding={padding}")


def convert(body: Body) -> None:
    array = body.any()
    target = Array("f32" if array.dtype == "c64" else body.writer.draw(st.sampled_from(DTYPES[:10])), array.dims)
    body.add("convert", target, f"convert({body.operand(array)})")


def iota(body: Body) -> None:
    body.add("iota", Array(body.writer.draw(st.sampled_from(["s32", "f32", "u8"])), (3, 2)), "iota(), iota_dimension=1")


def dot(body: Body) -> None:
    left = Array(body.writer.draw(st.sampled_from(FLOATS)), (2, 3))
    extra = body.writer.draw(
        st.sampled_from(["", ", operand_precision={highest,default}", ", algorithm=dot_f32_f32_f32"])
    )
    text = f"dot({body.operand(left)}, {body.operand(left)}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
    body.add("dot", Array(left.dtype, (2, 2)), text + extra)


def convolution(body: Body) -> None:
    array = Array("f32", (2, 3, 3, 1))
    window = body.writer.draw(
        st.sampled_from(["size=1x1", "size=3x3 pad=1_1x1_1", "size=1x1 stride=2x1 lhs_dilate=2x1"])
    )
    text = f"convolution({body.operand(array)}, {body.operand(array)}), window={{{window}}}, dim_labels=b01f_01io->b01f"
    body.add("convolution", array, text)


def reduce(body: Body) -> None:
    array = Array(body.writer.draw(st.sampled_from(FLOATS)), (2, 3))
    scalar = Array(array.dtype, ())
    called = body.writer.computation(scalar, body.depth + 1, scalar, 2)
    text = f"reduce({body.operand(array)}, {body.operand(scalar)}), dimensions={{0}}, to_apply={called}"
    body.add("reduce", Array(array.dtype, (3,)), text)


def call(body: Body) -> None:
    array = body.any()
    body.add("call", array, f"call({body.operand(array)}), to_apply={body.writer.computation(array, body.depth + 1)}")


def fusion(body: Body) -> None:
    array = body.any()
    called = body.writer.computation(array, body.depth + 1)
    alias = body.writer.draw(st.sampled_from(["", ", output_to_operand_aliasing={{}: (0, {})}"]))
    fusion_kind = body.writer.draw(st.sampled_from(["kLoop", "kInput", "kOutput", "kCustom"]))
    body.add("fusion", array, f"fusion({body.operand(array)}), kind={fusion_kind}, calls={called}{alias}")


def loop(body: Body) -> None:
    if body.depth > 2:
        return
    array = body.any()
    condition = body.writer.computation(array, body.depth + 1, Array("pred", ()))
    inside = body.writer.computation(array, body.depth + 1)
    body.add("while", array, f"while({body.operand(array)}), condition={condition}, body={inside}")


def branch(body: Body) -> None:
    if body.depth > 2:
        return
    array = body.any()
    one, other = (body.writer.computation(array, body.depth + 1) for _ in range(2))
    inputs = f"{body.operand(array)}, {body.operand(array)}"
    if body.writer.draw(st.booleans()):
        text = f"conditional({body.operand(Array('pred', ()))}, {inputs}), true_computation={one}, false_computation={other}"
    else:
        text = f"conditional({body.operand(Array('s32', ()))}, {inputs}), branch_computations={{{one}, {other}}}"
    body.add("conditional", array, text)


def custom(body: Body) -> None:
    array = body.any()
    target = escape(body.writer.draw(STRANGE)) + "f"
    extra = "".join(
        body.writer.draw(
            st.sets(
                st.sampled_from(
                    [
                        ", custom_call_has_side_effect=true",
                        ", api_version=API_VERSION_TYPED_FFI",
                        ", literal=(s32[] 1, f32[2]{0} {1, nan})",
                        f", operand_layout_constraints={{{array}}}",
                        ", window={size=2x2 pad=0_1x-1_0 rhs_reversal=1x0}",
                        ", schedule=SCHEDULE_EARLIEST",
                    ]
                ),
                max_size=2,
            )
        )
    )
    body.add("custom-call", array, f'custom-call({body.operand(array)}), custom_call_target="{target}"{extra}')


def tuples(body: Body) -> None:
    arrays = [body.any() for _ in range(body.writer.draw(st.integers(1, 7)))]
    operands = [body.operand(array) for array in arrays]
    writer = body.writer
    kinds = [writer.type(array) for array in arrays]
    name = writer.name("tuple")
    commented = [f"/*index={i}*/{text}" if i and i % 5 == 0 else text for i, text in enumerate(kinds)]
    body.lines.append(f"  {writer.percent}{name} = ({', '.join(commented)}) tuple({', '.join(operands)})")
    index = writer.draw(st.integers(0, len(arrays) - 1))
    operand = f"({', '.join(kinds)}) {writer.percent}{name}" if writer.typed else f"{writer.percent}{name}"
    body.add("element", arrays[index], f"get-tuple-element({operand}), index={index}")


def collective(body: Body) -> None:
    array = Array("f32", body.any().dims)
    groups = body.writer.draw(st.sampled_from(["{}", "{{0,1},{2,3}}", "[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)"]))
    scalar = Array("f32", ())
    called = body.writer.computation(scalar, body.depth + 1, scalar, 2)
    text = f"all-reduce({body.operand(array)}), channel_id=1, replica_groups={groups}, to_apply={called}"
    body.add("all-reduce", array, text)


def nested(body: Body) -> None:
    array = Array("f32", body.any().dims)
    body.add("n", array, f"add({array} negate({array} abs({body.operand(array)})), {body.operand(array)})")


GROWTHS = (
    *(unary, binary, binary, compare, select, broadcast, transpose, reshape, slice_of, pad, convert, iota, dot),
    *(convolution, reduce, call, fusion, loop, branch, custom, tuples, collective, nested),
)


@st.composite
def modules(draw: Callable) -> str:
    """The text of a module that XLA accepts."""
    writer = Writer(draw, percent=draw(st.sampled_from(["%", ""])), typed=draw(st.booleans()))
    body = Body(writer, 0)
    for number in range(draw(st.integers(1, 3))):
        body.add("x", writer.array(), f"parameter({number})")
    body.grow(draw(st.integers(1, 6)))
    array = body.any()
    body.add("root", array, f"copy({body.operand(array)})", root=True)
    header = "HloModule " + draw(st.sampled_from(["m", "jit_f.1", "a-b_c"]))
    header += draw(st.sampled_from(["", ", is_scheduled=true", ", replica_count=2, num_partitions=4"]))
    header += draw(st.sampled_from(["", ', frontend_attributes={a="b\\n{",j={"k":[1]}}']))
    entry = f"ENTRY {writer.percent}main {{\n" + "\n".join(body.lines) + "\n}\n"
    text = "\n\n".join([header, *writer.computations, entry])
    return draw(st.sampled_from([text, text, text, text.replace("\n", "\r\n"), text.replace("\n  ", "\n\n\t")]))
