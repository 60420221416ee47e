# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Look-ups of rows in tables that may be split in partitions."""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from millrace.python.framework import dtypes, ops, sparse_tensor, tensor_shape
from millrace.python.ops import (
    array_ops,
    clip_ops,
    data_flow_ops,
    math_ops,
    resource_variable_ops,
    sparse_ops,
    variables,
)


def _clip(params: Any, ids: Any, max_norm: Any) -> Any:
    """Scales the rows whose norm is above `max_norm` down to it."""
    if max_norm is None:
        return params
    ids_rank, params_rank = (
        ops.convert_to_tensor(ids).get_shape().ndims,
        ops.convert_to_tensor(params).get_shape().ndims,
    )
    axes: Any
    if ids_rank is not None and params_rank is not None:
        axes = list(range(ids_rank, params_rank))
    else:
        axes = math_ops.range(array_ops.rank(ids), array_ops.rank(params))
    return clip_ops.clip_by_norm(params, max_norm, axes=axes)


def _is_resource(param: Any) -> bool:
    base = getattr(resource_variable_ops, "BaseResourceVariable", resource_variable_ops.ResourceVariable)
    return isinstance(param, base)


def _partition(flat_ids: Any, params: List[Any], strategy: str) -> Tuple[Any, Any]:
    """Returns (partition, row within it) of each id."""
    count = len(params)
    if strategy == "mod":
        return flat_ids % count, flat_ids // count
    if strategy != "div":
        raise ValueError("Unrecognized partition strategy: " + strategy)
    sizes = [tensor_shape.dimension_value(p.get_shape()[0]) for p in params]
    if None not in sizes:
        total = ops.convert_to_tensor(sum(sizes), dtype=flat_ids.dtype)
    else:
        dynamic = []
        for p, size in zip(params, sizes):
            if size is not None:
                dynamic.append(ops.convert_to_tensor(size))
            else:
                with ops.colocate_with(p):
                    dynamic.append(array_ops.shape(p)[0])
        total = math_ops.reduce_sum(math_ops.cast(array_ops.stack(dynamic), flat_ids.dtype))
    per_partition, extras = total // count, total % count
    assignments = math_ops.maximum(flat_ids // (per_partition + 1), (flat_ids - extras) // per_partition)
    rows = array_ops.where(
        assignments < extras, flat_ids % (per_partition + 1), (flat_ids - extras) % per_partition
    )
    return assignments, rows


def _embedding_lookup_and_transform(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    max_norm: Any = None,
    transform_fn: Optional[Callable[[Any], Any]] = None,
) -> Any:
    """Looks `ids` up in `params`, clips the rows and applies `transform_fn` to them, per partition."""
    if params is None or isinstance(params, (list, tuple)) and not params:
        raise ValueError("Need at least one param")
    if isinstance(params, variables.PartitionedVariable):
        params = list(params)
    if isinstance(params, tuple):
        params = list(params)
    if not isinstance(params, list):
        params = [params]
    with ops.name_scope(name, "embedding_lookup", params + [ids]) as name:
        if not any(_is_resource(p) for p in params):
            params = ops.convert_n_to_tensor_or_indexed_slices(params, name="params")
        ids = ops.convert_to_tensor(ids, name="ids")
        if len(params) == 1 and (transform_fn is None or ids.get_shape().ndims == 1):
            with ops.colocate_with(params[0]):
                result = _clip(array_ops.gather(params[0], ids, name=name), ids, max_norm)
                if transform_fn:
                    result = transform_fn(result)
            return array_ops.identity(result)
        return _lookup_in_partitions(params, ids, partition_strategy, name, max_norm, transform_fn)


def _lookup_in_partitions(
    params: List[Any], ids: Any, strategy: str, name: Any, max_norm: Any, transform_fn: Any
) -> Any:
    flat_ids = array_ops.reshape(ids, [-1])
    original_indices = math_ops.range(array_ops.size(flat_ids))
    assignments, new_ids = _partition(flat_ids, params, strategy)
    assignments = math_ops.cast(assignments, dtypes.int32)
    gather_ids = data_flow_ops.dynamic_partition(new_ids, assignments, len(params))
    pindices = data_flow_ops.dynamic_partition(original_indices, assignments, len(params))
    parts = []
    for param, part_ids in zip(params, gather_ids):
        with ops.colocate_with(param):
            result = array_ops.gather(param, part_ids)
            if transform_fn:
                result = transform_fn(_clip(result, part_ids, max_norm))
        parts.append(result)
    ret = data_flow_ops.parallel_dynamic_stitch(pindices, parts, name=name)
    if transform_fn is None:
        element_shape = params[0].get_shape()[1:]
        for param in params[1:]:
            element_shape = element_shape.merge_with(param.get_shape()[1:])
    else:
        element_shape = ret.get_shape()[1:]
    if element_shape.is_fully_defined():
        ret = array_ops.reshape(ret, array_ops.concat([array_ops.shape(ids), element_shape.as_list()], 0))
    elif transform_fn is None:
        with ops.colocate_with(params[0]):
            params_shape = array_ops.shape(params[0])
        ret = array_ops.reshape(
            ret, array_ops.concat([array_ops.shape(ids), array_ops.slice(params_shape, [1], [-1])], 0)
        )
    else:
        ret = array_ops.reshape(ret, array_ops.concat([array_ops.shape(ids), array_ops.shape(ret)[1:]], 0))
    ret.set_shape(ids.get_shape().concatenate(element_shape))
    return ret if transform_fn else _clip(ret, ids, max_norm)


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Any:
    """Returns the rows `ids` of a table, of shape shape(ids) + shape(row).

    `params` is one tensor or a list of partitions: row i is in partition i % n ("mod"), or partitions are
      equal blocks of rows ("div").
    Raises ValueError when there are no params, or for another strategy.
    """
    return _embedding_lookup_and_transform(
        params=params,
        ids=ids,
        partition_strategy=partition_strategy,
        name=name,
        max_norm=max_norm,
        transform_fn=None,
    )


def embedding_lookup_v2(params: Any, ids: Any, max_norm: Any = None, name: Optional[str] = None) -> Any:
    """As `embedding_lookup`, with the partition strategy "div"."""
    return embedding_lookup(params, ids, "div", name, max_norm=max_norm)


def _combine_weighted(embeddings: Any, weights: Any, segment_ids: Any, combiner: str, name: Any) -> Any:
    ones = array_ops.fill(array_ops.expand_dims(array_ops.rank(embeddings) - 1, 0), 1)
    weights_shape = weights.get_shape()
    weights = array_ops.reshape(weights, array_ops.concat([array_ops.shape(weights), ones], 0))
    ndims = embeddings.get_shape().ndims
    if ndims is not None:
        weights.set_shape(weights_shape.concatenate([1] * (ndims - 1)))
    embeddings *= weights
    if combiner == "sum":
        return math_ops.segment_sum(embeddings, segment_ids, name=name)
    embeddings = math_ops.segment_sum(embeddings, segment_ids)
    if combiner == "mean":
        return math_ops.div(embeddings, math_ops.segment_sum(weights, segment_ids), name=name)
    weight_sum = math_ops.segment_sum(math_ops.pow(weights, 2), segment_ids)
    return math_ops.div(embeddings, math_ops.sqrt(weight_sum), name=name)


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    combiner: Optional[str] = None,
    max_norm: Any = None,
) -> Any:
    """Returns for each row of `sp_ids` the "sum", "mean" or "sqrtn" of the (weighted) rows of the table.

    Raises TypeError when ids or weights are not sparse tensors, ValueError for another combiner.
    """
    if combiner is None:
        combiner = "mean"
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")
    if isinstance(params, variables.PartitionedVariable):
        params = list(params)
    if not isinstance(params, list):
        params = [params]
    if not isinstance(sp_ids, sparse_tensor.SparseTensor):
        raise TypeError("sp_ids must be SparseTensor")
    if sp_weights is not None:
        if not isinstance(sp_weights, sparse_tensor.SparseTensor):
            raise TypeError("sp_weights must be either None or SparseTensor")
        sp_ids.values.get_shape().assert_is_compatible_with(sp_weights.values.get_shape())
        sp_ids.indices.get_shape().assert_is_compatible_with(sp_weights.indices.get_shape())
        sp_ids.dense_shape.get_shape().assert_is_compatible_with(sp_weights.dense_shape.get_shape())
    with ops.name_scope(name, "embedding_lookup_sparse", params + [sp_ids]) as name:
        segment_ids = sp_ids.indices[:, 0]
        if segment_ids.dtype != dtypes.int32:
            segment_ids = math_ops.cast(segment_ids, dtypes.int32)
        ids, idx = array_ops.unique(sp_ids.values)
        embeddings = embedding_lookup(params, ids, partition_strategy=partition_strategy, max_norm=max_norm)
        if embeddings.dtype in (dtypes.float16, dtypes.bfloat16):
            embeddings = math_ops.cast(embeddings, dtypes.float32)
        if sp_weights is not None:
            weights = sp_weights.values
            if weights.dtype != embeddings.dtype:
                weights = math_ops.cast(weights, embeddings.dtype)
            return _combine_weighted(array_ops.gather(embeddings, idx), weights, segment_ids, combiner, name)
        combine = {
            "sum": math_ops.sparse_segment_sum,
            "mean": math_ops.sparse_segment_mean,
            "sqrtn": math_ops.sparse_segment_sqrt_n,
        }[combiner]
        return combine(embeddings, idx, segment_ids, name=name)


