# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Circulant operators: convolutions over a torus of one to three axes."""
from __future__ import annotations

from typing import Any


import numpy as np

from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import array_ops, check_ops, math_ops
from millrace.python.ops.linalg import linalg_impl as linalg
from millrace.python.ops.linalg import linear_operator, linear_operator_util
from millrace.python.ops.signal import fft_ops

__all__ = ["LinearOperatorCirculant", "LinearOperatorCirculant2D", "LinearOperatorCirculant3D"]

_FFT_OP = {1: fft_ops.fft, 2: fft_ops.fft2d, 3: fft_ops.fft3d}
_IFFT_OP = {1: fft_ops.ifft, 2: fft_ops.ifft2d, 3: fft_ops.ifft3d}


def _to_complex(x: Any) -> Any:
    dtype = dtypes.complex128 if x.dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64
    return math_ops.cast(x, dtype)


class _BaseLinearOperatorCirculant(linear_operator.LinearOperator):
    """F^H diag(spectrum) F over `block_depth` axes; see the subclasses."""

    def __init__(
        self,
        spectrum: Any,
        block_depth: int,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: Any = None,
        is_self_adjoint: Any = None,
        is_positive_definite: Any = None,
        is_square: Any = True,
        name: str = "LinearOperatorCirculant",
    ) -> None:
        allowed = [
            dtypes.float16,
            dtypes.float32,
            dtypes.float64,
            dtypes.complex64,
            dtypes.complex128,
        ]
        self._block_depth = block_depth
        with ops.name_scope(name, values=[spectrum]):
            self._spectrum = ops.convert_to_tensor(spectrum, name="spectrum")
            if self._spectrum.dtype not in allowed:
                raise TypeError(
                    "Argument spectrum must have dtype in %s.  Found: %s" % (allowed, self._spectrum.dtype)
                )
            if (
                self._spectrum.get_shape().ndims is not None
                and self._spectrum.get_shape().ndims < block_depth
            ):
                raise ValueError(
                    "Argument spectrum must have at least %d dimensions.  Found: %s"
                    % (block_depth, self._spectrum)
                )
            if not self.spectrum.dtype.is_complex:
                if is_self_adjoint is False:
                    raise ValueError(
                        "A real spectrum always corresponds to a self-adjoint operator.  Expected argument "
                        "is_self_adjoint to be True when spectrum.dtype.is_complex = False, found is_self_adjoint = %s"
                        % is_self_adjoint
                    )
                is_self_adjoint = True
            if is_square is False:
                raise ValueError("A [[nested] block] circulant operator is always square.")
            super().__init__(
                dtype=dtypes.as_dtype(input_output_dtype),
                graph_parents=[self.spectrum],
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=True,
                name=name,
            )

    @property
    def block_depth(self) -> int:
        """The number of axes."""
        return self._block_depth

    @property
    def block_shape(self) -> Any:
        """The sizes of the axes."""
        return self.spectrum.get_shape()[-self.block_depth :]

    def block_shape_tensor(self) -> Any:
        """Returns the sizes of the axes, an int32 vector."""
        if self.block_shape.is_fully_defined():
            return linear_operator_util.shape_tensor(self.block_shape.as_list(), name="block_shape")
        return array_ops.shape(self.spectrum)[-self.block_depth :]

    @property
    def spectrum(self) -> Any:
        """The eigenvalues [..., block]."""
        return self._spectrum

    def _shape(self) -> Any:
        s_shape = self._spectrum.get_shape()
        if s_shape.ndims is None:
            return tensor_shape.TensorShape(None)
        n = s_shape[-self.block_depth :].num_elements()
        return s_shape[: -self.block_depth].concatenate(tensor_shape.TensorShape([n, n]))

    def _shape_tensor(self) -> Any:
        s_shape = array_ops.shape(self.spectrum)
        n = math_ops.reduce_prod(s_shape[-self.block_depth :])
        return array_ops.concat((s_shape[: -self.block_depth], [n, n]), 0)

    def _blockify(self, x: Any) -> Any:
        """[..., N, r] -> [..., r, block]."""
        x = array_ops.matrix_transpose(x)
        return array_ops.reshape(x, array_ops.concat([array_ops.shape(x)[:-1], self.block_shape_tensor()], 0))

    def _unblockify(self, x: Any) -> Any:
        """[..., r, block] -> [..., N, r]."""
        shape = array_ops.shape(x)
        n = math_ops.reduce_prod(shape[-self.block_depth :])
        return array_ops.matrix_transpose(
            array_ops.reshape(x, array_ops.concat([shape[: -self.block_depth], [n]], 0))
        )

    def _filter(self, x: Any, spectrum: Any) -> Any:
        """Multiplies the transform of `x` by a spectrum."""
        static = x.shape
        transformed = _FFT_OP[self.block_depth](_to_complex(self._blockify(x)))
        spectrum = array_ops.expand_dims(spectrum, -(self.block_depth + 1))
        result = self._unblockify(
            _IFFT_OP[self.block_depth](transformed * math_ops.cast(spectrum, transformed.dtype))
        )
        if static.ndims is not None and self.batch_shape.ndims is not None:
            batch = array_ops.broadcast_static_shape(static[:-2], self.batch_shape)
            result.set_shape(batch.concatenate([self.domain_dimension, static[-1]]))
        return math_ops.cast(result, self.dtype)

    @property
    def _spectrum_complex(self) -> Any:
        return _to_complex(self.spectrum)

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        x = linalg.adjoint(x) if adjoint_arg else x
        spectrum = self._spectrum_complex
        return self._filter(x, math_ops.conj(spectrum) if adjoint else spectrum)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        rhs = linalg.adjoint(rhs) if adjoint_arg else rhs
        spectrum = self._spectrum_complex
        return self._filter(rhs, 1.0 / (math_ops.conj(spectrum) if adjoint else spectrum))

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """Returns the kernel of the convolution: the inverse transform of the spectrum."""
        with self._name_scope(name):
            return math_ops.cast(_IFFT_OP[self.block_depth](self._spectrum_complex), self.dtype)

    def _flat_spectrum(self) -> Any:
        shape = array_ops.shape(self.spectrum)
        flat = array_ops.reshape(self.spectrum, array_ops.concat([shape[: -self.block_depth], [-1]], 0))
        if self.shape.ndims is not None:
            flat.set_shape(self.batch_shape.concatenate([self.domain_dimension]))
        return flat

    def _determinant(self) -> Any:
        return math_ops.cast(math_ops.reduce_prod(self._flat_spectrum(), axis=-1), self.dtype)

    def _log_abs_determinant(self) -> Any:
        lad = math_ops.reduce_sum(math_ops.log(math_ops.abs(self._flat_spectrum())), axis=-1)
        return math_ops.cast(lad, self.dtype)

    def _trace(self) -> Any:
        return math_ops.cast(math_ops.reduce_sum(self._flat_spectrum(), axis=-1), self.dtype)

    def _diag_part(self) -> Any:
        # All elements of the diagonal are the first one of the kernel.
        first = self.trace() / math_ops.cast(self.domain_dimension_tensor(), self.dtype)
        ones = array_ops.ones_like(self._flat_spectrum(), dtype=self.dtype)
        return array_ops.expand_dims(first, -1) * ones

    def _assert_non_singular(self) -> Any:
        return linear_operator_util.assert_no_entries_with_modulus_zero(
            self.spectrum, message="Singular operator:  Spectrum contained zero values."
        )

    def _assert_positive_definite(self) -> Any:
        message = "Not positive definite:  Real part of spectrum was not all positive."
        return check_ops.assert_positive(math_ops.real(self.spectrum), message=message)

    def _assert_self_adjoint(self) -> Any:
        return linear_operator_util.assert_zero_imag_part(
            self.spectrum,
            message="Not self-adjoint:  The spectrum contained non-zero imaginary part.",
        )

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Any:
        """Returns an op that fails unless the kernel is real."""
        eps = np.finfo(self.dtype.real_dtype.as_numpy_dtype).eps
        with self._name_scope(name):
            max_err = eps * math_ops.cast(self.domain_dimension_tensor(), self.dtype.real_dtype)
            imag = math_ops.cast(
                math_ops.imag(_IFFT_OP[self.block_depth](self._spectrum_complex)), self.dtype.real_dtype
            )
            return check_ops.assert_less(math_ops.abs(imag), max_err, message="Spectrum was not Hermitian")


