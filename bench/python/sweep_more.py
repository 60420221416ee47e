# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""More recipes of bench/sweep: normalisation, gradients, resizing, Fourier transforms, quantising, LSTMs."""
from __future__ import annotations

import math

import numpy as np
from sweep_recipes import Case, add, floats, image, integers, rows


def _normalisation() -> None:
    def norm(n: int, training: bool) -> Case:
        x = image(n)
        depth = x.shape[-1]
        moments = [np.zeros(0, np.float32)] * 2 if training else [floats(depth), floats(depth)]
        inputs = {"x": x, "scale": floats(depth), "offset": floats(depth), "mean": moments[0]}
        # Training reads the image twice.
        bytes_ = x.nbytes * (3.0 if training else 2.0)
        return Case(inputs | {"variance": moments[1], "is_training": training}, bytes=bytes_)

    add("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", lambda n: norm(n, True))

    def gradient(n: int) -> Case:
        x = image(n)
        depth = x.shape[-1]
        inputs = {"y_backprop": x, "x": x, "scale": floats(depth)}
        inputs |= {"reserve_space_1": floats(depth), "reserve_space_2": floats(depth, low=1, high=2)}
        return Case(inputs, bytes=x.nbytes * 5.0)  # reads both twice

    add("FusedBatchNormGrad FusedBatchNormGradV2", gradient)
    add(
        "FusedBatchNormGradV3",
        lambda n: Case(gradient(n).inputs | {"reserve_space_3": floats(1)}, bytes=gradient(n).bytes),
    )


def _convolution_gradients() -> None:
    def conv(n: int, key: str) -> Case:
        x, depth, side = image(n, 16), 16, 3
        sizes = (
            {"input_sizes": list(x.shape)} if key == "input" else {"filter_sizes": [side, side, depth, depth]}
        )
        other = {"filter": floats(side, side, depth, depth)} if key == "input" else {"input": x}
        inputs = other | sizes | {"out_backprop": x, "strides": [1, 1, 1, 1], "padding": "SAME"}
        return Case(inputs, bytes=2.0 * x.nbytes, operations=2.0 * x.size * side * side * depth)

    add("Conv2DBackpropInput", lambda n: conv(n, "input"))
    add("Conv2DBackpropFilter", lambda n: conv(n, "filter"))

    def depthwise(n: int, key: str) -> Case:
        x, depth = image(n, 16), 16
        sizes = {"input_sizes": list(x.shape)} if key == "input" else {"filter_sizes": [3, 3, depth, 1]}
        other = {"filter": floats(3, 3, depth, 1)} if key == "input" else {"input": x}
        inputs = other | sizes | {"out_backprop": x, "strides": [1, 1, 1, 1], "padding": "SAME"}
        return Case(inputs, bytes=2.0 * x.nbytes, operations=2.0 * x.size * 9)

    add("DepthwiseConv2dNativeBackpropInput", lambda n: depthwise(n, "input"))
    add("DepthwiseConv2dNativeBackpropFilter", lambda n: depthwise(n, "filter"))


def _images() -> None:
    def pool(n: int) -> Case:
        return Case({"input": image(n), "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"})

    add("MaxPoolV2", pool)

    def resized(n: int, keys: dict[str, object], operations: float = 8.0) -> Case:
        x = image(n)
        return Case({"grads": x} | keys, bytes=1.25 * x.nbytes, operations=x.size * operations)

    def half(n: int) -> dict[str, object]:
        return {"original_image": image(n)[:, ::2, ::2, :].copy()}

    add("ResizeBilinearGrad", lambda n: resized(n, half(n)))
    # Each gradient times the weights of four rows, and each of these times those of four columns, added to 16 sums.
    add("ResizeBicubicGrad", lambda n: resized(n, half(n), 4.0 + 16 * 2))
    add(
        "ResizeNearestNeighborGrad",
        lambda n: resized(n, {"size": [s // 2 for s in image(n).shape[1:3]]}),
    )


def _transforms() -> None:
    def fourier(n: int) -> Case:
        x = rows(n, 256)
        return Case({"input": x, "fft_length": [256]}, operations=x.size * 2.5 * math.log2(256))

    add("RFFT", fourier)

    def plane(n: int) -> Case:
        x = floats(max(n // 2048, 1), 32, 32).astype(np.complex64)
        return Case({"input": x}, operations=x.size * 5.0 * 10)

    add("FFT2D IFFT2D", plane)
    add(
        "StridedSliceGrad",
        lambda n: Case(
            {
                "shape": [max(n // 64, 1), 64],
                "begin": [0, 1],
                "end": [max(n // 64, 1), 63],
                "strides": [1, 1],
                "dy": floats(max(n // 64, 1), 62),
            }
        ),
    )
    add("UnravelIndex", lambda n: Case({"indices": integers(4096, n), "dims": [64, 64]}, steps=n * 2.0))
    add("InTopK", lambda n: Case({"predictions": rows(n), "targets": integers(64, max(n // 64, 1)), "k": 3}))
    add(
        "Einsum",
        lambda n: Case({"inputs": [rows(n), floats(64, 64)], "equation": "ij,jk->ik"}, operations=n * 128.0),
    )
    add(
        "SparseToDense",
        lambda n: Case(
            {
                "sparse_indices": np.arange(0, n, 8, dtype=np.int64),
                "output_shape": [n],
                "sparse_values": 1.0,
                "default_value": 0.0,
            },
            bytes=n * 4.0 + n,
            steps=n / 8,
        ),
    )


def _quantising() -> None:
    add(
        "QuantizeAndDequantizeV2",
        lambda n: Case(
            {"input": floats(n), "input_min": 0.0, "input_max": 1.0, "range_given": True}, operations=n * 6.0
        ),
    )
    add(
        "FakeQuantWithMinMaxVarsPerChannel",
        lambda n: Case(
            {"inputs": rows(n), "min": np.zeros(64, np.float32), "max": np.ones(64, np.float32)},
            operations=n * 8.0,
        ),
    )


def _recurrent() -> None:
    def cell(n: int) -> Case:
        batch, units = max(n // 512, 1), 64
        state = floats(batch, units)
        inputs = {"x": state, "cs_prev": state, "h_prev": state, "w": floats(2 * units, 4 * units)}
        inputs |= {"wci": floats(units), "wcf": floats(units), "wco": floats(units), "b": floats(4 * units)}
        products = 2.0 * batch * 2 * units * 4 * units
        return Case(inputs, bytes=10.0 * state.nbytes, operations=products + batch * units * 150.0)

    add("LSTMBlockCell", cell)


for _part in (_normalisation, _convolution_gradients, _images, _transforms, _quantising, _recurrent):
    _part()
