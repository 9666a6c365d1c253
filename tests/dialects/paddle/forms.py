"""Passes in every form that RegisterPass takes, for Paddle's bytes and ours; `api` is as in `examples.py`."""

from __future__ import annotations

from typing import Any


def define(api: Any) -> None:
    """Register all passes with an API: `hloom.dialects.paddle`, or Paddle's own."""
    for function in (
        conv_batch_norm, matmul_add, gelu, gelu_tanh, attention, conditions, conditions_of_ops, specified, pairs,
        written_over, slots, several, custom_attributes, typed_values, usual_values, mapped, unused, nothing_made,
    ):  # fmt: skip
        function(api)


def conv_batch_norm(api: Any) -> None:
    """Attributes at and beside their defaults; the replacement reads what the pattern says."""

    @api.RegisterPass
    def conv_batch_norm():
        op = api.PassDesc.OP

        def pattern(x, filter, scale, bias, mean, variance):
            conv = op.conv2d(Input=x, Filter=filter)
            conv.SetAttr("strides", [1, 1])
            conv.SetAttr("paddings", [1, 1])
            conv.SetAttr("groups", 1)
            norm = op.batch_norm(X=conv.Output("Output"), Scale=scale, Bias=bias, Mean=mean, Variance=variance)
            norm.SetAttr("is_test", True)
            norm.SetAttr("epsilon", 1e-5)
            norm.SetAttr("momentum", 0.9)
            return norm.Output("Y")

        def replace(x, filter, scale, bias, mean, variance):
            deviation = op.sqrt(X=op.scale(X=variance))
            factor = op.elementwise_div(X=scale, Y=deviation)
            weights = op.elementwise_mul(X=filter, Y=factor)
            weights.SetAttr("axis", 0)
            conv = op.conv2d(Input=x, Filter=weights)
            for name in ("strides", "paddings", "dilations", "groups", "data_format"):
                conv.Attr(name).MappedPattern(op="conv2d", name=name)
            shifted = op.elementwise_sub(X=bias, Y=op.elementwise_mul(X=mean, Y=factor))
            total = op.elementwise_add(X=conv.Output("Output"), Y=shifted)
            total.SetAttr("axis", 1)
            return total

        return pattern, replace


def matmul_add(api: Any) -> None:
    @api.RegisterPass
    def matmul_add():
        op = api.PassDesc.OP

        def pattern(x, w, b):
            product = op.matmul_v2(X=x, Y=w)
            product.SetAttr("trans_x", False)
            product.SetAttr("trans_y", False)
            w.Attr("shape").Size().EQ(2)
            b.Attr("shape").Size().EQ(1)
            return op.elementwise_add(X=product, Y=b)

        def replace(x, w, b):
            fc = op.fc(Input=x, W=w, Bias=b)
            fc.SetAttr("in_num_col_dims", x.Attr("shape").Size() - 1)
            fc.SetAttr("activation_type", "")
            return fc

        return pattern, replace


def gelu(api: Any) -> None:
    @api.RegisterPass
    def gelu():
        op = api.PassDesc.OP

        def pattern(x):
            scaled = op.scale(X=x)
            scaled.SetAttr("scale", 0.7071067811865475)
            one_more = op.scale(X=op.erf(X=scaled))
            one_more.SetAttr("bias", 1.0)
            half = op.scale(X=x)
            half.SetAttr("scale", 0.5)
            return op.elementwise_mul(X=half, Y=one_more)

        def replace(x):
            made = op.gelu(X=x)
            made.SetAttr("approximate", False)
            return made

        return pattern, replace


def gelu_tanh(api: Any) -> None:
    @api.RegisterPass
    def gelu_tanh():
        op = api.PassDesc.OP

        def pattern(x):
            cube = op.pow(X=x)
            cube.SetAttr("factor", 3)
            small = op.scale(X=cube)
            small.SetAttr("scale", 0.044715)
            inner = op.scale(X=op.elementwise_add(X=x, Y=small))
            inner.SetAttr("scale", 0.7978845608)
            curve = op.scale(X=op.tanh(X=inner))
            curve.SetAttr("bias", 1)
            half = op.scale(X=op.elementwise_mul(X=x, Y=curve))
            half.SetAttr("scale", 0.5)
            return half

        def replace(x):
            made = op.gelu(X=x)
            made.SetAttr("approximate", True)
            return made

        return pattern, replace


