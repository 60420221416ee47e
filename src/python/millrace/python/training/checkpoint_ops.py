# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Initial values from matrices in checkpoints whose rows and columns represent words of vocabularies."""

from __future__ import annotations

import math
from typing import Any

from millrace.python.framework import constant_op
from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import gen_checkpoint_ops
from millrace.python.ops import init_ops
from millrace.python.ops import math_ops
from millrace.python.ops import variable_scope


def _check_pair(what: str, new_file: Any, old_file: Any) -> bool:
    """Whether both files are given. Raises ValueError where one is."""
    if bool(new_file) != bool(old_file):
        raise ValueError(
            "old_%s_vocab_file and new_%s_vocab_file must be specified or unspecified together."
            " Received old_%s_vocab_file=%s and new_%s_vocab_file=%s."
            % (what, what, what, old_file, what, new_file)
        )
    return bool(new_file)


def _load_and_remap_matrix(
    ckpt_path: Any,
    old_tensor_name: str,
    new_row_vocab_offset: int,
    num_rows_to_load: int,
    new_col_vocab_size: int,
    initializer: Any,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    max_rows_in_memory: int = -1,
) -> Any:
    """A matrix of a checkpoint with rows and columns in the order of new vocabularies.

    Args:
      ckpt_path: prefix of the checkpoint.
      old_tensor_name: of the matrix, float32.
      new_row_vocab_offset, num_rows_to_load: which part of the new vocabulary of rows.
      new_col_vocab_size: columns that come from the vocabulary.
      initializer: returns missing values: called with a shape and a type.
      old_row_vocab_size: how many words of the old vocabulary of rows count, -1 for all.
      *_vocab_file: files with a word in each line; without them the order of rows (columns) is kept.
      num_row_oov_buckets, num_col_oov_buckets: rows and columns to append, which the initializer makes.
      max_rows_in_memory: accepted, but ignored: the whole matrix is read.

    Returns:
      A float32 tensor [num_rows_to_load + num_row_oov_buckets, new_col_vocab_size + num_col_oov_buckets].

    Raises:
      ValueError: if a number is negative, or one of two files is missing.
    """
    if num_row_oov_buckets < 0:
        raise ValueError("num_row_oov_buckets must be >= 0, but received %d" % num_row_oov_buckets)
    if num_col_oov_buckets < 0:
        raise ValueError("num_col_oov_buckets must be >= 0, but received %d" % num_col_oov_buckets)
    num_rows_present: Any = num_rows_to_load
    if _check_pair("row", new_row_vocab_file, old_row_vocab_file):
        row_remapping, num_rows_present = gen_checkpoint_ops.generate_vocab_remapping(
            new_vocab_file=new_row_vocab_file,
            old_vocab_file=old_row_vocab_file,
            new_vocab_offset=new_row_vocab_offset,
            num_new_vocab=num_rows_to_load,
            old_vocab_size=old_row_vocab_size,
        )
    else:
        # A part of a partitioned variable starts at its row offset.
        row_remapping = math_ops.range(
            new_row_vocab_offset, new_row_vocab_offset + num_rows_to_load, dtype=dtypes.int64
        )
    num_cols_present: Any = new_col_vocab_size
    if _check_pair("col", new_col_vocab_file, old_col_vocab_file):
        col_remapping, num_cols_present = gen_checkpoint_ops.generate_vocab_remapping(
            new_vocab_file=new_col_vocab_file,
            old_vocab_file=old_col_vocab_file,
            new_vocab_offset=0,  # Variables that are partitioned along columns are refused.
            num_new_vocab=new_col_vocab_size,
        )
    else:
        col_remapping = constant_op.constant([], dtype=dtypes.int64)
    missing = num_rows_to_load * new_col_vocab_size - num_rows_present * num_cols_present
    # Made for the whole matrix, since initializers need static shapes; only the first values are used.
    init_vals = initializer([max(1, num_rows_to_load * new_col_vocab_size), 1], dtypes.float32)
    matrix = gen_checkpoint_ops.load_and_remap_matrix(
        ckpt_path=ckpt_path,
        old_tensor_name=old_tensor_name,
        row_remapping=row_remapping,
        col_remapping=col_remapping,
        initializing_values=array_ops.reshape(init_vals, [-1])[:missing],
        num_rows=num_rows_to_load,
        num_cols=new_col_vocab_size,
        max_rows_in_memory=max_rows_in_memory,
    )
    matrix.set_shape([num_rows_to_load, new_col_vocab_size])
    if num_row_oov_buckets > 0:
        extra = initializer([num_row_oov_buckets, new_col_vocab_size], dtypes.float32)
        matrix = array_ops.concat([matrix, extra], 0)
    if num_col_oov_buckets > 0:
        extra = initializer([num_rows_to_load + num_row_oov_buckets, num_col_oov_buckets], dtypes.float32)
        matrix = array_ops.concat([matrix, extra], 1)
    return matrix


