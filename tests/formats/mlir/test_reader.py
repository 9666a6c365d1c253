"""Modules, functions and ops: what they become, and what is refused where.

Covers `operation_reader.py`, `region_builder.py`, `type_reader.py`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from hloom.formats import hlo, mlir
from hloom.formats.mlir import CARRIED, TypedNumber
from hloom.ir import EMPTY_TUPLE, Apply, AttributeKind, Effect, Op, TensorType, TupleType, dtype, optional, verify
from hloom.ir.verify import Level
from hloom.text import HloomError, Source, Unsupported

EXAMPLES = Path(__file__).parents[2] / "dialects" / "oneflow"
F32 = TensorType(dtype("f32"), (2,))


def function(*lines: str, arguments: str = "%a: tensor<2xf32>", results: str = "") -> str:
    inside = "\n".join(f"  {line}" for line in lines)
    return f"func.func @f({arguments}){results} {{\n{inside}\n}}\n"


def test_an_op_with_several_results_is_a_tuple_with_elements_where_they_are_used():
    module = mlir.parse(
        function(
            '%x, %y, %z = "d.split"(%a) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, i32)',
            '"d.use"(%z, %x) : (i32, tensor<2xf32>) -> ()',
            "return",
        )
    )
    names = [(node.name, node.opcode) for node in module.entry.nodes]
    assert names == [("a", "parameter"), ("split", "d.split"), ("x", "get-tuple-element"), ("z", "get-tuple-element"), ("use", "d.use"), ("tuple", "tuple")]  # fmt: skip
    split, use = module.entry["split"], module.entry["use"]
    assert split.type is TupleType([F32, F32, TensorType(dtype("s32"))])
    assert isinstance(use, Apply)
    assert use.type is EMPTY_TUPLE
    assert use.op.effect is Effect.OUTSIDE
    assert [operand.attributes["index"] for operand in use.operands] == [2, 0]
    assert '    %0:3 = "d.split"(%a' not in mlir.to_text(module)
    assert '"d.use"(%0#2, %0#0)' in mlir.to_text(module)
    assert '%x, %0:2 = "d.split"' not in mlir.to_text(module)
    assert '%left:2, %right = "d.split"' in mlir.to_text(module, {"d.split": ("left", None, "right")})


def test_packs_are_used_by_number():
    module = mlir.parse(function('%p:2 = "d.pair"() : () -> (i32, f32)', '"d.use"(%p#1) : (f32) -> ()', "return"))
    assert module.entry["use"].operands[0].attributes["index"] == 1


def test_rows_of_a_dialect_are_used_and_what_they_do_not_know_is_kept():
    row = Op("d.a", (1, 1), attributes={"n": optional(AttributeKind.ANY), **CARRIED}, infer=lambda x: x)
    text = function(
        '%0 = "d.a"(%arg0) {m = [1], n = 2 : i32} : (tensor<2xf32>) -> tensor<2xf32>',
        "return",
        arguments="%arg0: tensor<2xf32>",
    )
    module = mlir.parse(text, {"d.a": row})
    node = module.entry["0"]
    assert isinstance(node, Apply)
    assert node.op is row
    assert node.attribute("n") == TypedNumber(2, "i32")
    assert str(node.attribute("m")) == "[1]"
    assert mlir.to_text(module) == text
    assert verify(module).level is Level.OPEN


def test_spellings_of_types_survive_where_they_are_not_canonical():
    text = function(
        '%0 = "d.a"(%arg0) : (tensor<2xsi8>) -> tensor<2xi8>',
        '%1 = "d.a"(%0) : (tensor<2xi8>) -> tensor<2xsi8>',
        "return %1 : tensor<2xsi8>",
        arguments="%arg0: tensor<2xsi8>",
        results=" -> tensor<2xsi8>",
    )
    module = mlir.parse(text)
    assert mlir.to_text(module) == text
    assert module.entry["1"].type is module.entry["0"].type is TensorType(dtype("s8"), (2,))
    module.entry.set_type(module.entry["1"], TensorType(dtype("s8"), (3,)))
    assert mlir.to_text(module).count("tensor<3xi8>") == 3


def test_regions_are_nested_graphs_that_may_use_what_is_around_them():
    text = function(
        '"d.loop"(%arg0) ({',
        "^bb0(%arg1: i32):",
        '  "d.use"(%arg0, %arg1) : (tensor<2xf32>, i32) -> ()',
        "}) : (tensor<2xf32>) -> ()",
        "return",
        arguments="%arg0: tensor<2xf32>",
    )
    module = mlir.parse(text)
    (region,) = module.entry["loop"].called_graphs
    assert region.parent is module.entry
    assert region.free_variables() == [module.entry["arg0"]]
    assert mlir.to_text(module).replace(" ", "") == text.replace(" ", "")
    assert verify(module).level is Level.FUNCTIONAL


def test_declarations_visibility_and_attributes_are_printed_back():
    text = """module @m attributes {a.b = 1 : i32} {
  func.func private @g(f32, i32) -> (f32, f32)
  func.func public @f(%arg0: f32 {x.y = 1 : i32}) -> (f32 {x.z}) attributes {q = "r"} {
    return %arg0 : f32
  }
  func.func private @h()
}
"""
    module = mlir.parse(text)
    assert module.name == "m"
    assert [graph.name for graph in module.declared] == ["g", "h"]
    assert module.entry.name == "f"
    assert mlir.to_text(module) == text


def test_aliases_and_locations_are_put_in_place_and_skipped():
    text = """#loc = loc("f.py":1:2)
