"""Passes as users of Paddle write them; the same functions are registered here and, in the long test, in Paddle itself.

`api` is a module with RegisterPass, PassDesc and InputSpec: ours or Paddle's.
"""

from __future__ import annotations

from typing import Any


def define(api: Any) -> None:
    """Register all passes with an API: `hloom.dialects.paddle`, or Paddle's own."""
    for function in (linear, linear_with_relu, sums, double_transpose, products, scaled, layer_norm, by_shape):
        function(api)


def linear(api: Any) -> None:
    @api.RegisterPass
    def linear():
        def pattern(x, w, b):
            product = api.PassDesc.OP.matmul_v2(X=x, Y=w)
            return api.PassDesc.OP.elementwise_add(X=product, Y=b)

        def replace(x, w, b):
            fc = api.PassDesc.OP.fc(Input=x, W=w, Bias=b)
            fc.SetAttr("in_num_col_dims", x.Attr("shape").Size() - 1)
            return fc

        return pattern, replace


def linear_with_relu(api: Any) -> None:
    @api.RegisterPass
    def linear_with_relu():
        def pair(with_relu):
            def pattern(x, w, b):
                product = api.PassDesc.OP.mul(X=x, Y=w)
                total = api.PassDesc.OP.elementwise_add(X=product, Y=b)
                return api.PassDesc.OP.relu(X=total) if with_relu else total

            def replace(x, w, b):
                fc = api.PassDesc.OP.fc(Input=x, W=w, Bias=b)
                fc.Attr("in_num_col_dims").MappedPattern(op="mul", name="x_num_col_dims")
                if with_relu:
                    fc.SetAttr("activation_type", "relu")
                return fc

            return pattern, replace

        return [pair(True), pair(False)]


def sums(api: Any) -> None:
    @api.RegisterPass
    def sums():
        def pattern(x, y, z):
            inner = api.PassDesc.OP.elementwise_add(X=x, Y=y)
            return api.PassDesc.OP.elementwise_add(X=inner, Y=z)

        return pattern, lambda x, y, z: api.PassDesc.OP.sum(X=[x, y, z])


def double_transpose(api: Any) -> None:
    @api.RegisterPass(input_specs={"x": api.InputSpec([10, 16, 16])})
    def double_transpose():
        def pattern(x):
            first = api.PassDesc.OP.transpose2
            second = api.PassDesc.OP.transpose2
            first.SetAttr("axis", [0, 2, 1])
            second.SetAttr("axis", [0, 2, 1])
            return second(X=first(X=x).Output("Out")).Output("Out")

        return pattern, lambda x: x


def products(api: Any) -> None:
    @api.RegisterPass(input_specs={"y1": api.InputSpec([32, 12]), "y2": api.InputSpec([32, 48])})
    def products():
        def pattern(x, y1, y2):
            return api.PassDesc.OP.matmul_v2(X=x, Y=y1), api.PassDesc.OP.matmul_v2(X=x, Y=y2)

        def replace(x, y1, y2):
            weights = api.PassDesc.OP.concat(X=[y1, y2])
            weights.SetAttr("axis", 1)
            product = api.PassDesc.OP.matmul_v2(X=x, Y=weights)
            first, second = api.PassDesc.OP.slice(Input=product), api.PassDesc.OP.slice(Input=product)
            for column, start, end in ((first, 0, 12), (second, 12, 60)):
                column.SetAttr("axes", [1])
                column.SetAttr("starts", [start])
                column.SetAttr("ends", [end])
            return first, second

        return pattern, replace


def scaled(api: Any) -> None:
    @api.RegisterPass
    def scaled():
        def pattern(x, y):
            y.Attr("shape").Size().EQ(2)
            y.Attr("shape")[-1].Mod(8).EQ(0)
            scale = api.PassDesc.OP.scale(X=x)
            scale.SetAttr("bias", 0.0)
            return api.PassDesc.OP.matmul_v2(X=scale, Y=y)

        def replace(x, y):
            product = api.PassDesc.OP.matmul_v2(X=x, Y=y)
            product.Attr("trans_x").MappedPattern(op="matmul_v2", name="trans_x")
            product.Attr("trans_y").MappedPattern(op="matmul_v2", name="trans_y")
            scale = api.PassDesc.OP.scale(X=product)
            scale.Attr("scale").MappedPattern(op="scale", name="scale")
            return scale

        return pattern, replace


def layer_norm(api: Any) -> None:
    @api.RegisterPass
    def layer_norm():
        def pattern(x, gamma, beta):
            gamma.Attr("shape").Size().EQ(1)
            beta.Attr("shape").Size().EQ(1)
            mean = api.PassDesc.OP.reduce_mean(X=x)
            mean.SetAttr("dim", [-1])
            mean.SetAttr("keep_dim", True)
            centred = api.PassDesc.OP.elementwise_sub(X=x, Y=mean)
            square = api.PassDesc.OP.pow(X=centred)
            square.SetAttr("factor", 2.0)
            variance = api.PassDesc.OP.reduce_mean(X=square)
            variance.SetAttr("dim", [-1])
            variance.SetAttr("keep_dim", True)
            deviation = api.PassDesc.OP.sqrt(X=api.PassDesc.OP.scale(X=variance))
            normal = api.PassDesc.OP.elementwise_div(X=centred, Y=deviation)
            return api.PassDesc.OP.elementwise_add(X=api.PassDesc.OP.elementwise_mul(X=normal, Y=gamma), Y=beta)

        def replace(x, gamma, beta):
            made = api.PassDesc.OP.layer_norm(X=x, Scale=gamma, Bias=beta)
            made.SetAttr("begin_norm_axis", x.Attr("shape").Size() - 1)
            made.Attr("epsilon").MappedPattern(op="scale", name="bias")
            made.SetAttr("is_test", True)
            return made.Output("Y")

        return pattern, replace


def by_shape(api: Any) -> None:
    @api.RegisterPass(input_specs={"x": api.InputSpec([4, 8])})
    def by_shape():
        def replace(x):
            leaky = api.PassDesc.OP.leaky_relu(X=x)
            leaky.SetAttr("alpha", 0.0)
            return leaky

        return lambda x: api.PassDesc.OP.relu(X=x), replace
