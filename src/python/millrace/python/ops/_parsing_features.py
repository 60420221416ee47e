# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Feature configurations of parsers, and the op arguments that follow from them."""
from __future__ import annotations

import collections
import re
from typing import Any, Optional

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape
from millrace.python.ops import array_ops
from millrace.python.platform import tf_logging

_BAD_IN_NAMES = r"[^A-Za-z0-9_.\-/]"


class VarLenFeature(collections.namedtuple("VarLenFeature", ["dtype"])):
    """A feature with any number of values of `dtype`, parsed into a SparseTensor."""

    __slots__ = ()


class SparseFeature(
    collections.namedtuple("SparseFeature", ["index_key", "value_key", "dtype", "size", "already_sorted"])
):
    """A SparseTensor from two features: indices (int64, one key or one for each axis) and values of `dtype`.

    `size` is the size of the axis, or a list of them; `already_sorted` says that indices are in order.
    """

    __slots__ = ()

    def __new__(
        cls, index_key: Any, value_key: Any, dtype: Any, size: Any, already_sorted: bool = False
    ) -> Any:
        return super().__new__(cls, index_key, value_key, dtype, size, already_sorted)


class FixedLenFeature(collections.namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"])):
    """A feature of fixed `shape`, parsed into a dense tensor; it is required unless it has a default."""

    __slots__ = ()

    def __new__(cls, shape: Any, dtype: Any, default_value: Any = None) -> Any:
        return super().__new__(cls, shape, dtype, default_value)


class FixedLenSequenceFeature(
    collections.namedtuple("FixedLenSequenceFeature", ["shape", "dtype", "allow_missing", "default_value"])
):
    """A sequence of values of fixed `shape`, parsed into a dense tensor, shorter ones padded with the default.

    `allow_missing` says whether the feature may be absent: then the sequence is empty.
    """

    __slots__ = ()

    def __new__(cls, shape: Any, dtype: Any, allow_missing: bool = False, default_value: Any = None) -> Any:
        return super().__new__(cls, shape, dtype, allow_missing, default_value)


class _RawParams:
    """Keys, types, defaults and shapes of sparse and dense features."""

    def __init__(self) -> None:
        self.sparse_keys: list[Any] = []
        self.sparse_types: list[Any] = []
        self.dense_keys: list[Any] = []
        self.dense_types: list[Any] = []
        self.dense_defaults: dict[Any, Any] = collections.OrderedDict()
        self.dense_shapes: list[Any] = []

    def add(self, key: Any, feature: Any, types: Any) -> None:
        """Adds one feature; ValueError when it is incomplete."""
        kind = type(feature).__name__
        if not isinstance(feature, (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)):
            raise ValueError("Invalid feature %s:%s." % (key, feature))
        if not isinstance(feature, tuple(types)):
            raise ValueError("Unsupported %s %s." % (kind, feature))
        if isinstance(feature, SparseFeature):
            if not feature.index_key:
                raise ValueError("Missing index_key for SparseFeature %s." % (feature,))
            if not feature.value_key:
                raise ValueError("Missing value_key for SparseFeature %s." % (feature,))
        if not feature.dtype:
            raise ValueError("Missing type for feature %s." % key)
        if isinstance(feature, VarLenFeature):
            self.sparse_keys.append(key)
            self.sparse_types.append(feature.dtype)
        elif isinstance(feature, SparseFeature):
            self._add_sparse(feature)
        else:
            self._add_dense(key, feature)

    def _add_sparse(self, feature: Any) -> None:
        index_keys = feature.index_key
        if isinstance(index_keys, str):
            index_keys = [index_keys]
        elif len(index_keys) > 1:
            tf_logging.warning(
                "SparseFeature is a complicated feature config "
                "and should only be used after careful consideration of VarLenFeature."
            )
        for index_key in sorted(index_keys):
            self._add_sparse_key(index_key, dtypes.int64, "int64")
        self._add_sparse_key(feature.value_key, feature.dtype, feature.dtype)

    def _add_sparse_key(self, key: Any, dtype: Any, text: Any) -> None:
        if key in self.sparse_keys:
            known = self.sparse_types[self.sparse_keys.index(key)]
            if known != dtype:
                raise ValueError("Conflicting type %s vs %s for feature %s." % (known, text, key))
        else:
            self.sparse_keys.append(key)
            self.sparse_types.append(dtype)

    def _add_dense(self, key: Any, feature: Any) -> None:
        if feature.shape is None:
            raise ValueError("Missing shape for feature %s." % key)
        if isinstance(feature, FixedLenFeature):
            shape = tensor_shape.as_shape(feature.shape)
            if feature.shape and shape.ndims and shape.dims[0].value is None:
                raise ValueError(
                    "First dimension of shape for feature %s unknown. Consider using FixedLenSequenceFeature."
                    % key
                )
            if not shape.is_fully_defined():
                raise ValueError(
                    "All dimensions of shape for feature %s need to be known but received %s."
                    % (key, str(feature.shape))
                )
        elif feature.allow_missing:
            self.dense_defaults[key] = None
        self.dense_keys.append(key)
        self.dense_shapes.append(feature.shape)
        self.dense_types.append(feature.dtype)
        if feature.default_value is not None:
            self.dense_defaults[key] = feature.default_value

    def astuple(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """In the order of the arguments of `_parse_example_raw`."""
        return (
            self.sparse_keys,
            self.sparse_types,
            self.dense_keys,
            self.dense_types,
            self.dense_defaults,
            self.dense_shapes,
        )


def _features_to_raw_params(features: Any, types: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Returns (sparse keys, sparse types, dense keys, dense types, dense defaults, dense shapes) of features.

    Raises:
      ValueError: a feature is of none of `types`, or incomplete.
    """
    params = _RawParams()
    if features:
        if not hasattr(features, "keys"):
            raise TypeError("Expected a dict of features, got %r." % (features,))
        # In the order of the keys, so that equal dictionaries make equal graphs.
        for key in sorted(features.keys()):
            params.add(key, features[key], types)
    return params.astuple()


def _construct_sparse_tensors_for_sparse_features(features: Any, tensor_dict: Any) -> dict[Any, Any]:
    """Returns `tensor_dict` with the two parts of each SparseFeature replaced by its SparseTensor."""
    from millrace.python.ops import sparse_ops

    result = dict(tensor_dict)
    for key in sorted(features.keys()):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            if isinstance(feature.index_key, str):
                sp_ids: Any = result[feature.index_key]
            else:
                sp_ids = [result[index_key] for index_key in feature.index_key]
            result[key] = sparse_ops.sparse_merge(
                sp_ids,
                result[feature.value_key],
                vocab_size=feature.size,
                already_sorted=feature.already_sorted,
            )
    for key in set(result) - set(features):
        del result[key]
    return result


def _prepend_none_dimension(features: Any) -> Any:
    """Returns features with a first dimension of unknown size before each FixedLenSequenceFeature."""
    if not features:
        return features
    if not hasattr(features, "items"):
        raise TypeError("Expected a dict of features, got %r." % (features,))
    modified = dict(features)
    for key, feature in features.items():
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
            modified[key] = FixedLenSequenceFeature(
                [None] + list(feature.shape), feature.dtype, feature.allow_missing, feature.default_value
            )
    return modified


def _default_value(key: Any, default: Any, dtype: Any, shape: Any) -> Any:
    clean = re.sub(_BAD_IN_NAMES, "_", key)
    if shape.ndims is not None and shape.ndims > 0 and shape.dims[0].value is None:
        # The padding value of shorter sequences.
        if default is None:
            return ops.convert_to_tensor("" if dtype == dtypes.string else 0, dtype=dtype)
        default = ops.convert_to_tensor(default, dtype=dtype, name="padding_" + clean)
        return array_ops.reshape(default, [])
    if default is None:
        return constant_op.constant([], dtype=dtype)
    if not isinstance(default, ops.Tensor):
        default = ops.convert_to_tensor(default, dtype=dtype, name="key_" + clean)
        default = array_ops.reshape(default, shape)
    return default


def _process_raw_parameters(
    names: Any,
    dense_defaults: Any,
    sparse_keys: Any,
    sparse_types: Any,
    dense_keys: Any,
    dense_types: Any,
    dense_shapes: Any,
) -> tuple[Any, ...]:
    """Checks the arguments and sets the missing ones to their defaults.

    Returns:
      (names, tensors of defaults, sparse keys, sparse types, dense keys, shapes as protos, shapes).

    Raises:
      ValueError: lengths differ, there is no key, or one is both dense and sparse.
    """
    names = [] if names is None else names
    dense_defaults = collections.OrderedDict() if dense_defaults is None else dense_defaults
    sparse_keys = [] if sparse_keys is None else sparse_keys
    sparse_types = [] if sparse_types is None else sparse_types
    dense_keys = [] if dense_keys is None else dense_keys
    dense_types = [] if dense_types is None else dense_types
    dense_shapes = [[]] * len(dense_keys) if dense_shapes is None else dense_shapes
    num_dense, num_sparse = len(dense_keys), len(sparse_keys)
    if len(dense_shapes) != num_dense:
        raise ValueError("len(dense_shapes) != len(dense_keys): %d vs. %d" % (len(dense_shapes), num_dense))
    if len(dense_types) != num_dense:
        raise ValueError("len(dense_types) != len(num_dense): %d vs. %d" % (len(dense_types), num_dense))
    if len(sparse_types) != num_sparse:
        raise ValueError("len(sparse_types) != len(sparse_keys): %d vs. %d" % (len(sparse_types), num_sparse))
    if num_dense + num_sparse == 0:
        raise ValueError("Must provide at least one sparse key or dense key")
    if not set(dense_keys).isdisjoint(set(sparse_keys)):
        raise ValueError(
            "Dense and sparse keys must not intersect; intersection: %s"
            % set(dense_keys).intersection(set(sparse_keys))
        )
    shapes = [tensor_shape.as_shape(shape) for shape in dense_shapes]
    defaults = [
        _default_value(key, dense_defaults.get(key), dtype, shape)
        for key, dtype, shape in zip(dense_keys, dense_types, shapes)
    ]
    return (
        names,
        defaults,
        sparse_keys,
        sparse_types,
        dense_keys,
        [shape.as_proto() for shape in shapes],
        shapes,
    )


def sparse_of(keys: Any, indices: Any, values: Any, shapes: Any) -> list[Any]:
    """Returns the SparseTensors whose parts an op returns in three lists."""
    from millrace.python.framework import sparse_tensor

    return [
        sparse_tensor.SparseTensor(ix, val, shape) for _, ix, val, shape in zip(keys, indices, values, shapes)
    ]


def clean_name(key: Optional[str]) -> str:
    """A key as a part of the name of an op."""
    return re.sub(_BAD_IN_NAMES, "_", key or "")
