# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Base class of objects that behave like a tensor."""
from millrace.python.framework._tensor import _TensorLike, is_dense_tensor_like  # noqa: F401
