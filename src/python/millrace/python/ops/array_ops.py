# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops that make, reshape, join and index tensors: the home of tf.reshape, tf.concat, tf.gather, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.python.framework import ops
from millrace.python.framework.constant_op import constant  # noqa: F401
from millrace.python.ops import gen_array_ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        ...  # the functions of the generated module

else:
    from millrace.python.ops.gen_array_ops import *  # noqa: F401,F403
from millrace.python.ops._array_basic import *  # noqa: E402,F401,F403
from millrace.python.ops._array_basic import _all_dimensions  # noqa: F401
from millrace.python.ops._array_basic import _constant_if_small  # noqa: F401
from millrace.python.ops._array_basic import _normalize_sparse_shape  # noqa: F401
from millrace.python.ops._array_joining import *  # noqa: F401,F403
from millrace.python.ops._array_joining import _autopacking_conversion_function  # noqa: F401
from millrace.python.ops._array_joining import _autopacking_helper  # noqa: F401
from millrace.python.ops._array_joining import _get_dtype_from_nested_lists  # noqa: F401
from millrace.python.ops._array_matrix import *  # noqa: F401,F403
from millrace.python.ops._array_indexing import *  # noqa: F401,F403
from millrace.python.ops._array_indexing import _BaseSlice  # noqa: F401
from millrace.python.ops._array_indexing import _SLICE_TYPE_ERROR  # noqa: F401
from millrace.python.ops._array_indexing import _batch_gather  # noqa: F401
from millrace.python.ops._array_indexing import _check_index  # noqa: F401
from millrace.python.ops._array_indexing import _slice_helper  # noqa: F401
from millrace.python.ops._array_indexing import _slice_helper_var  # noqa: F401

newaxis = None
reverse = gen_array_ops.reverse_v2
matrix_diag_v1 = gen_array_ops.matrix_diag
batch_matrix_transpose = matrix_transpose  # type: ignore[name-defined]  # noqa: F405

ops.Tensor._override_operator("__getitem__", _slice_helper)