def _load_and_remap_matrix_initializer(
    ckpt_path: Any,
    old_tensor_name: str,
    new_row_vocab_size: int,
    new_col_vocab_size: int,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    initializer: Any = None,
    max_rows_in_memory: int = -1,
) -> Any:
    """An initializer of `_load_and_remap_matrix` for a float32 matrix, which may be in parts along its rows.

    Args: as of `_load_and_remap_matrix`; new_row_vocab_size: of the whole variable; initializer: zeros if None.

    Raises:
      TypeError: if `initializer` cannot be called; the initializer itself for other types than float32.
      ValueError: from the initializer, if the variable is no matrix or is in parts along its columns.
    """
    if initializer is None:
        initializer = init_ops.zeros_initializer()
    if not callable(initializer):
        raise TypeError(
            "initializer must be callable, instead of being {} of type {}.".format(
                initializer, type(initializer)
            )
        )

    def _initializer(shape: Any, dtype: Any = dtypes.float32, partition_info: Any = None) -> Any:
        if partition_info is None:
            partition_info = variable_scope._PartitionInfo(full_shape=shape, var_offset=[0] * len(shape))
        if len(shape) != 2 or len(partition_info.full_shape) != 2:
            raise ValueError(
                "Currently, only 2-dim MatrixVariables are supported. This initializer is called with a"
                " shape of {} and full shape {}".format(shape, partition_info.full_shape)
            )
        if dtype != dtypes.float32:
            raise TypeError("Currently, only float32 is supported. Received dtype: {}".format(dtype))
        if partition_info.var_offset[1] > 0 or partition_info.full_shape[1] != shape[1]:
            raise ValueError("Partitioning of columns is not supported: {}".format(partition_info.var_offset))
        offset = partition_info.var_offset[0]
        # The rows of out-of-vocabulary buckets are the last ones: this part may have some of them.
        row_oov_buckets_to_use = max(0, offset + shape[0] - max(new_row_vocab_size, offset))
        return _load_and_remap_matrix(
            ckpt_path=ckpt_path,
            old_tensor_name=old_tensor_name,
            new_row_vocab_offset=offset,
            num_rows_to_load=shape[0] - row_oov_buckets_to_use,
            new_col_vocab_size=new_col_vocab_size,
            initializer=initializer,
            old_row_vocab_size=old_row_vocab_size,
            old_row_vocab_file=old_row_vocab_file,
            new_row_vocab_file=new_row_vocab_file,
            old_col_vocab_file=old_col_vocab_file,
            new_col_vocab_file=new_col_vocab_file,
            num_row_oov_buckets=row_oov_buckets_to_use,
            num_col_oov_buckets=num_col_oov_buckets,
            max_rows_in_memory=max_rows_in_memory,
        )

    return _initializer


def _load_embedding_initializer(
    ckpt_path: Any,
    embedding_tensor_name: str,
    new_vocab_size: int,
    embedding_dim: int,
    old_vocab_file: Any,
    new_vocab_file: Any,
    old_vocab_size: int = -1,
    num_oov_buckets: int = 0,
    initializer: Any = None,
    max_rows_in_memory: int = -1,
) -> Any:
    """As `_load_and_remap_matrix_initializer`, for vectors of words; new words get truncated normal ones."""
    if initializer is None:
        initializer = init_ops.truncated_normal_initializer(stddev=1.0 / math.sqrt(embedding_dim))
    return _load_and_remap_matrix_initializer(
        ckpt_path=ckpt_path,
        old_tensor_name=embedding_tensor_name,
        new_row_vocab_size=new_vocab_size,
        new_col_vocab_size=embedding_dim,
        old_row_vocab_size=old_vocab_size,
        old_row_vocab_file=old_vocab_file,
        new_row_vocab_file=new_vocab_file,
        num_row_oov_buckets=num_oov_buckets,
        initializer=initializer,
        max_rows_in_memory=max_rows_in_memory,
    )