def _make(depth: int, class_name: str, axes: str) -> Any:
    class Circulant(_BaseLinearOperatorCirculant):
        def __init__(
            self,
            spectrum: Any,
            input_output_dtype: Any = dtypes.complex64,
            is_non_singular: Any = None,
            is_self_adjoint: Any = None,
            is_positive_definite: Any = None,
            is_square: Any = True,
            name: str = class_name,
        ) -> None:
            super().__init__(
                spectrum,
                block_depth=depth,
                input_output_dtype=input_output_dtype,
                is_non_singular=is_non_singular,
                is_self_adjoint=is_self_adjoint,
                is_positive_definite=is_positive_definite,
                is_square=is_square,
                name=name,
            )

    Circulant.__name__ = Circulant.__qualname__ = class_name
    Circulant.__doc__ = """The convolution over a torus of %s whose eigenvalues are `spectrum`.

    Args:
      spectrum: [..., %s], real or complex.
      input_output_dtype: the type of what it is applied to.
      is_non_singular, is_self_adjoint, is_positive_definite, is_square: the hints of LinearOperator.
      name: of the operator.
    """ % (
        axes,
        ", ".join("n%d" % i for i in range(depth)),
    )
    return Circulant


LinearOperatorCirculant = _make(1, "LinearOperatorCirculant", "one axis")
LinearOperatorCirculant2D = _make(2, "LinearOperatorCirculant2D", "two axes")
LinearOperatorCirculant3D = _make(3, "LinearOperatorCirculant3D", "three axes")
