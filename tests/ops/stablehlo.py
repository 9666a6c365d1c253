"""The same op on the same types, in StableHLO and in HLO: does its verifier take it, do we infer it?"""

from __future__ import annotations

from hloom.ir import TensorType

from .oracle import module_text, ours, stablehlo

ELEMENTS = {"pred": "i1", "c64": "complex<f32>", "c128": "complex<f64>"}


def verified(op: str, attributes: str, kinds: list[TensorType], result: TensorType) -> bool:
    """Whether StableHLO takes an op on operands of these types with this result."""
    names = ", ".join(f"%p{n}" for n in range(len(kinds)))
    texts = [mlir(operand_type) for operand_type in kinds]
    parameters = ", ".join(f"%p{n}: {text}" for n, text in enumerate(texts))
    line = f'"stablehlo.{op}"({names}) {{{attributes}}} : ({", ".join(texts)}) -> {mlir(result)}'
    return not stablehlo(f"func.func @f({parameters}) -> {mlir(result)} {{\n%r = {line}\nreturn %r : {mlir(result)} }}")


def accepted(instruction: str, kinds: list[TensorType], result: TensorType) -> bool:
    """Whether we infer this very type."""
    return ours(module_text(f"{result} {instruction}", [str(operand_type) for operand_type in kinds])) is result


def longs(values: list[int]) -> str:
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


def mlir(tensor_type: TensorType) -> str:
    """A static type in MLIR's text."""
    name = tensor_type.dtype.name
    element = ELEMENTS.get(name)
    if element is None:
        signed = {"s": "i", "u": "ui"}.get(name[0])
        float8 = name[0] + name[1:].upper() if name.startswith(("f8", "f4")) else name
        element = f"{signed}{name[1:]}" if signed else float8
    return f"tensor<{''.join('?x' if size < 0 else f'{size}x' for size in tensor_type.dims)}{element}>"
