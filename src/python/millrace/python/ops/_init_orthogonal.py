# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels of convolutions that preserve the norm of their inputs (Xiao et al., arXiv:1806.05393)."""
from __future__ import annotations

import functools
import itertools
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.ops import array_ops, gen_linalg_ops, init_ops, linalg_ops_impl, math_ops, random_ops

_NUMBERS = {1: "three", 2: "four", 3: "five"}


class ConvolutionOrthogonal(init_ops.Initializer):
    """A kernel [size, ..., in, out] of a convolution over `_axes` axes that is orthogonal, times `gain`.

    Args:
      gain: a factor.
      seed: a seed.
      dtype: a type of floats.
    """

    _axes = 0

    def __init__(self, gain: float = 1.0, seed: Any = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = init_ops._assert_float_dtype(dtypes.as_dtype(dtype))
        self.seed = seed

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        dtype = self.dtype if dtype is None else dtype
        if len(shape) != self._axes + 2:
            raise ValueError("The tensor to initialize must be %s-dimensional" % _NUMBERS[self._axes])
        if shape[-2] > shape[-1]:
            raise ValueError("In_filters cannot be greater than out_filters.")
        if any(size != shape[0] for size in shape[: self._axes]):
            raise ValueError("Kernel sizes must be equal.")
        kernel = self._orthogonal_kernel(shape[0], shape[-2], shape[-1])
        return kernel * math_ops.cast(self.gain, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}

    def _next_seed(self) -> Any:
        seed = self.seed
        if self.seed:
            self.seed += 1
        return seed

    def _orthogonal_matrix(self, n: int) -> Any:
        """A random orthogonal matrix [n, n]."""
        a = random_ops.random_normal([n, n], dtype=self.dtype, seed=self._next_seed())
        q, r = gen_linalg_ops.qr(a)
        # The signs make the distribution uniform.
        return q * math_ops.sign(array_ops.diag_part(r))

    def _symmetric_projection(self, n: int) -> Any:
        """A random symmetric projection [n, n]."""
        q = self._orthogonal_matrix(n)
        mask = math_ops.cast(random_ops.random_normal([n], seed=self._next_seed()) > 0, self.dtype)
        c = math_ops.multiply(q, mask)
        return math_ops.matmul(c, array_ops.matrix_transpose(c))

    def _block_orth(self, *projections: Any) -> dict[tuple[int, ...], Any]:
        """The kernel of size 2 whose elements are products of projections P and complements I - P."""
        eye = linalg_ops_impl.eye(projections[0].shape.as_list()[0], dtype=self.dtype)
        return {
            place: functools.reduce(
                math_ops.matmul, [p if bit == 0 else eye - p for bit, p in zip(place, projections)]
            )
            for place in itertools.product((0, 1), repeat=len(projections))
        }

    def _matrix_conv(self, m1: dict[Any, Any], m2: dict[Any, Any]) -> dict[tuple[int, ...], Any]:
        """The convolution of two kernels of matrices."""
        result: dict[tuple[int, ...], Any] = {}
        for (a, x), (b, y) in itertools.product(m1.items(), m2.items()):
            place = tuple(i + j for i, j in zip(a, b))
            product = math_ops.matmul(x, y)
            result[place] = result[place] + product if place in result else product
        return result

    def _orthogonal_kernel(self, ksize: int, cin: int, cout: int) -> Any:
        if cin > cout:
            raise ValueError("The number of input channels cannot exceed the number of output channels.")
        orth = self._orthogonal_matrix(cout)[0:cin, :]
        if ksize == 1:
            for _ in range(self._axes):
                orth = array_ops.expand_dims(orth, 0)
            return orth

        def block() -> dict[tuple[int, ...], Any]:
            return self._block_orth(*[self._symmetric_projection(cout) for _ in range(self._axes)])

        parts = block()
        for _ in range(ksize - 2):
            parts = self._matrix_conv(parts, block())
        parts = {place: math_ops.matmul(orth, part) for place, part in parts.items()}
        return self._dict_to_tensor(parts, ksize)

    def _dict_to_tensor(
        self, parts: dict[tuple[int, ...], Any], size: int, head: tuple[int, ...] = ()
    ) -> Any:
        if len(head) == self._axes:
            return parts[head]
        return array_ops.stack([self._dict_to_tensor(parts, size, (*head, i)) for i in range(size)])


class ConvolutionOrthogonal1D(ConvolutionOrthogonal):
    """An orthogonal kernel [size, in, out]."""

    _axes = 1


class ConvolutionOrthogonal2D(ConvolutionOrthogonal):
    """An orthogonal kernel [size, size, in, out]."""

    _axes = 2


class ConvolutionOrthogonal3D(ConvolutionOrthogonal):
    """An orthogonal kernel [size, size, size, in, out]."""

    _axes = 3
