# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets that take elements of several datasets in turn."""
from __future__ import annotations

from typing import Any

from millrace.python.data.experimental.ops import random_ops
from millrace.python.data.ops import _datasets, dataset_ops, readers
from millrace.python.data.util import nest
from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import (
    array_ops,
    gen_experimental_dataset_ops as ged_ops,
    gen_stateless_random_ops,
    math_ops,
)


def parallel_interleave(
    map_func: Any, cycle_length: Any, block_length: Any = 1, sloppy: Any = False, buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Any:  # fmt: skip
    """For `apply`: the elements of the datasets that a function makes, of `cycle_length` of them at the same time.

    With `sloppy` available elements come before those that are not computed yet, so the order is not
    deterministic.
    """

    def apply_fn(dataset: Any) -> Any:
        return readers.ParallelInterleaveDataset(
            dataset,
            map_func,
            cycle_length,
            block_length,
            sloppy,
            buffer_output_elements,
            prefetch_input_elements,
        )

    return apply_fn


class _DirectedInterleaveDataset(_datasets._WithSpec):
    """Elements of datasets, in the order given by a dataset of their numbers."""

    def __init__(self, selector_input: Any, data_inputs: Any) -> None:
        self._selector_input = selector_input
        self._data_inputs = list(data_inputs)
        first = self._data_inputs[0]
        for i, data_input in enumerate(self._data_inputs[1:]):
            if dataset_ops.get_legacy_output_types(data_input) != dataset_ops.get_legacy_output_types(
                first
            ) or dataset_ops.get_legacy_output_classes(data_input) != dataset_ops.get_legacy_output_classes(
                first
            ):
                raise TypeError(
                    "All datasets must have the same type and class. dataset 0 vs dataset %d" % (i + 1)
                )
        spec = first.element_spec
        for data_input in self._data_inputs[1:]:
            spec = nest.pack_sequence_as(
                spec,
                [
                    a.most_specific_compatible_type(b)
                    for a, b in zip(nest.flatten(spec), nest.flatten(data_input.element_spec))
                ],
            )
        self._structure = spec
        super().__init__(
            ged_ops.directed_interleave_dataset(
                selector_input._variant_tensor,
                [d._variant_tensor for d in self._data_inputs],
                **self._flat_structure,
            )
        )

    def _inputs(self) -> list[Any]:
        return [self._selector_input] + self._data_inputs


def sample_from_datasets_v2(datasets: Any, weights: Any = None, seed: Any = None) -> Any:
    """A dataset that takes each element of one of `datasets`, drawn with probabilities in proportion to `weights`.

    Args:
      datasets: of one structure.
      weights: a list of numbers, a tensor, or a dataset of such; None: all are equal.
      seed: of the draws.

    Raises:
      TypeError: the weights are no numbers, or the datasets differ in their structure.
      ValueError: there are not as many weights as datasets.
    """
    count = len(datasets)
    if not isinstance(weights, dataset_ops.DatasetV2):
        if weights is None:
            logits: Any = [[1.0] * count]
        else:
            weights = ops.convert_to_tensor(weights, name="weights")
            if weights.dtype not in (dtypes.float32, dtypes.float64):
                raise TypeError(
                    "`weights` must be convertible to a tensor of `tf.float32` or `tf.float64` elements."
                )
            if not weights.shape.is_compatible_with([count]):
                raise ValueError("`weights` must be a vector of length `len(datasets)`.")
            logits = array_ops.expand_dims(math_ops.log(weights, name="logits"), 0)
        if count == 1:
            return datasets[0]

        def select(chosen_seed: Any) -> Any:
            return array_ops.squeeze(
                gen_stateless_random_ops.stateless_multinomial(logits, 1, seed=chosen_seed), axis=[0, 1]
            )

        selector = _seed_pairs(seed).map(select)
    else:
        log_weights = weights.map(lambda *p: math_ops.log(p, name="logits"))

        def select_by(logits: Any, chosen_seed: Any) -> Any:
            return array_ops.squeeze(
                gen_stateless_random_ops.stateless_multinomial(logits, 1, seed=chosen_seed), axis=[0, 1]
            )

        selector = dataset_ops.DatasetV2.zip((log_weights, _seed_pairs(seed))).map(select_by)
    return _DirectedInterleaveDataset(selector, datasets)


def _seed_pairs(seed: Any) -> Any:
    return random_ops.RandomDatasetV2(seed).batch(2, drop_remainder=True)


def sample_from_datasets_v1(datasets: Any, weights: Any = None, seed: Any = None) -> Any:
    """As sample_from_datasets_v2, as a dataset of TensorFlow 1."""
    return dataset_ops.DatasetV1Adapter(sample_from_datasets_v2(datasets, weights, seed))


def choose_from_datasets_v2(datasets: Any, choice_dataset: Any) -> Any:
    """A dataset whose elements come from the datasets whose numbers are in `choice_dataset` (int64).

    Raises:
      TypeError: `choice_dataset` is not of scalar int64 elements.
    """
    types = dataset_ops.get_legacy_output_types(choice_dataset)
    shapes = dataset_ops.get_legacy_output_shapes(choice_dataset)
    if not (types == dtypes.int64 and shapes.is_compatible_with(tensor_shape.TensorShape([]))):
        raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    return _DirectedInterleaveDataset(choice_dataset, datasets)


def choose_from_datasets_v1(datasets: Any, choice_dataset: Any) -> Any:
    """As choose_from_datasets_v2, as a dataset of TensorFlow 1."""
    return dataset_ops.DatasetV1Adapter(choose_from_datasets_v2(datasets, choice_dataset))


sample_from_datasets = sample_from_datasets_v1
choose_from_datasets = choose_from_datasets_v1
