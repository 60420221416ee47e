# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A function of the library that is called for each slice of tensors."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops
from millrace.python.ops import gen_dataset_ops


def map_defun(
    fn: Any, elems: Any, output_dtypes: Any, output_shapes: Any, max_intra_op_parallelism: int = 1
) -> Any:
    """Calls `fn` for the slices of `elems` along their first dimension, and stacks the results.

    Args:
      fn: a function of tensors made by `defun` with an input signature.
      elems: a list of tensors with the same first dimension.
      output_dtypes: the types of the results of `fn`.
      output_shapes: their shapes, without the dimension of the slices.
      max_intra_op_parallelism: the maximum number of parallel calls.

    Raises:
      ValueError: if `elems` or `output_dtypes` is no list.
    """
    if not isinstance(elems, list):
        raise ValueError("`elems` must be a list of tensors.")
    if not isinstance(output_dtypes, list):
        raise ValueError("`output_dtypes` must be a list of `tf.DType` objects.")
    if not isinstance(output_shapes, list):
        raise ValueError("`output_shapes` must be a list of `tf.TensorShape` objects.")
    concrete_fn = fn._get_concrete_function_internal()
    elems = [ops.convert_to_tensor(e) for e in elems]
    return gen_dataset_ops.map_defun(
        elems, concrete_fn.captured_inputs, output_dtypes, output_shapes, concrete_fn,
        max_intra_op_parallelism,
    )  # fmt: skip
