# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Discrete cosine transforms."""
from __future__ import annotations

import math
from typing import Any, Optional

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, math_ops
from millrace.python.ops.signal import fft_ops


def _validate_dct_arguments(input_tensor: Any, dct_type: Any, n: Any, axis: Any, norm: Any) -> None:
    """Raises ValueError or NotImplementedError for invalid arguments of `dct` and `idct`."""
    if input_tensor.shape.ndims == 0:
        raise ValueError("The input must have at least one axis.")
    if axis != -1:
        raise NotImplementedError("axis must be -1. Got: %s" % axis)
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if dct_type not in (1, 2, 3):
        raise ValueError("Only Types I, II and III (I)DCT are supported.")
    if dct_type == 1:
        if norm == "ortho":
            raise ValueError("Normalization is not supported for the Type-I DCT.")
        size = tensor_shape.dimension_value(input_tensor.shape[-1])
        if size is not None and size < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
    if norm not in (None, "ortho"):
        raise ValueError("Unknown normalization. Expected None or 'ortho', got: %s" % norm)


def dct(
    input: Any,
    type: int = 2,
    n: Optional[int] = None,
    axis: int = -1,
    norm: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns the cosine transform of type 1, 2 or 3 of float32 [..., m] along the last axis.

    Args:
      input: the numbers.
      type: which of the transforms.
      n: the size of the transform; the axis is cut or padded with zeros to it.
      axis: -1.
      norm: None or "ortho", which makes the matrix of the transform orthogonal.
      name: name scope.

    Raises:
      ValueError: another `type` or `norm`, or an `n` that is not positive.
      NotImplementedError: another axis.
    """
    _validate_dct_arguments(ops.convert_to_tensor(input, dtypes.float32), type, n, axis, norm)
    with ops.name_scope(name, "dct", [input]):
        input = ops.convert_to_tensor(input, dtype=dtypes.float32)
        seq_len = tensor_shape.dimension_value(input.shape[-1])
        if seq_len is None:
            seq_len = array_ops.shape(input)[-1]
        if n is not None:
            if isinstance(seq_len, int) and n <= seq_len:
                input = input[..., 0:n]
            else:
                rank = len(input.shape)
                pad = math_ops.maximum(0, n - seq_len) if not isinstance(seq_len, int) else n - seq_len
                input = array_ops.pad(input, [[0, 0]] * (rank - 1) + [[0, pad]], "CONSTANT")[..., 0:n]
        axis_dim = tensor_shape.dimension_value(input.shape[-1]) or array_ops.shape(input)[-1]
        axis_dim_float = math_ops.cast(axis_dim, dtypes.float32)

        def turn(sign: float) -> Any:
            angles = math_ops.range(axis_dim_float) * math.pi * 0.5 / axis_dim_float
            return 2.0 * math_ops.exp(math_ops.complex(0.0, sign * angles))

        def weights(first: Any, others: Any) -> Any:
            return array_ops.pad(array_ops.expand_dims(first, 0), [[0, axis_dim - 1]], constant_values=others)

        if type == 1:
            doubled = array_ops.concat([input, input[..., -2:0:-1]], axis=-1)
            return math_ops.real(fft_ops.rfft(doubled))
        if type == 2:
            dct2 = math_ops.real(fft_ops.rfft(input, fft_length=[2 * axis_dim])[..., :axis_dim] * turn(-1.0))
            if norm == "ortho":
                n1 = 0.5 * math_ops.rsqrt(axis_dim_float)
                dct2 *= weights(n1, n1 * math_ops.sqrt(2.0))
            return dct2
        if norm == "ortho":
            n1 = math_ops.sqrt(axis_dim_float)
            input *= weights(n1, n1 * math_ops.sqrt(0.5))
        else:
            input *= axis_dim_float
        return math_ops.real(
            fft_ops.irfft(turn(1.0) * math_ops.complex(input, 0.0), fft_length=[2 * axis_dim])
        )[..., :axis_dim]


def idct(
    input: Any,
    type: int = 2,
    n: Optional[int] = None,
    axis: int = -1,
    norm: Any = None,
    name: Optional[str] = None,
) -> Any:
    """Returns the inverse of `dct` of that type, up to a factor of 2 m without "ortho"."""
    _validate_dct_arguments(ops.convert_to_tensor(input, dtypes.float32), type, n, axis, norm)
    return dct(input, type={1: 1, 2: 3, 3: 2}[type], n=n, axis=axis, norm=norm, name=name)
