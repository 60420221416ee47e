# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers of Examples, of CSV, of raw bytes and of tensors."""
from __future__ import annotations

from typing import Any, Optional, TYPE_CHECKING

from millrace.python.framework import ops, sparse_tensor
from millrace.python.ops import array_ops, control_flow_ops, gen_parsing_ops, math_ops
from millrace.python.ops._parsing_features import (  # noqa: F401
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
    _construct_sparse_tensors_for_sparse_features,
    _features_to_raw_params,
    _prepend_none_dimension,
    _process_raw_parameters,
    clean_name,
    sparse_of,
)
from millrace.python.util import deprecation

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names of gen_parsing_ops that this module does not define."""

else:
    from millrace.python.ops.gen_parsing_ops import *  # noqa: F401,F403

# These replace the generated functions of the ops.
from millrace.python.ops._parsing_sequences import (  # noqa: E402,F401
    _parse_sequence_example_raw,
    _parse_single_sequence_example_raw,
    parse_sequence_example,
    parse_single_sequence_example,
)

_FEATURES = [VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature]


def parse_example(
    serialized: Any, features: Any, name: Optional[str] = None, example_names: Any = None
) -> Any:
    """Parses a vector of serialized Examples.

    Args:
      serialized: strings [batch].
      features: FixedLenFeature, VarLenFeature, SparseFeature and FixedLenSequenceFeature by their keys.
      name: name scope.
      example_names: strings [batch] for messages of errors.

    Returns:
      Tensors [batch, ...] and SparseTensors by their keys.

    Raises:
      ValueError: a feature is incomplete.
    """
    return parse_example_v2(serialized, features, example_names, name)


def parse_example_v2(
    serialized: Any, features: Any, example_names: Any = None, name: Optional[str] = None
) -> Any:
    """As `parse_example`, with the arguments of version 2."""
    if not features:
        raise ValueError("Missing: features was %s." % features)
    features = _prepend_none_dimension(features)
    params = _features_to_raw_params(features, _FEATURES)
    outputs = _parse_example_raw(serialized, example_names, *params, name=name)
    return _construct_sparse_tensors_for_sparse_features(features, outputs)


def _parse_example_raw(
    serialized: Any,
    names: Any = None,
    sparse_keys: Any = None,
    sparse_types: Any = None,
    dense_keys: Any = None,
    dense_types: Any = None,
    dense_defaults: Any = None,
    dense_shapes: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Parses Examples by lists of keys, types and shapes; returns tensors by key."""
    with ops.name_scope(name, "ParseExample", [serialized, names]):
        names, defaults, sparse_keys, sparse_types, dense_keys, protos, _ = _process_raw_parameters(
            names, dense_defaults, sparse_keys, sparse_types, dense_keys, dense_types, dense_shapes
        )
        indices, values, shapes, dense = gen_parsing_ops.parse_example(
            serialized=serialized,
            names=names,
            dense_defaults=defaults,
            sparse_keys=sparse_keys,
            sparse_types=sparse_types,
            dense_keys=dense_keys,
            dense_shapes=protos,
            name=name,
        )
        sparse = sparse_of(sparse_keys, indices, values, shapes)
        return dict(zip(list(sparse_keys) + list(dense_keys), sparse + list(dense)))


def parse_single_example(
    serialized: Any, features: Any, name: Optional[str] = None, example_names: Any = None
) -> Any:
    """Parses one serialized Example, a scalar string; see `parse_example`. The results have no batch axis."""
    return parse_single_example_v2_unoptimized(serialized, features, example_names, name)


def parse_single_example_v2_unoptimized(
    serialized: Any, features: Any, example_names: Any = None, name: Optional[str] = None
) -> Any:
    """As `parse_single_example`, with the arguments of version 2."""
    if not features:
        raise ValueError("Missing features.")
    with ops.name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = ops.convert_to_tensor(serialized, name="serialized")
        serialized = _assert_scalar(serialized, "serialized")
        features = _prepend_none_dimension(features)
        params = _features_to_raw_params(features, _FEATURES)
        outputs = _parse_single_example_raw(serialized, example_names, *params, name=name)
        return _construct_sparse_tensors_for_sparse_features(features, outputs)


def _assert_scalar(value: Any, name: str) -> Any:
    """Returns `value`; ValueError when it is known not to be a scalar, else an assert in the graph."""
    value_rank = value.shape.rank
    if value_rank is None:
        check = control_flow_ops.Assert(
            math_ops.equal(array_ops.rank(value), 0),
            ["Input %s must be a scalar" % name],
            name="%sIsScalar" % name.capitalize(),
        )
        result = control_flow_ops.with_dependencies([check], value, name="%sDependencies" % name)
        result.set_shape([])
        return result
    if value_rank == 0:
        return value
    raise ValueError("Input %s must be a scalar" % name)


