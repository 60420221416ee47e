# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs of the ops that bench/sweep measures.

A recipe makes a case of about `n` floats: the keyword arguments of the raw op, and what the op must at least do. Bytes are those of
the inputs and outputs unless the recipe says otherwise; operations are multiply-adds counted twice, or estimates of them.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Variable:
    """A variable with this value."""

    value: Any


@dataclass
class Typed:
    """A constant of a type that NumPy lacks, by its name."""

    value: Any
    dtype: str


@dataclass
class Case:
    inputs: dict[str, Any]
    bytes: float | None = None  # None: inputs and outputs
    operations: float = 0.0  # vector operations, at best at the rate of multiply-adds
    steps: float = (
        0.0  # operations that no vector unit does: comparisons of a sort, look-ups; at best one a cycle
    )


Recipe = Callable[[int], Case]
RECIPES: dict[str, Recipe] = {}


def floats(*shape: int, low: float = 0.1, high: float = 0.9) -> Any:
    return np.random.RandomState(1).uniform(low, high, shape).astype(np.float32)


def integers(high: int, *shape: int, low: int = 0, dtype: Any = np.int32) -> Any:
    return np.random.RandomState(2).randint(low, high, shape).astype(dtype)


def add(names: str, recipe: Recipe) -> None:
    RECIPES.update((name, recipe) for name in names.split())


