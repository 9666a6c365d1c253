"""Peers of hloom's quantisation on the models of scripts/quantizer_models.py: Qwix, AQT and ONNX Runtime.

Each is a function that yields recipes and the relative errors of the output on the input that is not calibrated with.
Recipes that a peer does not have are left out.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scripts.quantizer_models import EPSILON, JaxOperations, Model, relative

OPSET = 17
Errors = Iterator[tuple[str, float]]


def qwix_errors(model: Model) -> Errors:
    """Through a flax model: its Dense and Conv layers are what Qwix quantises.

    Static ranges are those of its statistics: a QAT provider sees the batches, quantize_params takes them over.
    Convolutions have no recipe for weights alone.
    """
    import qwix  # pyright: ignore[reportMissingImports]
    from flax import linen  # pyright: ignore[reportMissingImports]

    class Operations(JaxOperations):
        def dot(self, x: Any, name: str) -> Any:
            return linen.Dense(self.params[name].shape[1], use_bias=False, dtype=jnp.float32, name=name)(x)

        def convolution(self, x: Any, name: str, stride: int) -> Any:
            count = self.params[name].shape[0]
            window = {"kernel_size": (3, 3), "strides": (stride, stride), "padding": ((1, 1), (1, 1))}
            layer = linen.Conv(count, **window, use_bias=False, dtype=jnp.float32, name=name)
            return layer(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    class Layers(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return model.network(Operations(model.params), x)

    def kernel(value: np.ndarray) -> Any:
        return jnp.asarray(value.transpose(2, 3, 1, 0) if value.ndim == 4 else value)

    held = {name: {"kernel": kernel(model.params[name])} for name in model.layers}
    rules: dict[str, dict[str, Any]] = {
        "weights int8": {"weight_qtype": "int8"},
        "weights int8:128": {"weight_qtype": "int8", "tile_size": 128},
        "weights int4": {"weight_qtype": "int4"},
        "weights int4:32": {"weight_qtype": "int4", "tile_size": 32},
        "weights int4:128": {"weight_qtype": "int4", "tile_size": 128},
        "dynamic int8": {"weight_qtype": "int8", "act_qtype": "int8"},
        "static int8, minmax": {"weight_qtype": "int8", "act_qtype": "int8", "act_static_scale": True},
    }
    *batches, unseen = map(jnp.asarray, model.batches)
    for name, rule in rules.items():
        if model.kernels and "act_qtype" not in rule:
            continue
        written = [qwix.QtRule(module_path="|".join(model.layers), **rule)]
        statistics: Any = {}
        if rule.get("act_static_scale"):
            trained = qwix.quantize_model(Layers(), qwix.QtProvider(written))
            for batch in batches:
                variables = {"params": held, **({"quant_stats": statistics} if statistics else {})}
                _, changed = trained.apply(variables, batch, mutable=["quant_stats"])
                statistics = changed["quant_stats"]
        quantized = qwix.quantize_model(Layers(), qwix.PtqProvider(written))
        shapes = jax.eval_shape(quantized.init, jax.random.key(0), unseen)["params"]
        converted = qwix.quantize_params(held, shapes, statistics)
        yield name, relative(quantized.apply({"params": converted}, unseen), model.exact)


class _ArrayTypes:
    """jax.numpy, but `promote_types` takes arrays too, as AQT 0.9.0 calls it and JAX 0.10 no longer allows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    def promote_types(self, a: Any, b: Any) -> Any:
        """The type that both convert to."""
        return jnp.promote_types(getattr(a, "dtype", a), getattr(b, "dtype", b))


def aqt_errors(model: Model) -> Errors:
    """Its dot_general and conv_general_dilated in the place of JAX's."""
    from aqt.jax.v2 import aqt_conv_general, aqt_dot_general, config  # pyright: ignore[reportMissingImports]

    aqt_dot_general.jnp = _ArrayTypes()

    class Operations(JaxOperations):
        bits: tuple[int | None, int | None]

        def dot(self, x: Any, name: str) -> Any:
            product = config.config_v4(fwd_bits=8)
            config.set_bits(product, *self.bits, None, None, None, None)
            return product(x, jnp.asarray(self.params[name]), (((x.ndim - 1,), (0,)), ((), ())))

        def convolution(self, x: Any, name: str, stride: int) -> Any:
            product = aqt_conv_general.make_conv_general_dilated(
                aqt_conv_general.conv_general_dilated_make(2, *self.bits)
            )
            lhs, rhs = x.transpose(0, 2, 3, 1), jnp.asarray(self.params[name].transpose(2, 3, 1, 0))
            dims = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, ("NHWC", "HWIO", "NHWC"))
            made = product(lhs, rhs, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=dims)
            return made.transpose(0, 3, 1, 2)

    for name, bits in {"weights int8": (None, 8), "weights int4": (None, 4), "dynamic int8": (8, 8)}.items():
        operations = Operations(model.params)
        operations.bits = bits
        yield name, relative(model.network(operations, jnp.asarray(model.batches[-1])), model.exact)


