# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers of SequenceExamples."""
from __future__ import annotations


from typing import Any, Optional

from millrace.python.framework import constant_op, ops, tensor_shape
from millrace.python.ops import array_ops, gen_parsing_ops
from millrace.python.ops._parsing_features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    VarLenFeature,
    _features_to_raw_params,
    clean_name,
    sparse_of,
)


def _need_features(context_features: Any, sequence_features: Any) -> None:
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")


_Params = tuple[Any, Any, Any, Any, Any, Any]


def _raw_params(context_features: Any, sequence_features: Any) -> tuple[_Params, _Params]:
    return (
        _features_to_raw_params(context_features, [VarLenFeature, FixedLenFeature]),
        _features_to_raw_params(sequence_features, [VarLenFeature, FixedLenSequenceFeature]),
    )


def parse_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_names: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Parses a vector of serialized SequenceExamples.

    Args:
      serialized: strings [batch].
      context_features: FixedLenFeature and VarLenFeature by their keys.
      sequence_features: FixedLenSequenceFeature and VarLenFeature by their keys.
      example_names: strings [batch] for messages of errors.
      name: name scope.

    Returns:
      (context tensors by key, sequence tensors by key, lengths of dense sequences by key); sequences are padded to
      the longest of the batch.

    Raises:
      ValueError: a feature is incomplete.
    """
    _need_features(context_features, sequence_features)
    context, sequence = _raw_params(context_features, sequence_features)
    lists = (*context, *sequence[:4], sequence[5], sequence[4])
    return _parse_sequence_example_raw(serialized, example_names, *lists, name=name)


def _check_lists(context: Any, sequence: Any) -> None:
    """Raises ValueError when lists of keys, types and shapes differ in length."""
    c_sparse_keys, c_sparse_types, c_dense_keys, c_dense_types, c_dense_shapes = context
    f_sparse_keys, f_sparse_types, f_dense_keys, f_dense_types, f_dense_shapes = sequence
    for shapes, keys, what in (
        (c_dense_shapes, c_dense_keys, "len(context_dense_shapes) != len(context_dense_keys)"),
        (c_dense_types, c_dense_keys, "len(context_dense_types) != len(num_context_dense)"),
        (f_dense_shapes, f_dense_keys, "len(feature_list_dense_shapes) != len(feature_list_dense_keys)"),
        (f_dense_types, f_dense_keys, "len(feature_list_dense_types) != len(num_feature_list_dense)"),
        (c_sparse_types, c_sparse_keys, "len(context_sparse_types) != len(context_sparse_keys)"),
        (f_sparse_types, f_sparse_keys, "len(feature_list_sparse_types) != len(feature_list_sparse_keys)"),
    ):
        if len(shapes) != len(keys):
            raise ValueError("%s: %d vs. %d" % (what, len(shapes), len(keys)))
    if not (c_dense_keys or c_sparse_keys or f_dense_keys or f_sparse_keys):
        raise ValueError(
            "Must provide at least one context_sparse key, context_dense key, , feature_list_sparse key, or "
            "feature_list_dense key"
        )
    for dense, sparse, what in (
        (c_dense_keys, c_sparse_keys, "Dense and sparse context keys"),
        (f_dense_keys, f_sparse_keys, "Dense and sparse feature list keys"),
    ):
        if not set(dense).isdisjoint(set(sparse)):
            raise ValueError(
                "%s must not intersect; intersection: %s" % (what, set(dense).intersection(set(sparse)))
            )


def _context_defaults(keys: Any, types: Any, shapes: Any, defaults: Any) -> list[Any]:
    result = []
    for key, dtype, shape in zip(keys, types, shapes):
        value = defaults.get(key)
        if value is None:
            value = constant_op.constant([], dtype=dtype)
        elif not isinstance(value, ops.Tensor):
            value = ops.convert_to_tensor(value, dtype=dtype, name="key_" + clean_name(key))
            # A default for a dimension of unknown size cannot be given its shape.
            if not tensor_shape.as_shape(shape).is_fully_defined():
                result.append(value)
                continue
            value = array_ops.reshape(value, shape)
        result.append(value)
    return result


def _missing_assumed_empty(defaults: Any) -> list[Any]:
    missing = []
    for key, value in defaults.items():
        if value is not None:
            raise ValueError("Value feature_list_dense_defaults[%s] must be None but value=%s" % (key, value))
        missing.append(key)
    return missing


def _protos(shapes: Any) -> list[Any]:
    return [tensor_shape.as_shape(shape).as_proto() for shape in shapes]


def _parse_sequence_example_raw(
    serialized: Any,
    debug_name: Any = None,
    context_sparse_keys: Any = None,
    context_sparse_types: Any = None,
    context_dense_keys: Any = None,
    context_dense_types: Any = None,
    context_dense_defaults: Any = None,
    context_dense_shapes: Any = None,
    feature_list_sparse_keys: Any = None,
    feature_list_sparse_types: Any = None,
    feature_list_dense_keys: Any = None,
    feature_list_dense_types: Any = None,
    feature_list_dense_shapes: Any = None,
    feature_list_dense_defaults: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Parses a vector of SequenceExamples by lists of keys, types and shapes."""
    with ops.name_scope(name, "ParseSequenceExample", [serialized]):
        c_defaults = context_dense_defaults or {}
        c_shapes = (
            context_dense_shapes if context_dense_shapes is not None else [[]] * len(context_dense_keys or [])
        )
        f_shapes = feature_list_dense_shapes
        f_shapes = f_shapes if f_shapes is not None else [[]] * len(feature_list_dense_keys or [])
        context = tuple(
            x or []
            for x in (
                context_sparse_keys,
                context_sparse_types,
                context_dense_keys,
                context_dense_types,
                c_shapes,
            )
        )
        sequence = tuple(
            x or []
            for x in (
                feature_list_sparse_keys,
                feature_list_sparse_types,
                feature_list_dense_keys,
                feature_list_dense_types,
                f_shapes,
            )
        )
        _check_lists(context, sequence)
        missing = _missing_assumed_empty(feature_list_dense_defaults or {})
        outputs = gen_parsing_ops.parse_sequence_example(
            serialized=serialized,
            debug_name=[] if debug_name is None else debug_name,
            Ncontext_sparse=len(context[0]),
            Ncontext_dense=len(context[2]),
            Nfeature_list_sparse=len(sequence[0]),
            Nfeature_list_dense=len(sequence[2]),
            context_dense_defaults=_context_defaults(context[2], context[3], context[4], c_defaults),
            context_sparse_keys=context[0],
            context_sparse_types=context[1],
            context_dense_keys=context[2],
            context_dense_shapes=_protos(context[4]),
            feature_list_sparse_keys=sequence[0],
            feature_list_sparse_types=sequence[1],
            feature_list_dense_keys=sequence[2],
            feature_list_dense_types=sequence[3],
            feature_list_dense_shapes=_protos(sequence[4]),
            feature_list_dense_missing_assumed_empty=missing,
            name=name,
        )
        lengths = outputs[8]
        return (
            dict(zip(context[0] + context[2], sparse_of(context[0], *outputs[:3]) + list(outputs[3]))),
            dict(zip(sequence[0] + sequence[2], sparse_of(sequence[0], *outputs[4:7]) + list(outputs[7]))),
            dict(zip(sequence[2], lengths)),
        )