def embedding_lookup_sparse_v2(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    combiner: Any = None,
    max_norm: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `embedding_lookup_sparse`, with the partition strategy "div"."""
    return embedding_lookup_sparse(params, sp_ids, sp_weights, "div", name, combiner, max_norm)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Any = None,
    name: Optional[str] = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
) -> Any:
    """As `embedding_lookup_sparse`; drops negative ids and weights that are not positive, fills empty rows.

    The result of an empty row is the embedding of `default_id`, or zeros. Raises ValueError when there is no table.
    """
    if embedding_weights is None:
        raise ValueError("Missing embedding_weights %s." % embedding_weights)
    if isinstance(embedding_weights, variables.PartitionedVariable):
        embedding_weights = list(embedding_weights)
    if not isinstance(embedding_weights, list):
        embedding_weights = [embedding_weights]
    if len(embedding_weights) < 1:
        raise ValueError("Missing embedding_weights %s." % embedding_weights)
    for sparse in (sparse_ids, sparse_weights):
        if sparse is not None and not isinstance(sparse, sparse_tensor.SparseTensor) or sparse_ids is None:
            raise TypeError("sparse_ids and sparse_weights must be SparseTensors, got: %r" % (sparse,))
    dtype = sparse_weights.dtype if sparse_weights is not None else None
    embedding_weights = [
        w if _is_resource(w) and dtype in (None, w.dtype) else ops.convert_to_tensor(w, dtype=dtype)
        for w in embedding_weights
    ]
    with ops.name_scope(name, "embedding_lookup", embedding_weights + [sparse_ids, sparse_weights]) as scope:
        original_shape = sparse_ids.dense_shape
        rank_dim = tensor_shape.dimension_value(sparse_ids.dense_shape.get_shape()[0])
        original_rank = array_ops.size(original_shape) if rank_dim is None else rank_dim
        sparse_ids = sparse_ops.sparse_reshape(
            sparse_ids,
            [
                math_ops.reduce_prod(array_ops.slice(original_shape, [0], [original_rank - 1])),
                array_ops.gather(original_shape, original_rank - 1),
            ],
        )
        if sparse_weights is not None:
            sparse_weights = sparse_tensor.SparseTensor(
                sparse_ids.indices, sparse_weights.values, sparse_ids.dense_shape
            )
        sparse_ids, sparse_weights = _prune_invalid_ids(sparse_ids, sparse_weights)
        if combiner != "sum":
            sparse_ids, sparse_weights = _prune_invalid_weights(sparse_ids, sparse_weights)
        sparse_ids, is_row_empty = sparse_ops.sparse_fill_empty_rows(sparse_ids, default_id or 0)
        if sparse_weights is not None:
            sparse_weights, _ = sparse_ops.sparse_fill_empty_rows(sparse_weights, 1.0)
        result = embedding_lookup_sparse(
            embedding_weights,
            sparse_ids,
            sparse_weights,
            combiner=combiner,
            partition_strategy=partition_strategy,
            name=None if default_id is None else scope,
            max_norm=max_norm,
        )
        if default_id is None:
            is_row_empty = array_ops.tile(
                array_ops.reshape(is_row_empty, [-1, 1]), array_ops.stack([1, array_ops.shape(result)[1]])
            )
            result = array_ops.where(is_row_empty, array_ops.zeros_like(result), result, name=scope)
        final_result = array_ops.reshape(
            result,
            array_ops.concat(
                [
                    array_ops.slice(math_ops.cast(original_shape, dtypes.int32), [0], [original_rank - 1]),
                    array_ops.slice(array_ops.shape(result), [1], [-1]),
                ],
                0,
            ),
        )
        if rank_dim is not None:
            outer = tensor_shape.unknown_shape(rank_dim - 1)
            final_result.set_shape(outer.concatenate(result.get_shape()[1:]))
        return final_result


def safe_embedding_lookup_sparse_v2(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Any = None,
    max_norm: Any = None,
    name: Optional[str] = None,
) -> Any:
    """As `safe_embedding_lookup_sparse`, with the arguments of version 2."""
    return safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner, default_id, name, "div", max_norm
    )


def _prune_invalid_ids(sparse_ids: Any, sparse_weights: Any) -> Tuple[Any, Any]:
    """Leaves out negative ids, and those whose weight is not positive."""
    is_id_valid = math_ops.greater_equal(sparse_ids.values, 0)
    if sparse_weights is not None:
        is_id_valid = math_ops.logical_and(
            is_id_valid, array_ops.ones_like(sparse_weights.values, dtype=dtypes.bool)
        )
    sparse_ids = sparse_ops.sparse_retain(sparse_ids, is_id_valid)
    if sparse_weights is not None:
        sparse_weights = sparse_ops.sparse_retain(sparse_weights, is_id_valid)
    return sparse_ids, sparse_weights


def _prune_invalid_weights(sparse_ids: Any, sparse_weights: Any) -> Tuple[Any, Any]:
    """Leaves out ids whose weight is not positive."""
    if sparse_weights is not None:
        is_weights_valid = math_ops.greater(sparse_weights.values, 0)
        sparse_ids = sparse_ops.sparse_retain(sparse_ids, is_weights_valid)
        sparse_weights = sparse_ops.sparse_retain(sparse_weights, is_weights_valid)
    return sparse_ids, sparse_weights