#one = 1 : i32
!pair = tensor<2xf32>
func.func @f(%a: !pair loc("x")) -> !pair {
  %0 = "d.a"(%a) {n = #one} : (!pair) -> !pair loc(#loc)
  return %0 : !pair loc(unknown)
} loc(#loc1)
#loc1 = loc(callsite("f" at "g"))
"""
    assert mlir.to_text(mlir.parse(text)) == function(
        '%0 = "d.a"(%arg0) {n = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>',
        "return %0 : tensor<2xf32>",
        arguments="%arg0: tensor<2xf32>",
        results=" -> tensor<2xf32>",
    )


REFUSED = [
    (function("return %b : f32"), "2:10", "'%b' is not defined before it is used"),
    (function('"d.a"(%a) : (tensor<3xf32>) -> ()', "return"), "2:3", "'%a' is of type f32[2], but is used as tensor<3xf32>"),
    (function('"d.a"(%a) : () -> ()', "return"), "2:3", "1 operands are given, but 0 types"),
    (function('%a = "d.a"() : () -> f32', "return"), "2:3", "'%a' is defined already"),
    (function('%b, %c = "d.a"() : () -> f32', "return"), "2:3", "d.a has 1 results, 2 are named"),
    (function("%b = arith.constant 1 : i32", "return"), "2:8", "expected an op in the generic form, found 'arith.constant'"),
    (function('"d.br"()[^bb1] : () -> ()', "return"), "2:11", "d.br has successors, which are not read"),
    (function("return", "^bb1:", "return"), "3:3", "expected '}' after the function's body, found '^'"),
    (function('"d.a"() : () -> ()'), "3:1", "the body of func.func must end with return"),
    (function("return %a : tensor<2xf32>"), "2:3", "(tensor<2xf32>) is returned, but the function yields ()"),
    (function('"d.a"() {mlir.types = 1} : () -> ()', "return"), "2:11", "the attribute name 'mlir.types' is reserved"),
    (function('"d.a"() <{a}> {a} : () -> ()', "return"), "2:17", "'a' is a property and an attribute"),
    (function("return") + function("return"), "4:11", "'@f' is defined already"),
    ("module {\n  module {}\n}", "2:3", "a module inside a module is not read"),
    ("module {", "1:9", "expected '}' after the module's body, found the end of the text"),
    ("module {} extra", "1:11", "expected the end of the text, found 'extra'"),
    ('"func.func"() ({ "func.return"() : () -> () }) : () -> ()', "1:12", "func.func needs the attributes sym_name and function_type"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "location", "message"), REFUSED, ids=[message for _, _, message in REFUSED])
def test_errors_say_where(text, location, message):
    with pytest.raises(HloomError, match=re.escape(message)) as caught:
        mlir.parse(Source(text, "m.mlir"))
    assert str(caught.value).startswith(f"m.mlir:{location}: {message}\n  {text.splitlines()[int(location[0]) - 1]}\n")


def test_regions_nested_too_deep_are_refused():
    opening = '"d.a"() ({' * 5000
    with pytest.raises(HloomError, match="nested deeper than 100 levels"):
        mlir.parse(opening)
    inside = '"d.a"() ({\n' * 90 + "}) : () -> ()\n" * 90
    assert mlir.parse(mlir.to_text(mlir.parse(inside))).node_count == 91


def test_the_generic_form_of_stablehlo_is_printed_back_unchanged():
    pytest.importorskip("jaxlib")
    from benchmarks import peers
    from benchmarks.programs import training_step
    from tests.test_benchmarks import TINY

    text = peers.generic_mlir(training_step(TINY, False).text).rstrip() + "\n"
    assert mlir.to_text(mlir.parse(text)) == text


def test_an_empty_text_is_an_empty_module():
    assert mlir.to_text(mlir.parse("// nothing\n")) == ""
    assert mlir.to_text(mlir.parse("module {}")) == "module {\n}\n"


def test_generic_functions_are_graphs_whatever_the_age_of_their_form():
    old = """"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: f32):
    "func.return"(%arg0) : (f32) -> ()
  }) {function_type = (f32) -> f32, sym_name = "f"} : () -> ()
  "func.func"() ({
  }) {function_type = () -> (), sym_name = "g"} : () -> ()
}) {a.b} : () -> ()
"""
    module = mlir.parse(old)
    assert module.entry.name == "f"
    assert [graph.name for graph in module.declared] == ["g"]
    assert mlir.to_text(module) == old


def test_what_mlir_cannot_say_is_not_printed():
    module = hlo.parse("ENTRY e { x = f32[2] parameter(0) ROOT c = f32[] constant(1) }")
    with pytest.raises(Unsupported, match="is not a value of this function"):
        mlir.to_text(module)
    bounded = hlo.parse("ENTRY e { ROOT x = f32[<=2] parameter(0) }")
    with pytest.raises(Unsupported, match="MLIR's tensors have no bounded dimensions"):
        mlir.to_text(bounded)


PIECES = [
    '"',
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    "[",
    "]",
    "%",
    "@",
    "#",
    "!",
    ":",
    "->",
    "^",
    "\\",
    "0x",
    "9" * 30,
    "-",
    "\0",
    "é",
    "\n",
    " loc(",
    "dense<",
    "array<",
    "tensor<",
    "x",
    "?",
    ",",
    "=",
]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_texts_raise_nothing_but_our_errors(seed):
    choose = random.Random(seed)
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.mlir"))]
    texts.append(function('%p:2 = "d.a"(%a) <{k = dense<[1, 2]> : tensor<2xi32>}> ({', "^bb0(%q: (f32) -> f32):", '}) {a = #d.x<[1]>, b = array<i32: 1>, c = @a::@b, d = !d.t<1>} : (tensor<2xf32>) -> (i32, !d.t)', "return"))  # fmt: skip
    for _ in range(150):
        text = choose.choice(texts)
        for _ in range(choose.randrange(1, 4)):
            at = choose.randrange(len(text) + 1)
            end = min(len(text), at + choose.choice([0, 0, 1, 5, 200]))
            text = text[:at] + choose.choice([*PIECES, ""]) + text[end:]
        text = text[: choose.randrange(len(text) + 1)] if choose.random() < 0.2 else text
        try:
            mlir.to_text(mlir.parse(text))
        except HloomError:
            continue
