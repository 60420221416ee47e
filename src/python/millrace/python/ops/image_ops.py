# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The names of tf.image."""
from __future__ import annotations

from millrace.python.framework import constant_op, dtypes, ops, tensor_shape  # noqa: F401
from millrace.python.ops import array_ops, math_ops, random_ops  # noqa: F401
from millrace.python.ops.gen_image_ops import *  # noqa: F401,F403
from millrace.python.ops.image_ops_impl import *  # type: ignore[assignment]  # noqa: F401,F403
from millrace.python.ops.image_ops_impl import (  # noqa: F401
    _Check3DImage,
    _CheckAtLeast3DImage,
    _ImageDimensions,
)
