# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recipes of bench/sweep for ops on quantised tensors. The products count as multiply-adds at float's rate,
which processors with instructions for products of bytes exceed."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from sweep_recipes import Case, Typed, add, floats, integers, rows


def codes(*shape: int) -> Typed:
    return Typed(integers(200, *shape, low=40, dtype=np.uint8), "quint8")


def signed(*shape: int) -> Typed:
    return Typed(integers(100, *shape, low=-100, dtype=np.int8), "qint8")


def sums(*shape: int) -> Typed:
    return Typed(integers(1 << 20, *shape, low=-(1 << 20)), "qint32")


def pictures(n: int, depth: int = 16) -> Typed:
    side = max(int(math.sqrt(n / depth)) // 4 * 4, 8)
    return codes(1, side, side, depth)


def limits(*names: str) -> dict[str, float]:
    return {name: -6.0 if "min" in name else 6.0 for name in names}


def _conversions() -> None:
    scalars = {"input_min": -6.0, "input_max": 6.0}
    add("Dequantize", lambda n: Case({"input": codes(n), "min_range": -6.0, "max_range": 6.0}))
    add("QuantizeAndDequantizeV3", lambda n: Case({"input": floats(n), "num_bits": 8, **scalars}, steps=n))
    add(
        "QuantizeDownAndShrinkRange",
        lambda n: Case({"input": sums(n), "out_type": "quint8", **scalars}, bytes=9.0 * n),
    )
    add(
        "Requantize",
        lambda n: Case(
            {
                "input": sums(n),
                "requested_output_min": -1.0,
                "requested_output_max": 1.0,
                "out_type": "quint8",
            }
            | scalars
        ),
    )
    add("RequantizationRange", lambda n: Case({"input": sums(n), **scalars}))
    channels = {"input_min": floats(64) - 7, "input_max": floats(64) + 6}
    add(
        "RequantizationRangePerChannel",
        lambda n: Case({"input": sums(max(n // 64, 1), 64), "clip_value_max": 6.0, **channels}),
    )
    add(
        "RequantizePerChannel",
        lambda n: Case(
            {"input": sums(max(n // 64, 1), 64), "requested_output_min": -1.0, "requested_output_max": 1.0}
            | channels
        ),
    )


def _element_wise() -> None:
    pair = limits("min_x", "max_x", "min_y", "max_y")
    add("QuantizedAdd QuantizedMul", lambda n: Case({"x": codes(n), "y": codes(n), **pair}))
    one = limits("min_features", "max_features")
    add("QuantizedRelu QuantizedRelu6", lambda n: Case({"features": codes(n), **one}))
    add("QuantizedReluX", lambda n: Case({"features": codes(n), "max_value": 4.0, **one}))
    add(
        "QuantizedBiasAdd",
        lambda n: Case(
            {"input": codes(max(n // 64, 1), 64), "bias": codes(64), "out_type": "qint32"}
            | limits("min_input", "max_input", "min_bias", "max_bias")
        ),
    )
    add(
        "QuantizedConcat",
        lambda n: Case(
            {"concat_dim": 1, "values": [codes(max(n // 128, 1), 64)] * 2}
            | {"input_mins": [-6.0, -6.0], "input_maxes": [6.0, 6.0]}
        ),
    )
    parts = {
        f"{name}_{end}": -1.0 if end == "min" else 1.0
        for name in ("t", "m", "v", "beta", "gamma")
        for end in ("min", "max")
    }
    add(
        "QuantizedBatchNormWithGlobalNormalization",
        lambda n: Case(
            {"t": pictures(n), **{name: codes(16) for name in ("m", "v", "beta", "gamma")}, **parts}
            | {"out_type": "qint32", "variance_epsilon": 0.1, "scale_after_normalization": True},
            # To a number, by the factor and the summand of a channel, and back by way of a double, for each code.
            operations=n * 24,
        ),
    )
    # Sums and squares in one pass, and in another what the batch norm does.
    add(
        "QuantizedInstanceNorm",
        lambda n: Case({"x": pictures(n), "x_min": -6.0, "x_max": 6.0}, operations=n * 32),
    )


def _pictures() -> None:
    window: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    add(
        "QuantizedAvgPool QuantizedMaxPool",
        lambda n: Case({"input": pictures(n), **window, **limits("min_input", "max_input")}),
    )
    add(
        "QuantizedResizeBilinear",
        lambda n: Case(
            {"images": pictures(n), "size": list(pictures(n).value.shape[1:3]), **limits("min", "max")},
            operations=n * 16,
        ),
    )


def _products() -> None:
    both = limits("min_a", "max_a", "min_b", "max_b")
    frozen = limits("min_freezed_output", "max_freezed_output")

    def product(n: int, more: dict[str, Any]) -> Case:
        m = max(n // 64, 1)
        right: Any = signed(64, 64) if "bias" in more else codes(64, 64)
        return Case(
            {"a": codes(m, 64), "b": right} | both | more, bytes=m * 64 * 5.0, operations=2.0 * m * 64 * 64
        )

    add("QuantizedMatMul", lambda n: product(n, {}))
    add("QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu", lambda n: product(n, {"bias": floats(64)}))
    add("QuantizedMatMulWithBiasAndReluAndRequantize", lambda n: product(n, {"bias": floats(64)} | frozen))
    moving = {"strides": [1, 1, 1, 1], "padding": "SAME"}

    def conv(n: int, deep: bool, name: str) -> Case:
        x = pictures(n)
        shape = (3, 3, 16, 16) if deep else (3, 3, 16, 1)
        inputs = {"input": x, "filter": signed(*shape), **moving, **limits("min_input", "max_input")}
        inputs |= limits("min_filter", "max_filter")
        if "PerChannel" in name or "Requantize" in name:
            inputs |= {"min_filter": floats(16) - 2, "max_filter": floats(16) + 2}
        if name in ("QuantizedConv2D", "QuantizedDepthwiseConv2D"):
            inputs["filter"] = codes(*shape) if deep else signed(*shape)
        if "WithBias" in name:
            inputs["bias"] = floats(16)
        if "Requantize" in name:
            inputs |= frozen
        if "Sum" in name:
            summand = signed(*x.value.shape) if "Signed" in name else codes(*x.value.shape)
            inputs["summand"] = summand if "Requantize" in name else floats(*x.value.shape)
            if "Requantize" in name:
                inputs |= limits("min_summand", "max_summand")
        taps = 9.0 * (16 if deep else 1)
        return Case(inputs, bytes=x.value.size * 5.0, operations=2.0 * x.value.size * taps)

    ends = "AndRelu AndReluAndRequantize AndRequantize PerChannel WithBias WithBiasAndRelu"
    ends += " WithBiasAndReluAndRequantize WithBiasAndRequantize WithBiasSignedSumAndReluAndRequantize"
    ends += " WithBiasSumAndRelu WithBiasSumAndReluAndRequantize"
    for name in ["QuantizedConv2D", *(f"QuantizedConv2D{end}" for end in ends.split())]:
        add(name, lambda n, name=name: conv(n, True, name))
    for end in ("", "WithBias", "WithBiasAndRelu", "WithBiasAndReluAndRequantize"):
        name = f"QuantizedDepthwiseConv2D{end}"
        add(name, lambda n, name=name: conv(n, False, name))


for _part in (_conversions, _element_wise, _pictures, _products):
    _part()
