# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recipes of bench/sweep for sequences, sets, ragged tensors, second gradients and more training updates."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from sweep_recipes import RECIPES, Case, Variable, add, floats, image, integers, rows
from sweep_rest import count, matrices, volume


def _recurrent() -> None:
    units = 64

    def sizes(n: int) -> tuple[int, int]:
        return max(n // 4096, 1), max(min(n // 64, 64), 1)  # steps, batch

    def cell(n: int) -> dict[str, Any]:
        batch = sizes(n)[1]
        state = floats(batch, units)
        weights = {
            "w": floats(2 * units, 4 * units),
            "wci": floats(units),
            "wcf": floats(units),
            "wco": floats(units),
        }
        return {"cs_prev": state, "h_prev": state, **weights, "b": floats(4 * units)}

    def block(n: int, gradient: bool, forward: str) -> Case:
        steps, batch = sizes(n)
        x = floats(steps, batch, units)
        inputs = {"seq_len_max": np.int64(steps), "x": x, **cell(n)}
        if gradient:
            inputs |= dict.fromkeys(("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"), x)
            inputs["use_peephole"] = False
        products = 2.0 * steps * batch * 2 * units * 4 * units * (2 if gradient else 1)
        return Case(inputs, bytes=x.nbytes * 10.0, operations=products + x.size * 150.0)

    add("BlockLSTM BlockLSTMV2", lambda n: block(n, False, ""))
    add("BlockLSTMGrad BlockLSTMGradV2", lambda n: block(n, True, ""))

    def lstm_gradient(n: int) -> Case:
        inputs = cell(n)
        state = floats(*inputs["h_prev"].shape)
        inputs |= dict.fromkeys(("x", "i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"), state)
        return Case(inputs | {"use_peephole": False}, bytes=state.nbytes * 15.0, operations=state.size * 30.0)

    add("LSTMBlockCellGrad", lstm_gradient)

    def gru_gradient(n: int) -> Case:
        state = floats(max(n // 512, 1), units)
        inputs = dict.fromkeys(("x", "h_prev", "r", "u", "c", "d_h"), state)
        inputs |= {"w_ru": floats(2 * units, 2 * units), "w_c": floats(2 * units, units)}
        inputs |= {"b_ru": floats(2 * units), "b_c": floats(units)}
        return Case(inputs, bytes=state.nbytes * 10.0, operations=2.0 * state.size * 2 * 3 * units)

    add("GRUBlockCellGrad", gru_gradient)


def _sequences() -> None:
    def speech(n: int) -> dict[str, Any]:
        frames = max(min(n // 256, 256), 4)
        batch = max(n // 32 // frames, 1)
        return {"inputs": floats(frames, batch, 32), "sequence_length": np.full(batch, frames, np.int32)}

    def greedy(n: int) -> Case:
        inputs = speech(n)
        size, classes = inputs["inputs"].size, inputs["inputs"].shape[-1]
        # As ArgMax; what a frame gives depends on the one before.
        return Case(inputs, operations=size * 4.0, steps=size / classes * 4.0)

    add("CTCGreedyDecoder", greedy)

    def loss(n: int) -> Case:
        inputs = speech(n)
        frames, batch, _ = inputs["inputs"].shape
        labels = max(frames // 4, 1)
        at = np.stack(np.meshgrid(np.arange(batch), np.arange(labels), indexing="ij"), -1).reshape(-1, 2)
        inputs |= {"labels_indices": at.astype(np.int64), "labels_values": integers(31, len(at), low=1)}
        # Each frame: a softmax, and for each of 2 L + 1 states, forward and backward, two sums of logarithms,
        # which wait for the frame before.
        return Case(
            inputs,
            operations=inputs["inputs"].size * 100.0 + frames * batch * (2 * labels + 1) * 2 * 2 * 100.0,
        )

    add("CTCLoss CTCLossV2", loss)

    def beams(n: int) -> Case:
        inputs = speech(min(n, 1 << 16)) | {"beam_width": 4, "top_paths": 1}
        # A search in a heap for each of 4 beams and 32 labels.
        return Case(inputs, steps=inputs["inputs"].size * 4.0 * 8)

    add("CTCBeamSearchDecoder", beams)
    add(
        "AudioSpectrogram",
        lambda n: Case(
            {"input": floats(max(n, 512), 1), "window_size": 256, "stride": 256},
            operations=max(n, 512) * (2.5 * 8 + 4),
        ),
    )
    add(
        "Mfcc",
        lambda n: Case(
            {"spectrogram": floats(1, max(n // 129, 1), 129), "sample_rate": 16000}, operations=n * 14.0
        ),
    )


def _images() -> None:
    boxes = np.asarray([[0.1, 0.1, 0.9, 0.9]], np.float32)
    crop = {"boxes": boxes, "box_ind": [0]}
    add(
        "CropAndResizeGradBoxes",
        lambda n: Case({"grads": image(n), "image": image(n), **crop}, operations=image(n).size * 12.0),
    )
    add(
        "CropAndResizeGradImage",
        lambda n: Case(
            {"grads": image(n), **crop, "image_size": list(image(n).shape), "T": np.float32},
            operations=image(n).size * 8.0,
        ),
    )
    add(
        "DrawBoundingBoxesV2",
        lambda n: Case({"images": image(n, 3), "boxes": boxes[None], "colors": floats(1, 3)}),
    )
    add(
        "ExtractGlimpse",
        lambda n: Case(
            {
                "input": image(n),
                "size": [s // 2 for s in image(n).shape[1:3]],
                "offsets": np.zeros((1, 2), np.float32),
            },
            bytes=image(n).nbytes / 2.0,
        ),
    )
    one = {"scale": np.ones(2, np.float32), "translation": np.zeros(2, np.float32), "kernel_type": "triangle"}
    add(
        "ScaleAndTranslate",
        lambda n: Case(
            {"images": image(n), "size": list(image(n).shape[1:3]), **one}, operations=image(n).size * 8.0
        ),
    )
    add(
        "ScaleAndTranslateGrad",
        lambda n: Case(
            {"grads": image(n), "original_image": image(n), **one}, operations=image(n).size * 8.0
        ),
    )
    filters = {"filter": floats(3, 3, 16, 16), "mode": "REFLECT", "strides": [1, 1, 1, 1], "padding": "VALID"}
    filters["paddings"] = np.asarray([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)
    add("FusedPadConv2D", lambda n: Case({"input": image(n), **filters}, operations=n * 288.0))
    add(
        "FusedResizeAndPadConv2D",
        lambda n: Case(
            {"input": image(n), "size": list(image(n).shape[1:3]), **filters}, operations=n * 304.0
        ),
    )

    def candidates(n: int, **more: Any) -> Case:
        """Half of all boxes overlap a kept one; each is compared with the eight kept."""
        boxes = floats(count(n), 4)
        inputs = {"boxes": boxes, "scores": floats(count(n)), "max_output_size": 8, **more}
        return Case(inputs, steps=count(n) * math.log2(count(n) + 1))

    add("NonMaxSuppression", candidates)
    add("NonMaxSuppressionV2", lambda n: candidates(n, iou_threshold=0.5))
    add("NonMaxSuppressionV4", lambda n: candidates(n, iou_threshold=0.5, score_threshold=0.0))
    add(
        "NonMaxSuppressionV5",
        lambda n: candidates(n, iou_threshold=0.5, score_threshold=0.0, soft_nms_sigma=0.0),
    )

    def overlaps(n: int) -> Case:
        side = int(math.sqrt(n))
        inputs = {"overlaps": floats(side, side), "scores": floats(side), "max_output_size": 8}
        inputs |= {"overlap_threshold": 0.5, "score_threshold": 0.0}
        return Case(inputs, bytes=side * 8.0, steps=side * math.log2(side + 1))

    add("NonMaxSuppressionWithOverlaps", overlaps)
    add(
        "CombinedNonMaxSuppression",
        lambda n: Case(
            {
                "boxes": floats(1, count(n), 1, 4),
                "scores": floats(1, count(n), 1),
                "max_output_size_per_class": 8,
            }
            | {"max_total_size": 8, "iou_threshold": 0.5, "score_threshold": 0.0},
            steps=count(n) * math.log2(count(n) + 1),
        ),
    )


def _pools() -> None:
    window: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}

    def pooled(n: int) -> dict[str, Any]:
        x = image(n)
        return {"orig_input": x, "orig_output": x[:, ::2, ::2].copy(), "grad": x}

    add("MaxPoolGradGradV2", lambda n: Case(pooled(n) | window))

    def with_places(n: int, second: bool) -> Case:
        x = image(n)
        places = np.arange(x.size, dtype=np.int64).reshape(x.shape)[:, ::2, ::2].copy()
        return Case({"input": x, "grad": x if second else x[:, ::2, ::2].copy(), "argmax": places} | window)

    add("MaxPoolGradWithArgmax", lambda n: with_places(n, False))
    add("MaxPoolGradGradWithArgmax", lambda n: with_places(n, True))
    cube: dict[str, Any] = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
    add(
        "MaxPool3DGradGrad",
        lambda n: Case(
            {
                "orig_input": volume(n),
                "orig_output": volume(n)[:, ::2, ::2, ::2].copy(),
                "grad": volume(n),
                **cube,
            }
        ),
    )

    def fractional(n: int) -> dict[str, Any]:
        x = image(n)
        ends = {f"{name}_pooling_sequence": np.arange(0, x.shape[1] + 1, 2) for name in ("row", "col")}
        return {"out_backprop": x[:, ::2, ::2].copy(), **ends}

    add(
        "FractionalAvgPoolGrad",
        lambda n: Case(fractional(n) | {"orig_input_tensor_shape": list(image(n).shape)}),
    )
    add(
        "FractionalMaxPoolGrad",
        lambda n: Case(fractional(n) | {"orig_input": image(n), "orig_output": image(n)[:, ::2, ::2].copy()}),
    )


def _matrices() -> None:
    def cube(n: int) -> Any:
        return floats(max(n // 8192, 1), 16, 16, 16)

    add(
        "FFT3D IFFT3D",
        lambda n: Case({"input": cube(n).astype(np.complex64)}, operations=cube(n).size * 5.0 * 12),
    )
    add(
        "RFFT3D",
        lambda n: Case({"input": cube(n), "fft_length": [16, 16, 16]}, operations=cube(n).size * 2.5 * 12),
    )
    add(
        "IRFFT3D",
        lambda n: Case(
            {"input": cube(n)[..., :9].astype(np.complex64), "fft_length": [16, 16, 16]},
            operations=cube(n).size * 2.5 * 12,
        ),
    )
    planes = lambda n: floats(max(n // 1024, 1), 32, 32)  # noqa: E731
    add(
        "RFFT2D",
        lambda n: Case({"input": planes(n), "fft_length": [32, 32]}, operations=planes(n).size * 2.5 * 10),
    )
    add(
        "IRFFT2D",
        lambda n: Case(
            {"input": planes(n)[..., :17].astype(np.complex64), "fft_length": [32, 32]},
            operations=planes(n).size * 2.5 * 10,
        ),
    )
    cubes = lambda n: max(n // 1024, 1) * 32.0**3  # noqa: E731
    add(
        "CholeskyGrad",
        lambda n: Case({"l": np.tril(matrices(n)), "grad": matrices(n)}, operations=cubes(n) * 2),
    )
    add(
        "MatrixLogarithm",
        lambda n: Case({"input": matrices(n).astype(np.complex64)}, operations=cubes(n) * 100),
    )
    add(
        "MatrixSolveLs",
        lambda n: Case(
            {"matrix": matrices(n), "rhs": matrices(n), "l2_regularizer": 0.1}, operations=cubes(n) * 5
        ),
    )
    add("Svd", lambda n: Case({"input": matrices(n)}, operations=cubes(n) * 21))
    add("IgammaGradA", lambda n: Case({"a": floats(n), "x": floats(n)}, operations=n * 2000))
    # The distances of all points from 16 centers of 64 numbers; from the ones before in each of 4 choices.
    add(
        "NearestNeighbors",
        lambda n: Case({"points": rows(n), "centers": floats(16, 64), "k": 2}, operations=n * 32.0),
    )
    add(
        "KmeansPlusPlusInitialization",
        lambda n: Case(
            {"points": rows(n), "num_to_sample": 4, "seed": 1, "num_retries_per_sample": 2}, bytes=n * 4.0 * 9
        ),
    )
    add("KMC2ChainInitialization", lambda n: Case({"distances": floats(n), "seed": 1}, steps=n * 20.0))


def _sets() -> None:
    def sparse(n: int) -> tuple[Any, Any, Any]:
        at = np.arange(0, count(n) * 64, 4, dtype=np.int64)
        return np.stack([at // 64, at % 64], 1), integers(1000, len(at)), np.asarray([count(n), 64], np.int64)

    def named(n: int, *names: str) -> dict[str, Any]:
        return dict(zip(names, sparse(n), strict=True))

    # A set is sorted or hashed: 8 steps a value, as for Unique.
    one = ("set1_indices", "set1_values", "set1_shape")
    two = ("set2_indices", "set2_values", "set2_shape")
    union = {"set_operation": "intersection"}
    add("SetSize", lambda n: Case(named(n, "set_indices", "set_values", "set_shape"), steps=n / 4 * 8))
    add(
        "SparseToSparseSetOperation", lambda n: Case(named(n, *one) | named(n, *two) | union, steps=n / 2 * 8)
    )
    dense = lambda n: integers(1000, count(n), 64)  # noqa: E731
    add(
        "DenseToSparseSetOperation",
        lambda n: Case({"set1": dense(n)} | named(n, *two) | union, steps=n * 1.25 * 8),
    )
    add(
        "DenseToDenseSetOperation",
        lambda n: Case({"set1": dense(n), "set2": dense(n)} | union, steps=n * 2.0 * 8),
    )
    add("UniqueWithCountsV2", lambda n: Case({"x": integers(1000, n), "axis": [0]}, steps=n * 8))
    add(
        "ComputeAccidentalHits",
        lambda n: Case(
            {"true_classes": integers(1000, count(n), 1).astype(np.int64), "num_true": 1}
            | {"sampled_candidates": np.arange(64, dtype=np.int64)},
            steps=count(n) * 8.0 + 64 * 8,
        ),
    )


def _sparse() -> None:
    """A step for each element, or each of its indices where these change."""

    def sparse(n: int) -> tuple[Any, Any, Any]:
        at = np.arange(0, count(n) * 64, 4, dtype=np.int64)
        return np.stack([at // 64, at % 64], 1), floats(len(at)), np.asarray([count(n), 64], np.int64)

    ab = [f"{x}_{part}" for x in "ab" for part in ("indices", "values", "shape")]
    both = lambda n: dict(zip(ab, sparse(n) * 2, strict=True))  # noqa: E731
    add("SparseSparseMaximum SparseSparseMinimum", lambda n: Case(both(n), steps=n))
    add(
        "SparseAddGrad",
        lambda n: Case(
            {
                "backprop_val_grad": sparse(n)[1],
                **{f"{k}_indices": sparse(n)[0] for k in ("a", "b", "sum")},
            },
            steps=n,
        ),
    )
    add(
        "SparseConcat",
        lambda n: Case(
            {"indices": [sparse(n)[0]] * 2, "values": [sparse(n)[1]] * 2, "shapes": [sparse(n)[2]] * 2}
            | {"concat_dim": 1},
            steps=n,
        ),
    )
    add(
        "SparseSplit",
        lambda n: Case(
            {"split_dim": 1, "num_split": 2}
            | dict(zip(("indices", "values", "shape"), sparse(n), strict=True)),
            steps=n / 2,
        ),
    )
    inputs = ("input_indices", "input_values", "input_shape")
    add(
        "SparseReduceMaxSparse SparseReduceSumSparse",
        lambda n: Case(dict(zip(inputs, sparse(n), strict=True)) | {"reduction_axes": [1]}, steps=n),
    )
    add(
        "SparseSliceGrad",
        lambda n: Case(
            {
                "backprop_val_grad": sparse(n)[1],
                "input_indices": sparse(n)[0],
                "input_start": np.zeros(2, np.int64),
            }
            | {"output_indices": sparse(n)[0]},
            steps=n / 2,
        ),
    )
    add(
        "SparseFillEmptyRowsGrad",
        lambda n: Case(
            {"reverse_index_map": np.arange(n // 2, dtype=np.int64), "grad_values": floats(n)}, steps=n
        ),
    )
    add(
        "SparseCross",
        lambda n: Case(
            {
                "indices": [],
                "values": [],
                "shapes": [],
                "dense_inputs": [integers(99, n // 8, 1).astype(np.int64)] * 2,
            }
            | {
                "hashed_output": True,
                "num_buckets": 1000,
                "hash_key": 7,
                "out_type": np.int64,
                "internal_type": np.int64,
            },
            steps=n / 8 * 20.0,  # two fingerprints and a remainder
        ),
    )
    add("SparseSegmentSqrtNWithNumSegments", lambda n: RECIPES["SparseSegmentSumWithNumSegments"](n))


def _ragged() -> None:
    ends = lambda n: np.arange(0, n + 1, 8, dtype=np.int64)  # noqa: E731
    add(
        "RaggedGather",
        lambda n: Case(
            {"params_nested_splits": [ends(n)], "params_dense_values": floats(n), "OUTPUT_RAGGED_RANK": 1}
            | {"indices": integers(n // 8, n // 8).astype(np.int64)},
        ),
    )
    starts = lambda n: np.arange(0, n // 8, dtype=np.int64)  # noqa: E731
    add("RaggedRange", lambda n: Case({"starts": starts(n), "limits": starts(n) + 8, "deltas": np.int64(1)}))
    add("RaggedTensorToSparse", lambda n: Case({"rt_nested_splits": [ends(n)], "rt_dense_values": floats(n)}))
    add(
        "RaggedTensorToTensor",
        lambda n: Case(
            {"shape": np.asarray([-1, 10], np.int64), "values": floats(n), "default_value": 0.0}
            | {"row_partition_tensors": [ends(n)], "row_partition_types": ["ROW_SPLITS"]},
        ),
    )
    add(
        "RaggedTensorToVariant",
        lambda n: Case(
            {"rt_nested_splits": [ends(n)], "rt_dense_values": floats(n), "batched_input": False}, bytes=1.0
        ),
    )


def _updates() -> None:
    scalars: dict[str, float] = {
        "lr": 0.1,
        "alpha": 0.1,
        "l1": 0.0,
        "l2": 0.0,
        "l2_shrinkage": 0.0,
        "lr_power": -0.5,
    }
    scalars |= {"rho": 0.9, "epsilon": 1e-3, "momentum": 0.9, "beta1": 0.9, "beta2": 0.99}
    scalars |= {"beta1_power": 0.9, "beta2_power": 0.9}
    da = "gradient_accumulator gradient_squared_accumulator lr l1 l2 global_step"
    dense = {
        "ApplyAdagradDA": da,
        "ResourceApplyAdagradDA": da,
        "ResourceApplyAdamWithAmsgrad": "m v vhat beta1_power beta2_power lr beta1 beta2 epsilon",
        "ResourceApplyKerasMomentum": "accum lr momentum",
    }
    rules = {
        "AdagradDA": da,
        "AdagradV2": "accum lr epsilon",
        "CenteredRMSProp": "mg ms mom lr rho momentum epsilon",
        "FtrlV2": "accum linear lr l1 l2 l2_shrinkage lr_power",
        "KerasMomentum": "accum lr momentum",
        "ProximalGradientDescent": "alpha l1 l2",
    }

    def update(n: int, arguments: str, by_row: bool) -> Case:
        shape = (count(n), 64) if by_row else (n,)
        inputs: dict[str, Any] = {"var": Variable(floats(*shape)), "grad": floats(*shape)}
        for name in arguments.split():
            table = Variable(floats(*shape, low=1, high=2))
            inputs[name] = np.int64(3) if name == "global_step" else scalars.get(name, table)
        if by_row:
            inputs["indices"] = np.random.RandomState(3).permutation(count(n))
        tables = sum(isinstance(value, Variable) for value in inputs.values())
        return Case(
            inputs, bytes=n * (8.0 * tables + 4), operations=n * 16.0, steps=n * 2.0
        )  # a division and a root

    for name, arguments in dense.items():
        add(name, lambda n, arguments=arguments: update(n, arguments, False))
    for rule, arguments in rules.items():
        names = f"ResourceSparseApply{rule}" + ("" if rule == "KerasMomentum" else f" SparseApply{rule}")
        add(names, lambda n, arguments=arguments: update(n, arguments, True))


for _part in (_recurrent, _sequences, _images, _pools, _matrices, _sets, _sparse, _ragged, _updates):
    _part()