def parse_single_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_name: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Parses one serialized SequenceExample.

    Args:
      serialized: a scalar string.
      context_features: FixedLenFeature and VarLenFeature by their keys.
      sequence_features: FixedLenSequenceFeature and VarLenFeature by their keys.
      example_name: a scalar string for messages of errors.
      name: name scope.

    Returns:
      (context tensors by key, sequence tensors by key).

    Raises:
      ValueError: a feature is incomplete.
    """
    _need_features(context_features, sequence_features)
    context, sequence = _raw_params(context_features, sequence_features)
    lists = (*context, *sequence[:4], sequence[5], sequence[4], example_name)
    return _parse_single_sequence_example_raw(serialized, *lists, name=name)


def _parse_single_sequence_example_raw(
    serialized: Any,
    context_sparse_keys: Any = None,
    context_sparse_types: Any = None,
    context_dense_keys: Any = None,
    context_dense_types: Any = None,
    context_dense_defaults: Any = None,
    context_dense_shapes: Any = None,
    feature_list_sparse_keys: Any = None,
    feature_list_sparse_types: Any = None,
    feature_list_dense_keys: Any = None,
    feature_list_dense_types: Any = None,
    feature_list_dense_shapes: Any = None,
    feature_list_dense_defaults: Any = None,
    debug_name: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Parses one SequenceExample by lists of keys, types and shapes."""
    with ops.name_scope(name, "ParseSingleSequenceExample", [serialized]):
        c_defaults = context_dense_defaults or {}
        c_shapes = (
            context_dense_shapes if context_dense_shapes is not None else [[]] * len(context_dense_keys or [])
        )
        f_shapes = feature_list_dense_shapes
        f_shapes = f_shapes if f_shapes is not None else [[]] * len(feature_list_dense_keys or [])
        context = tuple(
            x or []
            for x in (
                context_sparse_keys,
                context_sparse_types,
                context_dense_keys,
                context_dense_types,
                c_shapes,
            )
        )
        sequence = tuple(
            x or []
            for x in (
                feature_list_sparse_keys,
                feature_list_sparse_types,
                feature_list_dense_keys,
                feature_list_dense_types,
                f_shapes,
            )
        )
        _check_lists(context, sequence)
        missing = _missing_assumed_empty(feature_list_dense_defaults or {})
        outputs = gen_parsing_ops.parse_single_sequence_example(
            serialized=serialized,
            debug_name="" if debug_name is None else debug_name,
            context_dense_defaults=_context_defaults(context[2], context[3], context[4], c_defaults),
            context_sparse_keys=context[0],
            context_sparse_types=context[1],
            context_dense_keys=context[2],
            context_dense_shapes=_protos(context[4]),
            feature_list_sparse_keys=sequence[0],
            feature_list_sparse_types=sequence[1],
            feature_list_dense_keys=sequence[2],
            feature_list_dense_types=sequence[3],
            feature_list_dense_shapes=_protos(sequence[4]),
            feature_list_dense_missing_assumed_empty=missing,
            name=name,
        )
        return (
            dict(zip(context[0] + context[2], sparse_of(context[0], *outputs[:3]) + list(outputs[3]))),
            dict(zip(sequence[0] + sequence[2], sparse_of(sequence[0], *outputs[4:7]) + list(outputs[7]))),
        )