class OnnxOperations:
    """The operations of models as nodes of an ONNX graph; values are names."""

    def __init__(self, params: Mapping[str, np.ndarray]) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = dict(params)
        self.products: list[str] = []
        """The nodes that multiply with a weight."""

    def _node(self, operator: str, *operands: str, **attributes: Any) -> str:
        from onnx import helper  # pyright: ignore[reportMissingImports]

        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(operands), [name], name, **attributes))
        return name

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def dot(self, x: str, name: str) -> str:
        self.products.append(self._node("MatMul", x, name))
        return self.products[-1]

    def convolution(self, x: str, name: str, stride: int) -> str:
        self.products.append(self._node("Conv", x, name, strides=[stride] * 2, pads=[1] * 4))
        return self.products[-1]

    def scaled(self, x: str, name: str) -> str:
        return self._node("Mul", x, name)

    def add(self, x: str, y: str) -> str:
        return self._node("Add", x, y)

    def multiply(self, x: str, y: str) -> str:
        return self._node("Mul", x, y)

    def matmul(self, x: str, y: str) -> str:
        return self._node("MatMul", x, y)

    def mean(self, x: str, axes: tuple[int, ...], *, keepdims: bool = True) -> str:
        return self._node("ReduceMean", x, axes=axes, keepdims=int(keepdims))

    def relu(self, x: str) -> str:
        return self._node("Relu", x)

    def sigmoid(self, x: str) -> str:
        return self._node("Sigmoid", x)

    def softmax(self, x: str) -> str:
        return self._node("Softmax", x, axis=-1)

    def times(self, x: str, factor: float) -> str:
        return self._node("Mul", x, self._constant(np.float32(factor)))

    def root(self, x: str) -> str:
        return self._node("Sqrt", self._node("Add", x, self._constant(np.float32(EPSILON))))

    def divide(self, x: str, y: str) -> str:
        return self._node("Div", x, y)

    def reshape(self, x: str, dims: Sequence[int]) -> str:
        return self._node("Reshape", x, self._constant(np.asarray(dims, np.int64)))

    def transpose(self, x: str, order: Sequence[int]) -> str:
        return self._node("Transpose", x, perm=list(order))


def onnx_graph(model: Model) -> tuple[Any, list[str]]:
    """The model as an ONNX graph of input x and output y, and its products with weights."""
    from onnx import TensorProto, checker, helper, numpy_helper  # pyright: ignore[reportMissingImports]

    operations = OnnxOperations(model.params)
    result = model.network(operations, "x")
    operations.nodes[-1].output[0] = "y"
    assert operations.nodes[-1].name == result, "the last node yields the result"
    graph = helper.make_graph(
        operations.nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, model.batches[0].shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, model.exact.shape)],
        [numpy_helper.from_array(value, name) for name, value in operations.constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    checker.check_model(made, full_check=True)
    return made, operations.products


def onnxruntime_errors(model: Model) -> Errors:
    """Its quantisers on the same model in ONNX; of activations in u8 and s8 the better is taken.

    Weights alone are quantised by its MatMulNBits quantiser, which leaves convolutions.
    """
    import onnx  # pyright: ignore[reportMissingImports]
    from onnxruntime import quantization  # pyright: ignore[reportMissingImports]
    from onnxruntime.quantization.matmul_nbits_quantizer import (  # pyright: ignore[reportMissingImports]
        MatMulNBitsQuantizer,
    )

    logging.getLogger().setLevel(logging.ERROR)  # it says of every model that it may be prepared first
    whole, products = onnx_graph(model)
    *batches, unseen = model.batches
    exact = model.exact
    assert relative(_onnx_output(whole, unseen), exact) < 1e-5, "both compute the same"
    for bits, size, is_symmetric in ((8, 128, True), (4, 32, True), (4, 128, True), (4, 32, False), (4, 128, False)):
        if model.kernels:
            break
        weights = MatMulNBitsQuantizer(
            onnx.ModelProto.FromString(whole.SerializeToString()),
            bits=bits, block_size=size, is_symmetric=is_symmetric, nodes_to_include=products,
        )  # fmt: skip
        weights.process()
        name = f"weights int{bits}:{size}" + ("" if is_symmetric else ", zero points")
        yield name, relative(_onnx_output(weights.model.model, unseen), exact)
    types = (quantization.QuantType.QUInt8, quantization.QuantType.QInt8)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None):
        source, target = Path(folder, "whole.onnx"), Path(folder, "made.onnx")
        onnx.save(whole, source)
        quantization.quantize_dynamic(
            source, target, per_channel=True, weight_type=quantization.QuantType.QInt8, nodes_to_quantize=products
        )
        yield "dynamic int8", relative(_onnx_output(onnx.load(target), unseen), exact)
        methods = {
            "minmax": (quantization.CalibrationMethod.MinMax, {}),
            "percentile": (quantization.CalibrationMethod.Percentile, {"CalibPercentile": 99.99}),
        }
        for clipping, (method, options) in methods.items():
            errors: list[float] = []
            for activations in types:
                quantization.quantize_static(
                    source, target, _reader(batches), per_channel=True, activation_type=activations,
                    weight_type=quantization.QuantType.QInt8, nodes_to_quantize=products, calibrate_method=method,
                    extra_options={"ActivationSymmetric": activations is types[1], **options},
                )  # fmt: skip
                errors.append(relative(_onnx_output(onnx.load(target), unseen), exact))
            yield f"static int8, {clipping}", min(errors)


def _onnx_output(graph: Any, x: np.ndarray) -> np.ndarray:
    from onnxruntime import InferenceSession  # pyright: ignore[reportMissingImports]

    session = InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0]


def _reader(batches: Sequence[np.ndarray]) -> Any:
    """What yields the inputs to calibrate with, one by one, then None."""
    from onnxruntime.quantization import CalibrationDataReader  # pyright: ignore[reportMissingImports]

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter([{"x": batch} for batch in batches])

        def get_next(self) -> Any:
            return next(self.left, None)

    return Reader()
