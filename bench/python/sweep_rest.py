# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recipes of bench/sweep for volumes, gradients of pools, sparse tensors, sparse training updates and decompositions."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from sweep_recipes import Case, Variable, add, floats, image, integers, rows


def count(n: int, width: int = 64) -> int:
    return max(n // width, 1)


def volume(n: int, depth: int = 8) -> Any:
    side = max(int(round((n / depth) ** (1 / 3))) // 2 * 2, 4)
    return floats(1, side, side, side, depth)


def matrices(n: int, side: int = 32) -> Any:
    return floats(max(n // side**2, 1), side, side) + side * np.eye(side, dtype=np.float32)


def _volumes() -> None:
    steps = {"strides": [1] * 5, "padding": "SAME"}

    def conv(n: int, missing: str) -> Case:
        x, filters = volume(n), floats(3, 3, 3, 8, 8)
        inputs: dict[str, Any] = {
            "": {"input": x, "filter": filters},
            "filter": {"input": x, "filter_sizes": list(filters.shape), "out_backprop": x},
            "input": {"input_sizes": list(x.shape), "filter": filters, "out_backprop": x},
        }[missing]
        return Case(inputs | steps, bytes=2.0 * x.nbytes, operations=2.0 * x.size * 27 * 8)

    add("Conv3D", lambda n: conv(n, ""))
    add("Conv3DBackpropFilterV2", lambda n: conv(n, "filter"))
    add("Conv3DBackpropInputV2", lambda n: conv(n, "input"))
    cube = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}

    def pooled(n: int) -> tuple[Any, Any]:
        x = volume(n)
        return x, x[:, ::2, ::2, ::2].copy()

    add("AvgPool3DGrad", lambda n: Case({"orig_input_shape": volume(n).shape, "grad": pooled(n)[1], **cube}))
    add(
        "MaxPool3DGrad",
        lambda n: Case(
            dict(zip(("orig_input", "orig_output", "grad"), pooled(n) + pooled(n)[1:], strict=True)) | cube
        ),
    )
    add(
        "ExtractVolumePatches",
        lambda n: Case(
            {"input": volume(n), "ksizes": cube["ksize"], "strides": cube["strides"], "padding": "VALID"}
        ),
    )


def _pictures() -> None:
    def pooled(n: int) -> dict[str, Any]:
        x = image(n)
        half = x[:, ::2, ::2].copy()
        return {"orig_input": x, "orig_output": half, "grad": half, "padding": "VALID"}

    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1]}
    add("MaxPoolGradV2", lambda n: Case(pooled(n) | window))
    add("MaxPoolGradGrad", lambda n: Case(pooled(n) | {"grad": image(n)} | window))
    add(
        "FractionalAvgPool FractionalMaxPool",
        lambda n: Case(
            {
                "value": image(n),
                "pooling_ratio": [1.0, 1.5, 1.5, 1.0],
                "deterministic": True,
                "seed": 1,
                "seed2": 2,
            }
        ),
    )
    add(
        "CropAndResize",
        lambda n: Case(
            {
                "image": image(n),
                "boxes": np.asarray([[0.1, 0.1, 0.9, 0.9]], np.float32),
                "box_ind": [0],
                "crop_size": [s // 2 for s in image(n).shape[1:3]],
            },
            operations=image(n).size * 2.0,
        ),
    )
    add(
        "DrawBoundingBoxes",
        lambda n: Case(
            {"images": image(n, 3), "boxes": np.asarray([[[0.1, 0.1, 0.9, 0.9]]], np.float32)},
        ),
    )
    dilation = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    add(
        "Dilation2DBackpropInput Dilation2DBackpropFilter",
        lambda n: Case(
            {"input": image(n), "filter": floats(3, 3, 16), "out_backprop": image(n), **dilation},
            operations=n * 36,
        ),
    )
    add(
        "NonMaxSuppressionV3",
        lambda n: Case(
            {"boxes": floats(count(n), 4), "scores": floats(count(n)), "max_output_size": 8}
            | {"iou_threshold": 0.5, "score_threshold": 0.0},
            steps=count(n) * math.log2(count(n) + 1),
        ),
    )


def _quantised() -> None:
    add("QuantizeV2", lambda n: Case({"input": floats(n), "min_range": 0.0, "max_range": 1.0, "T": "quint8"}))
    add(
        "FakeQuantWithMinMaxVarsGradient",
        lambda n: Case({"gradients": floats(n), "inputs": floats(n), "min": 0.2, "max": 0.8}),
    )
    add(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        lambda n: Case(
            {"gradients": rows(n), "inputs": rows(n), "min": floats(64, high=0.2), "max": floats(64, low=0.8)}
        ),
    )
    add("CompareAndBitpack", lambda n: Case({"input": rows(n), "threshold": 0.5}))


def _moves() -> None:
    for name in ("InplaceAdd", "InplaceSub", "InplaceUpdate"):
        add(
            name,
            lambda n: Case({"x": rows(n), "i": np.arange(count(n), dtype=np.int32), "v": rows(n)}),
        )
    add("DeepCopy", lambda n: Case({"x": floats(n)}))
    add("DataFormatDimMap", lambda n: Case({"x": integers(4, n)}))
    add("DataFormatVecPermute", lambda n: Case({"x": integers(9, 4)}))
    add(
        "ParallelConcat",
        lambda n: Case({"values": [floats(1, n // 2), floats(1, n // 2)], "shape": [2, n // 2]}),
    )
    add(
        "MatrixDiagV2",
        lambda n: Case(
            {"diagonal": floats(max(n // 1024, 1), 32), "k": 0, "num_rows": 32, "num_cols": 32}
            | {"padding_value": 0.0}
        ),
    )
    add(
        "MatrixDiagPartV2",
        lambda n: Case({"input": matrices(n), "k": 0, "padding_value": 0.0}, bytes=n * 4 + n / 8),
    )
    add(
        "MatrixSetDiagV2",
        lambda n: Case({"input": matrices(n), "diagonal": floats(max(n // 1024, 1), 32), "k": 0}),
    )
    sliced = {"begin": [0, 1], "end": [1 << 30, 63], "strides": [1, 1]}
    for name, key in (("StridedSliceAssign", "ref"), ("ResourceStridedSliceAssign", "ref")):
        add(
            name,
            lambda n, key=key: Case(
                {key: Variable(rows(n)), **sliced, "value": floats(count(n), 62)}, bytes=n * 8.0
            ),
        )
    add(
        "TensorStridedSliceUpdate",
        lambda n: Case({"input": rows(n), **sliced, "value": floats(count(n), 62)}),
    )
    add(
        "AssignVariableOp",
        lambda n: Case({"resource": Variable(floats(n)), "value": floats(n)}, bytes=n * 4.0),
    )
    add(
        "ScatterNdNonAliasingAdd",
        lambda n: Case(
            {"input": rows(n), "indices": np.arange(count(n), dtype=np.int32).reshape(-1, 1)}
            | {"updates": rows(n)}
        ),
    )
    add(
        "ResourceGatherNd",
        lambda n: Case(
            {"resource": Variable(rows(n)), "indices": integers(count(n), count(n), 1), "dtype": np.float32},
            bytes=n * 8.0,
        ),
    )
    add("UniqueV2", lambda n: Case({"x": integers(1000, n), "axis": [0]}, steps=n * 8))


def _sparse() -> None:
    def sparse(n: int) -> tuple[Any, Any, Any]:
        """Every fourth element of rows of 64."""
        at = np.arange(0, count(n) * 64, 4, dtype=np.int64)
        return np.stack([at // 64, at % 64], 1), floats(len(at)), np.asarray([count(n), 64], np.int64)

    def named(n: int, *names: str) -> dict[str, Any]:
        return dict(zip(names, sparse(n), strict=True))

    sp = ("sp_indices", "sp_values", "sp_shape")
    add("SparseSoftmax", lambda n: Case(named(n, *sp), operations=n * 10))
    add(
        "SparseDenseCwiseMul SparseDenseCwiseDiv SparseDenseCwiseAdd",
        lambda n: Case(named(n, *sp) | {"dense": rows(n)}, steps=n / 4),
    )
    a = ("a_indices", "a_values", "a_shape")
    add("SparseTensorDenseAdd", lambda n: Case(named(n, *a) | {"b": rows(n)}, steps=n / 4))
    add(
        "SparseTensorDenseMatMul",
        lambda n: Case(named(n, *a) | {"b": floats(64, 64)}, operations=n / 4 * 128.0),
    )
    add(
        "SparseAdd",
        lambda n: Case(
            named(n, *a) | named(n, "b_indices", "b_values", "b_shape") | {"thresh": 0.0}, steps=n
        ),
    )
    inputs = ("input_indices", "input_values", "input_shape")
    add("SparseReorder", lambda n: Case(named(n, *inputs), steps=n))
    add(
        "SparseReduceSum SparseReduceMax",
        lambda n: Case(named(n, *inputs) | {"reduction_axes": [1]}, steps=n),
    )
    add(
        "SparseReshape",
        lambda n: Case(
            {"input_indices": sparse(n)[0], "input_shape": sparse(n)[2], "new_shape": [-1, 32]}, steps=n
        ),
    )
    add(
        "SparseFillEmptyRows",
        lambda n: Case(named(n, "indices", "values", "dense_shape") | {"default_value": 0.0}, steps=n / 4),
    )
    add(
        "SparseSlice",
        lambda n: Case(
            named(n, "indices", "values", "shape") | {"start": [0, 8], "size": [count(n), 40]}, steps=n / 4
        ),
    )
    add("SparseMatMul", lambda n: Case({"a": rows(n), "b": floats(64, 64)}, operations=n * 128.0))
    segments = lambda n: np.arange(count(n), dtype=np.int32) // 4  # noqa: E731
    add(
        "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments",
        lambda n: Case(
            {"data": rows(n), "indices": integers(count(n), count(n)), "segment_ids": segments(n)}
            | {"num_segments": count(n)},
            bytes=n * 8.0,
        ),
    )
    add(
        "SparseSegmentMeanGrad SparseSegmentSqrtNGrad",
        lambda n: Case(
            {
                "grad": rows(n // 4),
                "indices": integers(count(n), count(n)),
                "segment_ids": segments(n // 4 * 4),
            }
            | {"output_dim0": count(n)},
            bytes=n * 9.0,
        )
        if n >= 256
        else Case({}),
    )


def _updates() -> None:
    def update(n: int, key: str, tables: str, scalars: dict[str, float]) -> Case:
        inputs: dict[str, Any] = {name: Variable(rows(n)) for name in (key, *tables.split())}
        inputs |= scalars | {"grad": rows(n), "indices": np.random.RandomState(3).permutation(count(n))}
        return Case(inputs, bytes=n * (8.0 * (1 + len(tables.split())) + 4), operations=n * 16)

    rules = {
        "Adagrad": ("accum", {"lr": 0.1}),
        "Momentum": ("accum", {"lr": 0.1, "momentum": 0.9}),
        "RMSProp": ("ms mom", {"lr": 0.1, "rho": 0.9, "momentum": 0.9, "epsilon": 1e-7}),
        "Adadelta": ("accum accum_update", {"lr": 0.1, "rho": 0.9, "epsilon": 1e-7}),
        "Ftrl": ("accum linear", {"lr": 0.1, "l1": 0.0, "l2": 0.0, "lr_power": -0.5}),
        "ProximalAdagrad": ("accum", {"lr": 0.1, "l1": 0.0, "l2": 0.0}),
    }
    for rule, (tables, scalars) in rules.items():
        add(
            f"SparseApply{rule} ResourceSparseApply{rule}",
            lambda n, tables=tables, scalars=scalars: update(n, "var", tables, scalars),
        )


def _decompositions() -> None:
    def decomposition(operations: float) -> Any:
        return lambda n: Case({"input": matrices(n)}, operations=max(n // 1024, 1) * 32.0**3 * operations)

    def symmetric(n: int, operations: float) -> Case:
        x = matrices(n)
        return Case(
            {"input": x + np.swapaxes(x, 1, 2)}, operations=max(n // 1024, 1) * 32.0**3 * operations
        )

    add("Cholesky", lambda n: symmetric(n, 1 / 3))
    add("SelfAdjointEigV2", lambda n: symmetric(n, 9.0))
    add("Qr", decomposition(8 / 3))  # as many operations for Q as for R
    add("Lu LogMatrixDeterminant", decomposition(2 / 3))
    add("MatrixSquareRoot", decomposition(25.0))

    def tridiagonal(n: int) -> dict[str, Any]:
        return {"diagonals": floats(1, 3, count(n)) + np.asarray([[[0], [4], [0]]], np.float32)}

    add(
        "TridiagonalSolve",
        lambda n: Case(tridiagonal(n) | {"rhs": floats(1, count(n), 64)}, operations=n * 5),
    )
    add(
        "TridiagonalMatMul",
        lambda n: Case(
            {key: floats(1, 1, count(n)) for key in ("superdiag", "maindiag", "subdiag")}
            | {"rhs": floats(1, count(n), 64)},
            operations=n * 5,
        ),
    )

    def gru(n: int) -> Case:
        batch, units = max(n // 512, 1), 64
        state = floats(batch, units)
        inputs = {
            "x": state,
            "h_prev": state,
            "w_ru": floats(2 * units, 2 * units),
            "b_ru": floats(2 * units),
        }
        inputs |= {"w_c": floats(2 * units, units), "b_c": floats(units)}
        products = 2.0 * batch * 2 * units * 3 * units
        return Case(inputs, bytes=6.0 * state.nbytes, operations=products + batch * units * 100.0)

    add("GRUBlockCell", gru)
    add(
        "IRFFT",
        lambda n: Case(
            {"input": rows(n, 256)[:, :129].astype(np.complex64), "fft_length": [256]},
            operations=n * 2.5 * math.log2(256),
        ),
    )


for _part in (_volumes, _pictures, _quantised, _moves, _sparse, _updates, _decompositions):
    _part()
