# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops on sparse tensors."""
from __future__ import annotations

from millrace.python.framework import sparse_tensor
from millrace.python.ops import gen_sparse_ops  # noqa: F401
from millrace.python.ops._sparse_maps import (  # noqa: F401
    _add_many_sparse_to_tensors_map,
    _add_sparse_to_tensors_map,
    _take_many_sparse_from_tensors_map,
)
from millrace.python.ops._sparse_math import (  # noqa: F401
    _DEFAULT_HASH_KEY,
    _sparse_cross_internal,
    deserialize_many_sparse,
    deserialize_sparse,
    map_values,
    serialize_many_sparse,
    serialize_many_sparse_v2,
    serialize_sparse,
    serialize_sparse_v2,
    sparse_add,
    sparse_add_v2,
    sparse_cross,
    sparse_cross_hashed,
    sparse_dense_cwise_add,
    sparse_dense_matmul,
    sparse_mask,
    sparse_maximum,
    sparse_minimum,
    sparse_reduce_max,
    sparse_reduce_max_v2,
    sparse_reduce_max_sparse,
    sparse_reduce_sum,
    sparse_reduce_sum_v2,
    sparse_reduce_sum_sparse,
    sparse_softmax,
    sparse_tensor_dense_matmul,
    sparse_tensor_to_dense,
    sparse_to_dense,
    sparse_to_indicator,
)
from millrace.python.ops.gen_sparse_ops import (  # noqa: F401
    add_many_sparse_to_tensors_map,
    add_sparse_to_tensors_map,
    sparse_add_grad,
    sparse_dense_cwise_div,
    sparse_dense_cwise_mul,
    sparse_fill_empty_rows_grad,
    sparse_slice_grad,
    sparse_sparse_maximum,
    sparse_sparse_minimum,
    sparse_tensor_dense_add,
    sparse_tensor_dense_mat_mul,
    take_many_sparse_from_tensors_map,
)
from millrace.python.ops._sparse_shapes import (  # noqa: F401
    KeywordRequired,
    _convert_to_sparse_tensor,
    _convert_to_sparse_tensors,
    from_dense,
    sparse_concat,
    sparse_concat_v2,
    sparse_expand_dims,
    sparse_eye,
    sparse_fill_empty_rows,
    sparse_merge,
    sparse_merge_impl,
    sparse_reorder,
    sparse_reset_shape,
    sparse_reshape,
    sparse_retain,
    sparse_slice,
    sparse_split,
    sparse_split_v2,
    sparse_transpose,
)


def convert_to_sparse_tensor(sp_input: object) -> object:
    """Returns a SparseTensor for one or for a SparseTensorValue."""
    return _convert_to_sparse_tensor(sp_input)


SparseTensor = sparse_tensor.SparseTensor
