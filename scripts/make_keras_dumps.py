"""Write docs/dumps: a Keras model compiled by TensorFlow, as the HLO that its functions become.

    python scripts/make_keras_dumps.py        with tensorflow-cpu 2.21 and keras 3.15 installed

`keras_loss.hlo` is the loss of a batch, `keras_scores.hlo` what the model answers; both take the weights. Metadata,
which has paths of this machine, is left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # pyright: ignore[reportMissingImports]
import tensorflow as tf  # pyright: ignore[reportMissingImports]

DUMPS = Path(__file__).resolve().parent.parent / "docs" / "dumps"
_LEFT_OUT = re.compile(r", (?:metadata|parameter_replication|frontend_attributes)=\{(?:[^{}\"]|\"[^\"]*\")*\}")


def main() -> None:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )
    weights = [variable.value for variable in model.trainable_variables]

    @tf.function(jit_compile=True)
    def scores(image: Any, *weights: Any) -> Any:
        return model.stateless_call(list(weights), [], image)[0]

    @tf.function(jit_compile=True)
    def loss(images: Any, labels: Any, *weights: Any) -> Any:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores(images, *weights))
        return tf.reduce_mean(losses)

    write("keras_scores", scores, tf.zeros((1, 8, 8, 1)), *weights)
    write("keras_loss", loss, tf.zeros((2, 8, 8, 1)), tf.constant([0, 2]), *weights)


def write(name: str, function: Any, *arguments: Any) -> None:
    text = function.experimental_get_compiler_ir(*arguments)(stage="hlo")
    DUMPS.mkdir(exist_ok=True)
    (DUMPS / f"{name}.hlo").write_text(_LEFT_OUT.sub("", text))


if __name__ == "__main__":
    main()
