# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
"""Paddle itself, in its own environment: builds programs, applies passes to them, and runs them.

    python client.py build FOLDER      programs
    python client.py apply FOLDER      each pass (PASS.pass) applied to its program; what raised is noted
    python client.py run FOLDER        each program that was rewritten here (NAME.ours.pb), as Paddle's own
    python client.py serialise FOLDER  what Paddle serialises of the passes of `examples.py` and `forms.py` (PASS.pb)
    python client.py draw FOLDER       the same of the passes of drawn.json (drawn.txt)
    python client.py describe FOLDER   what it knows of its ops (ops.toml, extras.toml) and messages (*.descriptor)

A program of its own, because Paddle lives in a virtual environment without hloom.
"""

from __future__ import annotations

import json
import sys
import types
import zlib
from pathlib import Path

import numpy as np

if __name__ == "__main__":  # pytest looks into this file too, where there is no Paddle
    import drawn
    import examples
    import forms
    import paddle
    from paddle.base import core
    from paddle.base.framework import IrGraph, OpProtoHolder
    from paddle.base.proto import framework_pb2, pass_desc_pb2
    from paddle.incubate.passes import ir

    F = paddle.nn.functional


def data(name, dims):
    return paddle.static.data(name, dims, "float32")


def weights(name, dims):
    return paddle.static.create_parameter(dims, "float32", name=name)


def linear():
    x = data("x", [10, 16])
    return F.relu(paddle.add(paddle.matmul(x, weights("w", [16, 8])), weights("b", [8])))


def linear_with_relu():
    x = data("x", [10, 16])
    hidden = F.relu(old_linear(x, 32, "first"))
    return old_linear(hidden, 4, "second")


def old_linear(x, size, name):
    """mul and elementwise_add, as paddle.static.nn.fc makes them."""
    block = paddle.static.default_main_program().current_block()
    w, b = weights(name + "_w", [x.shape[1], size]), weights(name + "_b", [size])
    product, total = (block.create_var(name=name + suffix, dtype="float32") for suffix in ("_product", "_total"))
    slots = {"x_num_col_dims": 1, "y_num_col_dims": 1}
    block.append_op(type="mul", inputs={"X": x, "Y": w}, outputs={"Out": product}, attrs=slots)
    block.append_op(type="elementwise_add", inputs={"X": product, "Y": b}, outputs={"Out": total}, attrs={"axis": -1})
    return total


def sums():
    x, y, z = data("x", [10, 10]), data("y", [10, 10]), data("z", [10, 10])
    kept = paddle.add(x, y)
    return paddle.matmul(paddle.add(paddle.add(x, y), z), paddle.matmul(paddle.add(kept, z), kept))


def double_transpose():
    x = data("x", [10, 16, 16])
    kept = paddle.transpose(x, [0, 2, 1])
    twice = paddle.transpose(paddle.transpose(x, [0, 2, 1]), [0, 2, 1])
    return paddle.add(twice, paddle.matmul(paddle.transpose(kept, [0, 2, 1]), kept))


def products():
    x = data("x", [16, 32])
    first, second = paddle.matmul(x, data("y", [32, 12])), paddle.matmul(x, data("z", [32, 48]))
    return paddle.concat([F.relu(first), paddle.tanh(second)], axis=1)


def scaled():
    x, y = data("x", [4, 8]), data("y", [8, 16])
    return paddle.matmul(paddle.scale(x, 3.0), y) + paddle.matmul(paddle.scale(x, 2.0, bias=1.0), y)


def layer_norm():
    x = data("x", [3, 64, 120])
    centred = x - paddle.mean(x, axis=-1, keepdim=True)
    deviation = (paddle.mean(centred.pow(2), axis=-1, keepdim=True) + 1e-5).sqrt()
    return centred / deviation * weights("gamma", [120]) + weights("beta", [120])


def by_shape():
    return paddle.concat([F.relu(data("x", [4, 8])), F.relu(data("y", [2, 8]))], axis=0)