def _parse_single_example_raw(
    serialized: Any,
    names: Any = None,
    sparse_keys: Any = None,
    sparse_types: Any = None,
    dense_keys: Any = None,
    dense_types: Any = None,
    dense_defaults: Any = None,
    dense_shapes: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Parses one Example as a batch of 1, and removes the batch axis."""
    with ops.name_scope(name, "ParseSingleExample", [serialized, names]):
        serialized = ops.convert_to_tensor(serialized)
        serialized_shape = serialized.get_shape()
        if serialized_shape.ndims is not None:
            if serialized_shape.ndims != 0:
                raise ValueError("Input serialized must be a scalar")
        else:
            serialized = _assert_scalar(serialized, "serialized")
        serialized = array_ops.expand_dims(serialized, 0)
        if names is not None:
            names = ops.convert_to_tensor(names)
            names = array_ops.expand_dims(_assert_scalar(names, "name"), 0)
        outputs = _parse_example_raw(
            serialized,
            names=names,
            sparse_keys=sparse_keys,
            sparse_types=sparse_types,
            dense_keys=dense_keys,
            dense_types=dense_types,
            dense_defaults=dense_defaults,
            dense_shapes=dense_shapes,
            name=name,
        )
        for key in dense_keys or []:
            outputs[key] = array_ops.squeeze(outputs[key], [0], name="Squeeze_%s" % clean_name(key))
        for key in sparse_keys or []:
            part = clean_name(key)
            outputs[key] = sparse_tensor.SparseTensor(
                array_ops.slice(outputs[key].indices, [0, 1], [-1, -1], name="Slice_Indices_%s" % part),
                outputs[key].values,
                array_ops.slice(outputs[key].dense_shape, [1], [-1], name="Squeeze_Shape_%s" % part),
            )
        return outputs


def parse_single_example_v2(serialized: Any, features: Any, name: Optional[str] = None) -> Any:
    """Parses one Example by an op of its own; see `parse_single_example`."""
    if not features:
        raise ValueError("Missing features.")
    features = _prepend_none_dimension(features)
    params = _features_to_raw_params(features, _FEATURES)
    outputs = _parse_single_example_v2_raw(serialized, *params, name=name)
    return _construct_sparse_tensors_for_sparse_features(features, outputs)


def _parse_single_example_v2_raw(
    serialized: Any,
    sparse_keys: Any,
    sparse_types: Any,
    dense_keys: Any,
    dense_types: Any,
    dense_defaults: Any,
    dense_shapes: Any,
    name: Optional[str],
) -> Any:
    """Parses one Example by lists of keys, types and shapes; returns tensors by key."""
    with ops.name_scope(name, "ParseSingleExample", [serialized]):
        serialized = ops.convert_to_tensor(serialized, name="serialized")
        _, defaults, sparse_keys, sparse_types, dense_keys, protos, _ = _process_raw_parameters(
            None, dense_defaults, sparse_keys, sparse_types, dense_keys, dense_types, dense_shapes
        )
        indices, values, shapes, dense = gen_parsing_ops.parse_single_example(
            serialized=serialized,
            dense_defaults=defaults,
            num_sparse=len(sparse_keys),
            sparse_keys=sparse_keys,
            sparse_types=sparse_types,
            dense_keys=dense_keys,
            dense_shapes=protos,
            name=name,
        )
        sparse = sparse_of(sparse_keys, indices, values, shapes)
        return dict(zip(list(sparse_keys) + list(dense_keys), sparse + list(dense)))


def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns the bytes of strings as numbers along a new last axis, cut or padded to `fixed_length`."""
    if fixed_length is not None:
        return gen_parsing_ops.decode_padded_raw(
            input_bytes, fixed_length=fixed_length, out_type=out_type, little_endian=little_endian, name=name
        )
    return gen_parsing_ops.decode_raw(input_bytes, out_type, little_endian=little_endian, name=name)


def decode_raw_v1(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: Optional[str] = None,
    bytes: Any = None,
) -> Any:
    """As `decode_raw`; `bytes` is the old name of `input_bytes`. ValueError without a type."""
    input_bytes = deprecation.deprecated_argument_lookup("input_bytes", input_bytes, "bytes", bytes)
    # The type is required, although it follows an argument with a default.
    if out_type is None:
        raise ValueError("decode_raw_v1() missing 1 positional argument: 'out_type'")
    return gen_parsing_ops.decode_raw(input_bytes, out_type, little_endian=little_endian, name=name)


def decode_csv(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: Optional[str] = None,
    na_value: str = "",
    select_cols: Any = None,
) -> Any:
    """Returns a list of tensors, one for each column of CSV records.

    Args:
      records: strings of any shape, each a record.
      record_defaults: for each column a scalar, or an empty vector for a required column; their types are
        those of the columns: float32, float64, int32, int64 or string.
      field_delim: the delimiter of fields.
      use_quote_delim: whether fields may be in quotes.
      name: name of the op.
      na_value: the text that represents a missing value.
      select_cols: the columns to return, in ascending order.

    Raises:
      ValueError: `select_cols` is not in ascending order, negative or of another length than the defaults.
    """
    return decode_csv_v2(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols, name)


def decode_csv_v2(
    records: Any,
    record_defaults: Any,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `decode_csv`, with the arguments of version 2."""
    if select_cols is not None:
        if isinstance(select_cols, (str, bytes, dict)) or not hasattr(select_cols, "__len__"):
            raise TypeError("select_cols must be a list, got: %r" % (select_cols,))
        if any(select_cols[i] >= select_cols[i + 1] for i in range(len(select_cols) - 1)):
            raise ValueError("select_cols is not strictly increasing.")
        if select_cols and select_cols[0] < 0:
            raise ValueError("select_cols contains negative values.")
        if not isinstance(record_defaults, (list, tuple)):
            raise TypeError("record_defaults must be a list, got: %r" % (record_defaults,))
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    return gen_parsing_ops.decode_csv(
        records=records,
        record_defaults=record_defaults,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        name=name,
        select_cols=select_cols,
    )