def attention(api: Any) -> None:
    """Conditions on the shapes of three inputs, stated in another order than that of the inputs."""

    @api.RegisterPass
    def attention():
        op = api.PassDesc.OP

        def pattern(query, key, value):
            value.Attr("shape").Size().EQ(4)
            key.Attr("shape")[3].Mod(8).EQ(0)
            key.Attr("shape").Size().EQ(4)
            query.Attr("shape")[-1].EQ(64)
            scores = op.matmul_v2(X=query, Y=key)
            scores.SetAttr("trans_y", True)
            scores.SetAttr("trans_x", False)
            scaled = op.scale(X=scores)
            scaled.SetAttr("scale", 0.125)
            weights = op.softmax(X=scaled)
            weights.SetAttr("axis", -1)
            return op.matmul_v2(X=weights, Y=value)

        def replace(query, key, value):
            made = op.flash_attn(q=query, k=key, v=value)
            made.SetAttr("causal", True)
            made.SetAttr("dropout", 0.0)
            made.SetAttr("return_softmax", False)
            return made.Output("out")

        return pattern, replace


def conditions(api: Any) -> None:
    """Every form of a condition; those of an attribute stand before those of its elements."""

    @api.RegisterPass
    def conditions():
        op = api.PassDesc.OP

        def pattern(x, y, z):
            z.Attr("shape")[0].EQ(1)
            dims = x.Attr("shape")
            (dims[1] - 1).EQ(7)
            dims[0].Mod(4).EQ(0)
            dims[0].EQ(2)
            dims[0].EQ(8)
            dims.Size().EQ(2)
            (dims.Size() + 1).EQ(3)
            y.Attr("shape")[0].EQ(x.Attr("shape")[1])
            y.Attr("shape").EQ(x.Attr("shape"))
            (y.Attr("shape")[1] - x.Attr("shape")[0]).EQ(0)
            first = dims[-1]
            first.EQ(16)
            (first - 2).EQ(14)
            first.Mod(3).EQ(1)
            y.Attr("shape").EQ(z.Attr("shape"))
            return op.elementwise_add(X=op.elementwise_mul(X=x, Y=y), Y=z)

        return pattern, lambda x, y, z: op.sum(X=[x, y, z])


def conditions_of_ops(api: Any) -> None:
    """Paddle takes conditions on attributes of ops, and does not write them."""

    @api.RegisterPass
    def conditions_of_ops():
        op = api.PassDesc.OP

        def pattern(x, y):
            weights = op.softmax(X=op.matmul_v2(X=x, Y=y))
            weights.Attr("axis").EQ(-1)
            x.Attr("shape").Size().EQ(2)
            return weights

        def replace(x, y):
            made = op.matmul_v2(X=x, Y=y)
            made.Attr("trans_x").MappedPattern(op="matmul_v2", name="trans_x")
            return op.relu(X=made)

        return pattern, replace


def specified(api: Any) -> None:
    """Input specifications, with conditions beside them; an input that the pass yields as well."""

    @api.RegisterPass(input_specs={"y": api.InputSpec([16, -1], "float32"), "x": api.InputSpec([4, 16])})
    def specified():
        op = api.PassDesc.OP

        def pattern(x, y, z):
            z.Attr("shape").Size().EQ(2)
            y.Attr("shape")[0].EQ(16)
            x.Attr("shape").Size().EQ(2)
            return op.elementwise_add(X=op.matmul_v2(X=x, Y=y), Y=z), op.tanh(X=z)

        def replace(x, y, z):
            fc = op.fc(Input=x, W=y, Bias=z)
            return fc, op.tanh(X=z)

        return pattern, replace


def pairs(api: Any) -> None:
    """Several pairs; variables are numbered through all of them."""

    @api.RegisterPass
    def pairs():
        op = api.PassDesc.OP

        def pair(activation):
            def pattern(x, y):
                return getattr(op, activation)(X=op.elementwise_add(X=x, Y=y))

            def replace(x, y):
                made = op.fused_elemwise_activation(X=x, Y=y)
                made.SetAttr("functor_list", [activation, "elementwise_add"])
                made.SetAttr("save_intermediate_out", True)
                return made.Output("Out")

            return pattern, replace

        return [pair("relu"), pair("tanh"), pair("sigmoid")]


