# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Math on tensors: the home of tf.add, tf.matmul, tf.reduce_sum, ... and of Python's operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.python.ops import _math_operators
from millrace.python.ops import gen_math_ops
from millrace.python.ops import gen_nn_ops

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        ...  # the functions of the generated module

else:
    from millrace.python.ops.gen_math_ops import *  # noqa: F401,F403
from millrace.python.ops._math_casts import *  # noqa: F401,F403
from millrace.python.ops._math_elementwise import *  # noqa: F401,F403
from millrace.python.ops._math_elementwise import _div_python2  # noqa: F401
from millrace.python.ops._math_elementwise import _truediv_python3  # noqa: F401
from millrace.python.ops._math_operators import _OverrideBinaryOperatorHelper  # noqa: F401
from millrace.python.ops._math_operators import _add_dispatch  # noqa: F401
from millrace.python.ops._math_operators import _mul_dispatch  # noqa: F401
from millrace.python.ops._math_operators import _sparse_dense_truediv  # noqa: F401
from millrace.python.ops._math_operators import tensor_equals  # noqa: F401
from millrace.python.ops._math_operators import tensor_not_equals  # noqa: F401
from millrace.python.ops._math_products import *  # noqa: F401,F403
from millrace.python.ops._math_products import _as_indexed_slices  # noqa: F401
from millrace.python.ops._math_products import _as_indexed_slices_list  # noqa: F401
from millrace.python.ops._math_reductions import *  # noqa: F401,F403
from millrace.python.ops._math_reductions import _ReductionDims  # noqa: F401
from millrace.python.ops._math_reductions import _may_reduce_to_scalar  # noqa: F401
from millrace.python.ops._math_segments import *  # noqa: F401,F403

linspace = gen_math_ops.lin_space
_bucketize = gen_math_ops.bucketize
arg_max = gen_math_ops.arg_max
arg_min = gen_math_ops.arg_min
reciprocal = gen_math_ops.reciprocal
softplus = gen_nn_ops.softplus
softsign = gen_nn_ops.softsign

_math_operators.install()
