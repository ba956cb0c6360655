"""Keras networks through tf2onnx, in an environment of its own: ``python foreign_tf.py NAME FILE.onnx``.

Random weights, batch norms calibrated on noise; the input is NCHW, as people ask the exporter for.
"""

from __future__ import annotations

import sys
import zlib

import numpy as np
import tensorflow as tf
import tf2onnx

_OPSET = 13


def _mobilenet() -> tf.keras.Model:
    return tf.keras.applications.MobileNetV3Small(
        (96, 96, 3),
        minimalistic=False,
        weights=None,
        classes=20,
        classifier_activation=None,
        include_preprocessing=False,
    )


def _efficientnet() -> tf.keras.Model:
    return tf.keras.applications.EfficientNetV2B0(
        input_shape=(64, 64, 3),
        weights=None,
        classes=20,
        classifier_activation=None,
        include_preprocessing=False,
    )


def _unet() -> tf.keras.Model:
    """Separable convolutions, strided and transposed ones with "same" padding, whose pads are uneven."""
    layers = tf.keras.layers
    x = start = tf.keras.Input((64, 64, 3))
    skips = []
    for width in (16, 32):
        x = layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.SeparableConv2D(width, 3, padding="same", activation="swish")(x)
        skips.append(x)
    x = layers.LeakyReLU(negative_slope=0.2)(layers.Conv2DTranspose(16, 3, strides=2, padding="same")(x))
    x = layers.Concatenate()([x, skips[0]])
    x = layers.UpSampling2D(interpolation="bilinear")(x)
    return tf.keras.Model(start, layers.Conv2D(4, 1, activation="softmax")(x))


_NETWORKS = {"keras_mobilenet_v3": _mobilenet, "keras_efficientnet_v2": _efficientnet, "keras_unet": _unet}


def main(name: str, path: str) -> None:
    """Build, calibrate, export."""
    tf.keras.utils.set_random_seed(zlib.crc32(name.encode()))
    model = _NETWORKS[name]()
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = 0.5
    for _ in range(12):
        model(rng.uniform(-1, 1, (8, *model.input_shape[1:])).astype("float32"), training=True)
    wanted = (tf.TensorSpec((1, *model.input_shape[1:]), tf.float32, name="in0"),)

    @tf.function(input_signature=wanted)
    def answer(in0: tf.Tensor) -> tf.Tensor:
        return model(in0, training=False)

    tf2onnx.convert.from_function(answer, wanted, opset=_OPSET, inputs_as_nchw=["in0"], output_path=path)


if __name__ == "__main__":
    main(*sys.argv[1:])