def written_over(api: Any) -> None:
    @api.RegisterPass
    def written_over():
        op = api.PassDesc.OP

        def pattern(x, scale, bias, mean, variance):
            norm = op.batch_norm
            norm._outputs.pop("ReserveSpace")
            return op.relu(X=norm(X=x, Scale=scale, Bias=bias, Mean=mean, Variance=variance).Output("Y"))

        def replace(x, scale, bias, mean, variance):
            norm = op.batch_norm(X=x, Mean=mean, Variance=variance, Bias=bias, Scale=scale)
            norm.SetOutputs(ReserveSpace=None, VarianceOut=variance, MeanOut=mean)
            norm.SetAttr("momentum", 0.5)
            norm.Attr("epsilon").MappedPattern(op="batch_norm", index=0, name="epsilon")
            return op.relu(X=norm.Output("Y"))

        return pattern, replace


def slots(api: Any) -> None:
    """Ops that are named before they are called, slots in another order than the op's, slots taken away."""

    @api.RegisterPass
    def slots():
        op = api.PassDesc.OP

        def pattern(x, weights, ids):
            outer, inner = op.layer_norm, op.lookup_table_v2
            dropout = op.dropout
            dropout._inputs.pop("Seed")
            dropout._outputs.pop("Mask")
            dropout.SetAttr("is_test", True)
            dropout.SetAttr("dropout_implementation", "upscale_in_train")
            embedded = inner(W=weights, Ids=ids)
            return outer(X=dropout(X=op.elementwise_add(Y=embedded, X=x))).Output("Y")

        def replace(x, weights, ids):
            embedded = op.lookup_table_v2(Ids=ids, W=weights)
            made = op.layer_norm(X=op.elementwise_add(X=x, Y=embedded))
            made.SetAttr("begin_norm_axis", x.Attr("shape").Size() - 1)
            return made.Output("Y")

        return pattern, replace


def several(api: Any) -> None:
    """Several variables in a slot, several results, results by `Outputs`."""

    @api.RegisterPass
    def several():
        op = api.PassDesc.OP

        def pattern(x, y):
            joined = op.concat(X=[x, op.tanh(X=y)])
            joined.SetAttr("axis", 1)
            flat = op.reshape2(X=joined)
            flat.SetAttr("shape", [-1, 8])
            return flat.Outputs()["Out"][0], op.relu(X=x), op.transpose2(X=y).Output("Out")[0]

        def replace(x, y):
            turned = op.transpose2(X=y)
            turned.Attr("axis").MappedPattern(op="transpose2", name="axis")
            flat = op.reshape2(X=op.concat(X=(x, y)))
            flat.SetAttr("shape", (-1, 8))
            return [flat.Output("Out")[0], op.relu(X=x), turned.Output("Out")[0]]

        return pattern, replace


def custom_attributes(api: Any) -> None:
    """Attributes of every op, and such as no op has."""

    @api.RegisterPass
    def custom_attributes():
        op = api.PassDesc.OP

        def pattern(x):
            made = op.relu(X=x)
            made.SetAttr("op_role", 0)
            made.SetAttr("op_device", "gpu:0")
            made.SetAttr("op_namescope", "/block/")
            made.SetAttr("with_quant_attr", False)
            made.SetAttr("zeal", 3)
            made.SetAttr("Zeal", 2.5)
            made.SetAttr("awake", True)
            made.SetAttr("use_cudnn", True)
            made.SetAttr("use_mkldnn", True)
            return made

        def replace(x):
            made = op.tanh(X=x)
            made.SetAttr("op_role", 4096)
            made.SetAttr("with_quant_attr", True)
            made.SetAttr("names", ["b", "a"])
            made.SetAttr("numbers", [1, 1 << 40])
            made.SetAttr("flags", [True, False])
            made.SetAttr("mixed", [1, 2.5])
            made.SetAttr("nothing", [])
            made.SetAttr("large", 1 << 31)
            made.SetAttr("text", "")
            return made

        return pattern, replace