def training():
    x, y = data("x", [6, 16]), paddle.static.data("y", [6, 1], "int64")
    hidden = F.dropout(paddle.static.nn.batch_norm(paddle.static.nn.fc(x, 8, activation="relu")), 0.5)
    loss = paddle.mean(F.cross_entropy(paddle.static.nn.fc(hidden, 4), y))
    paddle.optimizer.Adam(0.01).minimize(loss)
    return loss


def looping():
    count = paddle.full([1], 0, "int64")
    loop = paddle.static.nn.while_loop(lambda i: i < 10, lambda i: [i + 1], [count])
    return paddle.increment(paddle.cast(loop[0], "float32"))


PROGRAMS = [
    linear, linear_with_relu, sums, double_transpose, products, scaled, layer_norm, by_shape, training, looping,
]  # fmt: skip


def build(folder: Path) -> None:
    outputs = {}
    for make in PROGRAMS:
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()), paddle.utils.unique_name.guard():
            outputs[make.__name__] = make().name
        (folder / f"{make.__name__}.pb").write_bytes(program.desc.serialize_to_string())
    (folder / "outputs.json").write_text(json.dumps(outputs))


def serialise(folder: Path) -> None:
    """Each pass as in a process of its own: Paddle numbers variables through all that it serialises."""
    api = types.SimpleNamespace(RegisterPass=ir.RegisterPass, PassDesc=ir.PassDesc, InputSpec=paddle.static.InputSpec)
    already = len(ir.RegisterPassHelper._register_helpers)
    for passes in (examples, forms):
        passes.define(api)
    for helper in ir.RegisterPassHelper._register_helpers[already:]:
        with paddle.utils.unique_name.guard():
            (folder / f"{helper._pass_type}.pb").write_bytes(helper.SerializeMultiPassDesc())


def draw(folder: Path) -> None:
    """What Paddle serialises of the passes of drawn.json."""

    def serialised(pairs, sizes) -> bytes:
        specs = {name: paddle.static.InputSpec(dims) for name, dims in sizes.items()}
        with paddle.utils.unique_name.guard():
            return ir.RegisterPassHelper(pairs, "drawn", specs).SerializeMultiPassDesc()

    drawn.serialise(folder, ir.PassDesc.OP, serialised)


def apply(folder: Path) -> None:
    outputs, said = json.loads((folder / "outputs.json").read_text()), {}
    for pass_path in sorted(folder.glob("*.pass")):
        program = paddle.static.Program.parse_from_string((folder / f"{pass_path.stem.split('-')[0]}.pb").read_bytes())
        name = "hloom_" + pass_path.stem
        core.register_pass(name, pass_path.read_bytes)
        graph = core.Graph(program.desc)
        try:
            core.get_pass(name).apply(graph)
        except Exception as error:
            said[pass_path.stem] = f"{type(error).__name__}: {error}"
            continue
        after = IrGraph(graph).to_program()
        (folder / f"{pass_path.stem}.theirs.pb").write_bytes(after.desc.serialize_to_string())
        output = outputs[pass_path.stem.split("-")[0]]
        said[pass_path.stem] = difference(run_one(program, output), run_one(after, output))
    (folder / "said.json").write_text(json.dumps(said))


def run(folder: Path) -> None:
    outputs, said = json.loads((folder / "outputs.json").read_text()), {}
    for our_path in sorted(folder.glob("*.ours.pb")):
        name = our_path.name.split(".")[0]
        program, ours = (
            paddle.static.Program.parse_from_string(program_path.read_bytes())
            for program_path in (folder / f"{name}.pb", our_path)
        )
        said[name] = difference(run_one(program, outputs[name]), run_one(ours, outputs[name]))
    (folder / "ran.json").write_text(json.dumps(said))


