# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Identity matrices, apart from linalg_ops so that initializers can use them."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.framework import tensor_shape
from millrace.python.ops import array_ops
from millrace.python.ops import math_ops


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Any:
    """Returns (a batch of) matrices with ones on the main diagonal and zeros elsewhere.

    Args:
      num_rows: the number of rows, an int32 scalar.
      num_columns: the number of columns, by default that of rows.
      batch_shape: leading dimensions.
      dtype: type of the elements.
      name: name scope.
    """
    with ops.name_scope(name, default_name="eye", values=[num_rows, num_columns, batch_shape]):
        is_square = num_columns is None
        batch_shape = [] if batch_shape is None else batch_shape
        num_columns = num_rows if num_columns is None else num_columns
        # Static numbers make a static shape.
        if isinstance(num_rows, tensor_shape.Dimension):
            num_rows = num_rows.value
        if isinstance(num_columns, tensor_shape.Dimension):
            num_columns = num_columns.value
        is_static = all(isinstance(n, (int, np.integer)) for n in (num_rows, num_columns))
        is_static = (
            is_static
            and isinstance(batch_shape, (list, tuple))
            and all(isinstance(n, (int, np.integer)) for n in batch_shape)
        )
        if is_static:
            diag_size: Any = int(np.minimum(num_rows, num_columns))
            batch = [int(n) for n in batch_shape]
            diag_shape: Any = batch + [diag_size]
            shape: Any = batch + [int(num_rows), int(num_columns)]
        else:
            diag_size = math_ops.minimum(num_rows, num_columns)
            batch_t = ops.convert_to_tensor(batch_shape, name="shape", dtype=dtypes.int32)
            diag_shape = array_ops.concat((batch_t, [diag_size]), axis=0)
            shape = array_ops.concat((batch_t, [num_rows, num_columns]), axis=0)
        diag_ones = array_ops.ones(diag_shape, dtype=dtype)
        if is_square:
            return array_ops.matrix_diag(diag_ones)
        zero_matrix = array_ops.zeros(shape, dtype=dtype)
        return array_ops.matrix_set_diag(zero_matrix, diag_ones)