def typed_values(api: Any) -> None:
    """Values of another type than the op's: Paddle takes what it is given, but for flags."""

    @api.RegisterPass
    def typed_values():
        op = api.PassDesc.OP

        def pattern(x):
            power = op.pow(X=x)
            power.SetAttr("factor", 2)
            scaled = op.scale(X=power)
            scaled.SetAttr("scale", 3)
            scaled.SetAttr("bias_after_scale", 0)
            total = op.reduce_sum(X=scaled)
            total.SetAttr("dim", [1])
            total.SetAttr("keep_dim", 1)
            return total

        def replace(x):
            made = op.fill_constant()
            made.SetAttr("shape", [2, 3])
            made.SetAttr("value", 2)
            made.SetAttr("dtype", 6)
            best = op.arg_max(X=op.elementwise_add(X=x, Y=made))
            best.SetAttr("axis", True)
            return best

        return pattern, replace


def usual_values(api: Any) -> None:
    """Values that equal defaults, in each type; and a required attribute of the value that others have by default."""

    @api.RegisterPass
    def usual_values():
        op = api.PassDesc.OP

        def pattern(x):
            pooled = op.pool2d(X=x)
            pooled.SetAttr("pooling_type", "max")
            pooled.SetAttr("ksize", [2, 2])
            pooled.SetAttr("strides", [1, 1])
            pooled.SetAttr("global_pooling", False)
            clipped = op.clip(X=pooled)
            clipped.SetAttr("min", 0.0)
            clipped.SetAttr("max", 6.0)
            return clipped

        def replace(x):
            made = op.anchor_generator(Input=x)
            made.SetAttr("stride", [16, 16])
            made.SetAttr("offset", 0.5)
            made.SetAttr("anchor_sizes", [64.0])
            made.SetAttr("aspect_ratios", [0.5, 1, 2])
            made.SetAttr("variances", [0.1, 0.1, 0.2, 0.2])
            return made.Output("Anchors")

        return pattern, replace


def mapped(api: Any) -> None:
    """Attributes of the replacement from those of the pattern, in every way, in the order in which they are asked for."""

    @api.RegisterPass
    def mapped():
        op = api.PassDesc.OP

        def pattern(x, y):
            first, second = op.scale(X=x), op.scale(X=y)
            turned = op.transpose2(X=op.elementwise_add(X=first, Y=second))
            return turned.Output("Out")

        def replace(x, y):
            made = op.scale(X=x)
            made.Attr("scale").MappedPattern(op="scale", index=1, name="scale")
            made.Attr("bias").MappedPattern(op="scale", name="bias")
            made.SetAttr("bias_after_scale", False)
            joined = op.concat(X=[made, y])
            joined.Attr("axis").MappedPattern(op="transpose2", name="axis", element_index=1)
            weights = op.softmax(X=joined)
            weights.SetAttr("axis", x.Attr("shape")[0] - 1)
            flat = op.flatten2(X=weights)
            flat.SetAttr("axis", y.Attr("shape")[-1].Mod(4))
            last = op.layer_norm(X=flat.Output("Out"))
            last.SetAttr("begin_norm_axis", x.Attr("shape").Size() + 1)
            norm = op.softmax(X=last.Output("Y"))
            norm.SetAttr("axis", x.Attr("shape")[1])
            return norm

        return pattern, replace


def unused(api: Any) -> None:
    """An input that the replacement does not read, and outputs that nothing reads."""

    @api.RegisterPass
    def unused():
        op = api.PassDesc.OP

        def pattern(x, spare):
            best = op.top_k_v2(X=x, K=spare)
            best.SetAttr("k", 1)
            return best.Output("Out")[0], op.relu(X=best.Output("Indices"))

        def replace(x, spare):
            best = op.top_k_v2(X=x)
            best.Attr("k").MappedPattern(op="top_k_v2", name="k")
            return best.Output("Out")[0], op.relu6(X=best.Output("Indices"))

        return pattern, replace


def nothing_made(api: Any) -> None:
    @api.RegisterPass
    def nothing_made():
        op = api.PassDesc.OP
        return lambda x: op.relu(X=op.relu(X=x)), lambda x: x