def rows(n: int, width: int = 64) -> Any:
    return floats(max(n // width, 1), width)


def image(n: int, depth: int = 16) -> Any:
    side = max(int(math.sqrt(n / depth)) // 4 * 4, 8)
    return floats(1, side, side, depth)


def unary(operations: float = 0, low: float = 0.1, high: float = 0.9, key: str = "x") -> Recipe:
    return lambda n: Case({key: floats(n, low=low, high=high)}, operations=n * operations)


def binary(operations: float = 0, dtype: Any = np.float32, keys: str = "x y", steps: float = 0) -> Recipe:
    a, b = keys.split()

    def recipe(n: int) -> Case:
        if dtype == np.float32:
            inputs = {a: floats(n), b: floats(n, low=1, high=2)}
            return Case(inputs, operations=n * operations, steps=n * steps)
        return Case(
            {
                a: integers(2 if dtype == np.bool_ else 30, n, dtype=dtype),
                b: integers(7, n, low=1, dtype=dtype),
            }
        )

    return recipe


def _element_wise() -> None:
    add(
        "Abs Ceil Floor Inv Neg Reciprocal Rint Round Sign Sqrt Square IsFinite IsInf IsNan OnesLike ZerosLike",
        unary(),
    )
    add("Rsqrt", unary(8))
    add("Exp Log Tanh Sigmoid Sin Cos", unary(40))
    add("Expm1 Log1p Sinh Cosh Tan Atan Asin Acos Asinh Atanh Erf", unary(60))
    add("Acosh", unary(60, 1.1, 3))
    add("Erfc Lgamma Digamma BesselI0e BesselI1e", unary(120))
    add("Relu Relu6 LeakyRelu Softsign", unary(key="features"))
    add("Elu Selu Softplus", unary(40, key="features"))
    add("Identity Snapshot StopGradient PreventGradient", unary(key="input"))
    add("CheckNumerics", lambda n: Case({"tensor": floats(n), "message": "x"}))
    add("Add AddV2 Sub Mul Div RealDiv DivNoNan MulNoNan Maximum Minimum SquaredDifference", binary())
    add("Equal NotEqual Less LessEqual Greater GreaterEqual ApproximateEqual", binary())
    # A remainder of floats is exact by way of a division in double, of which a core makes 8 in 16 cycles.
    add("FloorDiv", binary(16))
    add("Mod FloorMod", binary(16, steps=2))
    add("NextAfter", binary(16, keys="x1 x2"))
    add("TruncateDiv TruncateMod", binary(16, np.int32))
    add("Pow Xlogy Xdivy", binary(80))
    add("Atan2", binary(80, keys="y x"))
    add("BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift", binary(dtype=np.int32))
    add("LogicalAnd LogicalOr", binary(dtype=np.bool_))
    add("LogicalNot", lambda n: Case({"x": integers(2, n, dtype=np.bool_)}))
    add("Invert PopulationCount", lambda n: Case({"x": integers(1000, n)}))
    add("Igamma Igammac", lambda n: Case({"a": floats(n), "x": floats(n)}, operations=n * 1000))
    add("Betainc", lambda n: Case({"a": floats(n), "b": floats(n), "x": floats(n)}, operations=n * 2000))
    add("Zeta", lambda n: Case({"x": floats(n, low=1.1, high=3), "q": floats(n)}, operations=n * 1000))
    add("Polygamma", lambda n: Case({"a": np.ones(n, np.float32), "x": floats(n)}, operations=n * 1000))
    add("SigmoidGrad TanhGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad", binary(4, keys="y dy"))
    add("ReluGrad Relu6Grad LeakyReluGrad SoftsignGrad", binary(keys="gradients features"))
    add("SoftplusGrad", binary(40, keys="gradients features"))
    add("EluGrad SeluGrad", binary(4, keys="gradients outputs"))
    add("AddN AccumulateNV2", lambda n: Case({"inputs": [floats(n), floats(n)]}))
    RECIPES["AccumulateNV2"] = lambda n: Case({"inputs": [floats(n), floats(n)], "shape": [n]})
    add("Cast", lambda n: Case({"x": floats(n), "DstT": np.int32}))
    add("Bitcast", lambda n: Case({"input": floats(n), "type": np.int32}))
    add("ClipByValue", lambda n: Case({"t": floats(n), "clip_value_min": 0.2, "clip_value_max": 0.8}))
    add(
        "Select",
        lambda n: Case({"condition": integers(2, n, dtype=np.bool_), "x": floats(n), "y": floats(n)}),
    )
    add(
        "SelectV2",
        lambda n: Case({"condition": integers(2, n, dtype=np.bool_), "t": floats(n), "e": floats(n)}),
    )
    add("Complex", binary(keys="real imag"))
    complex_input: Recipe = lambda n: Case({"input": floats(n) + 1j * floats(n)})
    add("Real Imag Conj", complex_input)
    add(
        "Angle",
        lambda n: Case({"input": (floats(n) + 1j * floats(n)).astype(np.complex64)}, operations=n * 80),
    )
    add(
        "ComplexAbs",
        lambda n: Case({"x": (floats(n) + 1j * floats(n)).astype(np.complex64)}, operations=n * 16),
    )
    add(
        "Bucketize",
        lambda n: Case({"input": floats(n), "boundaries": [0.2, 0.4, 0.6, 0.8]}, operations=n * 16),
    )
    add("FakeQuantWithMinMaxArgs", unary(8, key="inputs"))
    add("FakeQuantWithMinMaxArgsGradient", binary(8, keys="gradients inputs"))
    add(
        "FakeQuantWithMinMaxVars",
        lambda n: Case({"inputs": floats(n), "min": 0.0, "max": 1.0}, operations=n * 8),
    )
    add("Fill", lambda n: Case({"dims": [n], "value": 1.0}))
    add("Range", lambda n: Case({"start": 0, "limit": n, "delta": 1}))
    add("LinSpace", lambda n: Case({"start": 0.0, "stop": 1.0, "num": n}))
    add("BroadcastTo", lambda n: Case({"input": floats(64), "shape": [max(n // 64, 1), 64]}))


def _reductions() -> None:
    for_rows: Recipe = lambda n: Case({"input": rows(n), "axis": [1]})
    add("Sum Mean Prod Max Min EuclideanNorm", for_rows)
    add("Any All", lambda n: Case({"input": integers(2, max(n // 64, 1), 64, dtype=np.bool_), "axis": [1]}))
    add("ArgMax ArgMin", lambda n: Case({"input": rows(n), "dimension": 1}, operations=n * 4))
    add("L2Loss", lambda n: Case({"t": floats(n)}))
    add("Softmax LogSoftmax", lambda n: Case({"logits": rows(n)}, operations=n * 50))
    add("Cumsum Cumprod", lambda n: Case({"x": rows(n), "axis": 1}, steps=n))
    add("CumulativeLogsumexp", lambda n: Case({"x": rows(n), "axis": 1}, operations=n * 100, steps=n))
    add(
        "SoftmaxCrossEntropyWithLogits",
        lambda n: Case({"features": rows(n), "labels": rows(n) / 32}, operations=n * 50),
    )
    add(
        "SparseSoftmaxCrossEntropyWithLogits",
        lambda n: Case({"features": rows(n), "labels": integers(64, max(n // 64, 1))}, operations=n * 50),
    )
    add("BiasAdd BiasAddV1", lambda n: Case({"value": rows(n), "bias": floats(64)}))
    add("BiasAddGrad", lambda n: Case({"out_backprop": rows(n)}))

    def segments(n: int, **more: Any) -> Case:
        data = rows(n)
        return Case({"data": data, "segment_ids": np.arange(len(data), dtype=np.int32) // 4, **more})

    add("SegmentSum SegmentMean SegmentMax SegmentMin SegmentProd", segments)
    add(
        "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd",
        lambda n: segments(n, num_segments=max(n // 64 // 4, 1)),
    )

    def sparse_segments(n: int) -> Case:
        count = max(n // 64, 1)
        ids = np.arange(count, dtype=np.int32)
        return Case({"data": rows(n), "indices": integers(count, count), "segment_ids": ids // 4})

    add("SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN", sparse_segments)
    add("Bincount", lambda n: Case({"arr": integers(64, n), "size": 64, "weights": floats(n)}, steps=n * 2))
    add(
        "HistogramFixedWidth",
        lambda n: Case({"values": floats(n), "value_range": [0.0, 1.0], "nbins": 64}, steps=n * 4),
    )


def _arrangement() -> None:
    add("Transpose ConjugateTranspose", lambda n: Case({"x": rows(n), "perm": [1, 0]}))
    add("Reverse", lambda n: Case({"tensor": rows(n), "dims": [False, True]}))
    add("ReverseV2", lambda n: Case({"tensor": rows(n), "axis": [1]}))
    add(
        "ReverseSequence",
        lambda n: Case({"input": rows(n), "seq_lengths": np.full(max(n // 64, 1), 32), "seq_dim": 1}),
    )
    add("Roll", lambda n: Case({"input": rows(n), "shift": 3, "axis": 1}))
    add("Tile", lambda n: Case({"input": rows(n // 4), "multiples": [1, 4]}))
    add("Pad", lambda n: Case({"input": rows(n), "paddings": [[1, 1], [1, 1]]}))
    add("PadV2", lambda n: Case({"input": rows(n), "paddings": [[1, 1], [1, 1]], "constant_values": 1.0}))
    add("MirrorPad", lambda n: Case({"input": rows(n), "paddings": [[1, 1], [1, 1]], "mode": "REFLECT"}))
    add("MirrorPadGrad", lambda n: Case({"input": rows(n), "paddings": [[1, 1], [1, 1]], "mode": "REFLECT"}))
    add("Slice", lambda n: Case({"input": rows(n), "begin": [0, 1], "size": [-1, 62]}))
    add(
        "StridedSlice",
        lambda n: Case({"input": rows(n), "begin": [0, 1], "end": [n, 64], "strides": [1, 2]}, steps=n / 16),
    )
    add("Concat", lambda n: Case({"concat_dim": 1, "values": [rows(n // 2), rows(n // 2)]}))
    add("ConcatV2", lambda n: Case({"values": [rows(n // 2), rows(n // 2)], "axis": 1}))
    add("Split", lambda n: Case({"axis": 1, "value": rows(n), "num_split": 2}))
    add("SplitV", lambda n: Case({"value": rows(n), "size_splits": [24, 40], "axis": 1, "num_split": 2}))
    add("Pack", lambda n: Case({"values": [rows(n // 2), rows(n // 2)], "axis": 1}))
    add("Unpack", lambda n: Case({"value": rows(n).reshape(-1, 2, 32), "num": 2, "axis": 1}))
    add(
        "OneHot",
        lambda n: Case(
            {"indices": integers(64, max(n // 64, 1)), "depth": 64, "on_value": 1.0, "off_value": 0.0}
        ),
    )
    add("Diag", lambda n: Case({"diagonal": floats(int(math.sqrt(n)))}))
    add(
        "DiagPart",
        lambda n: Case({"input": floats(int(math.sqrt(n)), int(math.sqrt(n)))}, bytes=64 * math.sqrt(n)),
    )
    square: Callable[[int], Any] = lambda n: floats(max(n // 1024, 1), 32, 32)
    add("MatrixBandPart", lambda n: Case({"input": square(n), "num_lower": 2, "num_upper": 2}))
    add("MatrixDiag", lambda n: Case({"diagonal": floats(max(n // 1024, 1), 32)}))
    add("MatrixDiagPart", lambda n: Case({"input": square(n)}, bytes=n * 4 + n / 8))
    add("MatrixSetDiag", lambda n: Case({"input": square(n), "diagonal": floats(max(n // 1024, 1), 32)}))


def _lookups() -> None:
    def indexed(**names: str) -> Recipe:
        def recipe(n: int) -> Case:
            count = max(n // 64, 1)
            values = {"data": rows(n), "ids": integers(count, count), "column": integers(count, count, 1)}
            values["unique"] = np.random.RandomState(3).permutation(count).astype(np.int32).reshape(-1, 1)
            values["variable"] = Variable(rows(n))
            values["unique_ids"] = values["unique"].reshape(-1)
            return Case({key: values[value] for key, value in names.items()}, bytes=n * 8 + count * 4)

        return recipe

    add("Gather ResourceGather", indexed(params="data", indices="ids"))
    RECIPES["ResourceGather"] = lambda n: Case(
        {
            "resource": Variable(rows(n)),
            "indices": integers(max(n // 64, 1), max(n // 64, 1)),
            "dtype": np.float32,
        },
        bytes=n * 8,
    )
    add(
        "GatherV2",
        lambda n: Case({**indexed(params="data", indices="ids")(n).inputs, "axis": 0}, bytes=n * 8 + n / 16),
    )
    add("GatherNd", indexed(params="data", indices="column"))
    add(
        "ScatterNd",
        lambda n: Case(
            {"indices": integers(n // 64, n // 64, 1), "updates": rows(n), "shape": [n // 64, 64]}
        ),
    )
    add(
        "TensorScatterAdd TensorScatterSub TensorScatterUpdate",
        indexed(tensor="data", indices="unique", updates="data"),
    )
    scatters = [
        op + kind
        for op in ("Scatter", "ResourceScatter")
        for kind in ("Add", "Sub", "Update", "Max", "Min", "Mul", "Div")
    ]
    for op in scatters:
        key = "resource" if op.startswith("Resource") else "ref"
        add(op, indexed(**{key: "variable", "indices": "unique_ids", "updates": "data"}))
    for op in ("ScatterNdAdd", "ScatterNdSub", "ScatterNdUpdate"):
        add(f"{op} Resource{op}", indexed(ref="variable", indices="unique", updates="data"))
    add(
        "InvertPermutation",
        lambda n: Case({"x": np.random.RandomState(3).permutation(n).astype(np.int32)}, steps=n * 4),
    )
    add("Where", lambda n: Case({"condition": integers(2, n, dtype=np.bool_)}, steps=n))
    add(
        "DynamicPartition",
        lambda n: Case({"data": rows(n), "partitions": integers(2, max(n // 64, 1)), "num_partitions": 2}),
    )
    add(
        "DynamicStitch ParallelDynamicStitch",
        lambda n: Case({"indices": [np.arange(n // 64, dtype=np.int32)], "data": [rows(n)]}),
    )
    add("Unique UniqueWithCounts", lambda n: Case({"x": integers(1000, n)}, steps=n * 8))
    add("ListDiff", lambda n: Case({"x": integers(1000, n), "y": integers(500, n)}, steps=n * 16))
    add("TopKV2", lambda n: Case({"input": rows(n), "k": 4}, steps=n * 2))
    add("NthElement", lambda n: Case({"input": rows(n), "n": 8}, steps=n * 8))
    add("InTopKV2", lambda n: Case({"predictions": rows(n), "targets": integers(64, n // 64), "k": 4}))
    sorted_rows: Callable[[int], Any] = lambda n: np.sort(rows(n))
    bounds: Recipe = lambda n: Case({"sorted_inputs": sorted_rows(n), "values": rows(n)}, steps=n * 6)
    add("LowerBound UpperBound", bounds)


def _images() -> None:
    add("SpaceToDepth DepthToSpace", lambda n: Case({"input": image(n), "block_size": 2}))
    add("SpaceToBatch", lambda n: Case({"input": image(n), "paddings": [[0, 0], [0, 0]], "block_size": 2}))
    add(
        "SpaceToBatchND",
        lambda n: Case({"input": image(n), "block_shape": [2, 2], "paddings": [[0, 0], [0, 0]]}),
    )
    four: Callable[[int], Any] = lambda n: np.repeat(image(n // 4), 4, axis=0)
    add("BatchToSpace", lambda n: Case({"input": four(n), "crops": [[0, 0], [0, 0]], "block_size": 2}))
    add(
        "BatchToSpaceND", lambda n: Case({"input": four(n), "block_shape": [2, 2], "crops": [[0, 0], [0, 0]]})
    )
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    add("AvgPool", lambda n: Case({"value": image(n), **window}))
    add("MaxPool MaxPoolWithArgmax", lambda n: Case({"input": image(n), **window}))

    def pool_gradient(n: int) -> Case:
        x = image(n)
        return Case({"orig_input": x, "orig_output": x[:, ::2, ::2], "grad": x[:, ::2, ::2], **window})

    add("MaxPoolGrad", pool_gradient)
    add(
        "AvgPoolGrad",
        lambda n: Case({"orig_input_shape": image(n).shape, "grad": image(n)[:, ::2, ::2], **window}),
    )
    cube = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    add("AvgPool3D MaxPool3D", lambda n: Case({"input": rows(n).reshape(-1, 4, 4, 4, 4)[: n // 256], **cube}))
    add("LRN", lambda n: Case({"input": image(n)}, operations=n * 60))
    add(
        "LRNGrad",
        lambda n: Case(
            dict.fromkeys(("input_grads", "input_image", "output_image"), image(n)), operations=n * 80
        ),
    )
    resized: Recipe = lambda n: Case({"images": image(n), "size": image(n).shape[1:3]}, operations=n * 16)
    add("ResizeBilinear ResizeNearestNeighbor ResizeArea", resized)
    add("ResizeBicubic", lambda n: Case({"images": image(n), "size": image(n).shape[1:3]}, operations=n * 64))
    add("RGBToHSV HSVToRGB", lambda n: Case({"images": floats(n // 3, 3)}, operations=n * 16))
    add("AdjustHue", lambda n: Case({"images": floats(1, n // 3, 3), "delta": 0.1}, operations=n * 40))
    add("AdjustSaturation", lambda n: Case({"images": floats(1, n // 3, 3), "scale": 1.1}, operations=n * 40))
    add("AdjustContrastv2", lambda n: Case({"images": image(n, 3), "contrast_factor": 1.1}))
    patches = {"ksizes": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
    add("ExtractImagePatches", lambda n: Case({"images": image(n), **patches}))
    steps = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    add(
        "Conv2D",
        lambda n: Case({"input": image(n), "filter": floats(3, 3, 16, 16), **steps}, operations=n * 288),
    )
    add(
        "DepthwiseConv2dNative",
        lambda n: Case({"input": image(n), "filter": floats(3, 3, 16, 1), **steps}, operations=n * 18),
    )
    dilation = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    add(
        "Dilation2D",
        lambda n: Case({"input": image(n), "filter": floats(3, 3, 16), **dilation}, operations=n * 36),
    )


def _linear_algebra() -> None:
    side: Callable[[int], int] = lambda n: max(int(math.sqrt(n)), 4)
    matrices: Callable[[int], Any] = lambda n: floats(max(n // 1024, 1), 32, 32) + 32 * np.eye(
        32, dtype=np.float32
    )
    add(
        "MatMul",
        lambda n: Case(
            {"a": floats(min(side(n), 512), side(n)), "b": floats(side(n), 64)},
            operations=128.0 * min(side(n), 512) * side(n),
        ),
    )
    add(
        "BatchMatMul BatchMatMulV2", lambda n: Case({"x": matrices(n), "y": matrices(n)}, operations=n * 64.0)
    )
    add("MatrixInverse", lambda n: Case({"input": matrices(n)}, operations=n * 64.0))
    add("MatrixDeterminant", lambda n: Case({"input": matrices(n)}, operations=n * 22.0))
    add("MatrixSolve", lambda n: Case({"matrix": matrices(n), "rhs": matrices(n)}, operations=n * 86.0))
    add(
        "MatrixTriangularSolve",
        lambda n: Case({"matrix": matrices(n), "rhs": matrices(n)}, operations=n * 32.0),
    )
    add("Cross", lambda n: Case({"a": floats(n // 3, 3), "b": floats(n // 3, 3)}, operations=n * 3))

    def signal(n: int) -> Case:
        return Case({"input": (floats(max(n // 256, 1), 256) + 0j).astype(np.complex64)}, operations=n * 40.0)

    add("FFT IFFT", signal)


def _training() -> None:
    scalars = {
        "lr": 0.1,
        "alpha": 0.1,
        "l1": 0.0,
        "l2": 0.0,
        "l2_shrinkage": 0.0,
        "lr_power": -0.5,
        "rho": 0.9,
    }
    scalars |= {
        "epsilon": 1e-3,
        "momentum": 0.9,
        "beta1": 0.9,
        "beta2": 0.99,
        "beta1_power": 0.9,
        "beta2_power": 0.9,
    }
    scalars |= {"logbase": 1.0, "sign_decay": 0.9, "beta": 0.9}
    slots = {
        "GradientDescent": ("alpha", "delta"),
        "Momentum": ("accum", "lr", "grad", "momentum"),
        "Adagrad": ("accum", "lr", "grad"),
        "AdagradV2": ("accum", "lr", "epsilon", "grad"),
        "Adadelta": ("accum", "accum_update", "lr", "rho", "epsilon", "grad"),
        "Adam": ("m", "v", "beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon", "grad"),
        "AdaMax": ("m", "v", "beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"),
        "RMSProp": ("ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"),
        "CenteredRMSProp": ("mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"),
        "Ftrl": ("accum", "linear", "grad", "lr", "l1", "l2", "lr_power"),
        "FtrlV2": ("accum", "linear", "grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"),
        "ProximalGradientDescent": ("alpha", "l1", "l2", "delta"),
        "ProximalAdagrad": ("accum", "lr", "l1", "l2", "grad"),
        "AddSign": ("m", "lr", "alpha", "sign_decay", "beta", "grad"),
        "PowerSign": ("m", "lr", "logbase", "sign_decay", "beta", "grad"),
    }

    def update(arguments: tuple[str, ...], power: bool) -> Recipe:
        def recipe(n: int) -> Case:
            inputs: dict[str, Any] = {"var": Variable(floats(n))}
            for argument in arguments:
                gradient = floats(n) if argument in ("grad", "delta") else Variable(floats(n, low=1, high=2))
                inputs[argument] = scalars.get(argument, gradient)
            tables = sum(isinstance(value, Variable) for value in inputs.values())
            return Case(inputs, bytes=n * (8.0 * tables + 4), operations=n * (80 if power else 16))

        return recipe

    for name, arguments in slots.items():
        add(f"Apply{name} ResourceApply{name}", update(arguments, "Ftrl" in name or "Power" in name))
    add(
        "Assign AssignAdd AssignSub",
        lambda n: Case({"ref": Variable(floats(n)), "value": floats(n)}, bytes=n * 8.0),
    )
    add(
        "AssignAddVariableOp AssignSubVariableOp",
        lambda n: Case({"resource": Variable(floats(n)), "value": floats(n)}, bytes=n * 8.0),
    )


for _part in (_element_wise, _reductions, _arrangement, _lookups, _images, _linear_algebra, _training):
    _part()