def run_one(program, output: str):
    """The value of a variable, with numbers for inputs and parameters that follow from their names."""
    scope, feed = core.Scope(), {}
    written = {name for op in program.global_block().ops for name in op.output_arg_names}
    for name, variable in program.global_block().vars.items():
        if variable.persistable:
            scope.var(name).get_tensor().set(numbers(name, variable.shape), paddle.CPUPlace())
        elif name not in written and any(name in op.input_arg_names for op in program.global_block().ops):
            feed[name] = numbers(name, variable.shape)
    with paddle.static.scope_guard(scope):
        return paddle.static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=[output])[0]


def numbers(name: str, dims):
    return np.random.RandomState(zlib.crc32(name.encode())).standard_normal(dims).astype("float32")


def difference(before, after) -> float:
    return float(np.max(np.abs(before - after) / (1 + np.abs(before))))


COMMON = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr"}
"""The attributes of every op, which the table leaves out."""


EXTRAS = """
    Scale_in Scale_in_eltwise Scale_out Scale_weights Scale_x Scale_y beta custom_neg_classes data_format epmap
    exhaustive_search fix_seed force_cpu force_fp32_output fuse_activation fuse_alpha fuse_beta fuse_relu
    fuse_relu_before_depthwise_conv fuse_residual_connection fuse_with_relu height_sections is_distributed
    is_sparse is_test mkldnn_data_type moving_rate remote_prefetch rng_name round_type scale_out scale_x scale_y
    seed skip_eager_deletion_vars slot table_names threshold trainer_id use_addto use_cudnn use_mkldnn
    use_quantizer workspace_size_MB x_data_format y_data_format
"""
"""Attributes that some op takes at run time: of all names of attributes and strings in libpaddle, those that come first."""


def extras() -> str:
    """extras.toml: for each such attribute, whether it is a flag, and its ops."""
    program, takes = paddle.static.Program(), {}
    block = program.current_block().desc
    for type in sorted(OpProtoHolder.instance().op_proto_map):
        op = block.append_op()
        op.set_type(type)
        for name in ("\x01", *EXTRAS.split()):
            op._set_attr(name, True)
        for attribute in framework_pb2.OpDesc.FromString(op.serialize_to_string()).attrs:
            if attribute.name == "\x01":
                break
            label = "flag" if attribute.type == framework_pb2.AttrType.BOOLEAN else "any"
            takes.setdefault((attribute.name, label), []).append(type)
    return "".join(f"{name} = ['{label}', '{' '.join(types)}']\n" for (name, label), types in sorted(takes.items()))


def describe(folder: Path) -> None:
    ops = OpProtoHolder.instance().op_proto_map
    (folder / "ops.toml").write_text("".join(f"{type} = {line(ops[type])}\n" for type in sorted(ops)))
    (folder / "extras.toml").write_text(extras())
    for module in (framework_pb2, pass_desc_pb2):
        name = module.__name__.rpartition(".")[2]
        (folder / f"{name}.descriptor").write_bytes(module.DESCRIPTOR.serialized_pb)


def line(op) -> str:
    """An op as a line of ops.toml: input slots, output slots, attributes."""
    defaults = core.get_op_attrs_default_value(op.type.encode())
    kinds = framework_pb2.AttrType.Name
    attributes = [
        [attribute.name, kinds(attribute.type), *([defaults[attribute.name]] if attribute.name in defaults else [])]
        for attribute in op.attrs
        if attribute.name not in COMMON
    ]
    written = json.dumps(attributes, separators=(",", ":"))
    return f"['{' '.join(map(slot, op.inputs))}', '{' '.join(map(slot, op.outputs))}', '{written}']"


def slot(slot) -> str:
    marks = (("?", slot.dispensable), ("*", slot.duplicable), ("~", slot.intermediate))
    return slot.name + "".join(mark for mark, holds in marks if holds)


if __name__ == "__main__":
    paddle.enable_static()
    {function.__name__: function for function in (build, apply, run, serialise, draw, describe)}[sys.argv[1]](Path(sys.argv[2]))
