# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Boosted trees: the ops, and the resources that a checkpoint keeps."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import constant_op, ops
from millrace.python.ops import array_ops, gen_boosted_trees_ops, resources
from millrace.python.ops.gen_boosted_trees_ops import (
    boosted_trees_aggregate_stats,
    boosted_trees_bucketize,
    boosted_trees_calculate_best_feature_split,
    boosted_trees_calculate_best_gains_per_feature,
    boosted_trees_center_bias,
    boosted_trees_create_quantile_stream_resource,
    boosted_trees_example_debug_outputs,
    boosted_trees_make_quantile_summaries,
    boosted_trees_make_stats_summary,
    boosted_trees_predict,
    boosted_trees_quantile_stream_resource_add_summaries,
    boosted_trees_quantile_stream_resource_deserialize,
    boosted_trees_quantile_stream_resource_flush,
    boosted_trees_quantile_stream_resource_get_bucket_boundaries,
    boosted_trees_quantile_stream_resource_handle_op,
    boosted_trees_sparse_aggregate_stats,
    boosted_trees_sparse_calculate_best_feature_split,
    boosted_trees_training_predict,
    boosted_trees_update_ensemble,
    boosted_trees_update_ensemble_v2,
    is_boosted_trees_quantile_stream_resource_initialized,
)
from millrace.python.training.saving import saveable_object

__all__ = [
    "PruningMode", "QuantileAccumulator", "QuantileAccumulatorSaveable", "TreeEnsemble",
    "boosted_trees_aggregate_stats", "boosted_trees_bucketize",
    "boosted_trees_calculate_best_feature_split", "boosted_trees_calculate_best_gains_per_feature",
    "boosted_trees_center_bias", "boosted_trees_create_quantile_stream_resource",
    "boosted_trees_example_debug_outputs", "boosted_trees_make_quantile_summaries",
    "boosted_trees_make_stats_summary", "boosted_trees_predict",
    "boosted_trees_quantile_stream_resource_add_summaries",
    "boosted_trees_quantile_stream_resource_deserialize", "boosted_trees_quantile_stream_resource_flush",
    "boosted_trees_quantile_stream_resource_get_bucket_boundaries",
    "boosted_trees_quantile_stream_resource_handle_op", "boosted_trees_sparse_aggregate_stats",
    "boosted_trees_sparse_calculate_best_feature_split", "boosted_trees_training_predict",
    "boosted_trees_update_ensemble", "boosted_trees_update_ensemble_v2",
    "is_boosted_trees_quantile_stream_resource_initialized",
]  # fmt: skip


class PruningMode:
    """When splits without gain are removed."""

    NO_PRUNING, PRE_PRUNING, POST_PRUNING = range(3)
    _map = {"none": NO_PRUNING, "pre": PRE_PRUNING, "post": POST_PRUNING}

    @classmethod
    def from_str(cls, mode: str) -> int:
        """The number of "none", "pre" or "post"."""
        if mode in cls._map:
            return cls._map[mode]
        raise ValueError(
            "pruning_mode mode must be one of: {}. Found: {}".format(", ".join(sorted(cls._map)), mode)
        )


class QuantileAccumulatorSaveable(saveable_object.SaveableObject):
    """Saves the bucket boundaries of a QuantileAccumulator."""

    def __init__(self, resource_handle: Any, create_op: Any, num_streams: int, name: str) -> None:
        self._resource_handle = resource_handle
        self._num_streams = num_streams
        self._create_op = create_op
        boundaries = boosted_trees_quantile_stream_resource_get_bucket_boundaries(
            resource_handle, num_streams
        )
        specs = [
            saveable_object.SaveSpec(tensor, "", "%s_bucket_boundaries_%d" % (name, i))
            for i, tensor in enumerate(boundaries)
        ]
        super().__init__(resource_handle, specs, name)

    def restore(self, restored_tensors: Any, unused_tensor_shapes: Any) -> Any:
        with ops.control_dependencies([self._create_op]):
            return boosted_trees_quantile_stream_resource_deserialize(self._resource_handle, restored_tensors)


class QuantileAccumulator:
    """A resource that accumulates quantiles of several streams.

    Args:
      epsilon: the error that is allowed in the ranks.
      num_streams: the number of streams.
      num_quantiles: of each stream.
      name: of the resource.
      max_elements: the number of elements that are expected at most.
    """

    def __init__(
        self, epsilon: Any, num_streams: int, num_quantiles: Any, name: Any = None, max_elements: Any = None
    ) -> None:
        self._eps = epsilon
        self._num_streams = num_streams
        self._num_quantiles = num_quantiles
        with ops.name_scope(name, "QuantileAccumulator") as scope:
            name = scope.rstrip("/")
            self._quantile_accumulator_handle = boosted_trees_quantile_stream_resource_handle_op(
                container="", shared_name=name, name=name
            )
            limit = {} if max_elements is None else {"max_elements": max_elements}
            create_op = boosted_trees_create_quantile_stream_resource(
                self._quantile_accumulator_handle, epsilon, num_streams, **limit
            )
            is_initialized_op = is_boosted_trees_quantile_stream_resource_initialized(
                self._quantile_accumulator_handle
            )
            self._saveable = QuantileAccumulatorSaveable(
                self._quantile_accumulator_handle, create_op, num_streams, name
            )
        resources.register_resource(self._quantile_accumulator_handle, create_op, is_initialized_op)
        self._create_op = create_op
        self._is_initialized_op = is_initialized_op
        ops.add_to_collection(ops.GraphKeys.SAVEABLE_OBJECTS, self._saveable)

    @property
    def initializer(self) -> Any:
        return self._create_op

    @property
    def resource_handle(self) -> Any:
        return self._quantile_accumulator_handle

    @property
    def saveable(self) -> Any:
        return self._saveable

    def is_initialized(self) -> Any:
        return self._is_initialized_op

    def add_summaries(self, float_columns: Any, example_weights: Any) -> Any:
        """An operation that adds the values of all streams."""
        summaries = boosted_trees_make_quantile_summaries(float_columns, example_weights, self._eps)
        return boosted_trees_quantile_stream_resource_add_summaries(
            self._quantile_accumulator_handle, summaries
        )

    def flush(self) -> Any:
        """An operation that computes bucket boundaries from the added values."""
        return boosted_trees_quantile_stream_resource_flush(
            self._quantile_accumulator_handle, self._num_quantiles
        )

    def get_bucket_boundaries(self) -> Any:
        return boosted_trees_quantile_stream_resource_get_bucket_boundaries(
            self._quantile_accumulator_handle, self._num_streams
        )


class _TreeEnsembleSavable(saveable_object.SaveableObject):
    """Saves the stamp and the serialized trees."""

    def __init__(self, resource_handle: Any, create_op: Any, name: str) -> None:
        stamp_token, serialized = gen_boosted_trees_ops.boosted_trees_serialize_ensemble(resource_handle)
        slice_spec = ""
        specs = [
            saveable_object.SaveSpec(stamp_token, slice_spec, name + "_stamp"),
            saveable_object.SaveSpec(serialized, slice_spec, name + "_serialized"),
        ]
        super().__init__(resource_handle, specs, name)
        self._resource_handle = resource_handle
        self._create_op = create_op

    def restore(self, restored_tensors: Any, unused_restored_shapes: Any) -> Any:
        with ops.control_dependencies([self._create_op]):
            return gen_boosted_trees_ops.boosted_trees_deserialize_ensemble(
                self._resource_handle,
                stamp_token=restored_tensors[0],
                tree_ensemble_serialized=restored_tensors[1],
            )


class TreeEnsemble:
    """A resource with trees.

    Args:
      name: of the resource.
      stamp_token: the stamp at the beginning.
      is_local: whether it belongs to the local resources, which a checkpoint does not keep.
      serialized_proto: the trees at the beginning, a serialized TreeEnsemble.
    """

    def __init__(
        self, name: Any, stamp_token: Any = 0, is_local: bool = False, serialized_proto: Any = ""
    ) -> None:
        with ops.name_scope(name, "TreeEnsemble") as scope:
            name = scope.rstrip("/")
            self._resource_handle = gen_boosted_trees_ops.boosted_trees_ensemble_resource_handle_op(
                container="", shared_name=name, name=name
            )
            create_op = gen_boosted_trees_ops.boosted_trees_create_ensemble(
                self._resource_handle, constant_op.constant(stamp_token, dtype="int64"),
                tree_ensemble_serialized=serialized_proto,
            )  # fmt: skip
            is_initialized_op = gen_boosted_trees_ops.is_boosted_trees_ensemble_initialized(
                self._resource_handle
            )
            if not is_local:
                self._saveable = _TreeEnsembleSavable(self._resource_handle, create_op, name)
                ops.add_to_collection(ops.GraphKeys.SAVEABLE_OBJECTS, self._saveable)
        resources.register_resource(
            self._resource_handle, create_op, is_initialized_op, is_shared=not is_local
        )
        self._create_op = create_op
        self._is_initialized_op = is_initialized_op

    @property
    def initializer(self) -> Any:
        return self._create_op

    @property
    def resource_handle(self) -> Any:
        return self._resource_handle

    def is_initialized(self) -> Any:
        return self._is_initialized_op

    def get_stamp_token(self) -> Any:
        """The stamp, a scalar int64 tensor."""
        return gen_boosted_trees_ops.boosted_trees_get_ensemble_states(self._resource_handle)[0]

    def get_states(self) -> Any:
        """Stamp, numbers of trees, finalized trees and attempted layers, range of the last layer's nodes."""
        (
            stamp_token,
            num_trees,
            num_finalized_trees,
            num_attempted_layers,
            nodes_range,
        ) = gen_boosted_trees_ops.boosted_trees_get_ensemble_states(self._resource_handle)
        return (
            array_ops.identity(stamp_token, name="stamp_token"),
            array_ops.identity(num_trees, name="num_trees"),
            array_ops.identity(num_finalized_trees, name="num_finalized_trees"),
            array_ops.identity(num_attempted_layers, name="num_attempted_layers"),
            array_ops.identity(nodes_range, name="last_layer_nodes_range"),
        )

    def serialize(self) -> Any:
        """Stamp and serialized trees."""
        return gen_boosted_trees_ops.boosted_trees_serialize_ensemble(self._resource_handle)

    def deserialize(self, stamp_token: Any, serialized_proto: Any) -> Any:
        """An operation that replaces the trees by those of a serialized TreeEnsemble."""
        return gen_boosted_trees_ops.boosted_trees_deserialize_ensemble(
            self._resource_handle, stamp_token, serialized_proto
        )
