# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of one to three axes."""
from __future__ import annotations

from typing import Any, Callable, Optional

from millrace.python.framework import constant_op, dtypes, ops, tensor_util
from millrace.python.ops import array_ops, gen_spectral_ops, manip_ops, math_ops


def _infer_fft_length_for_rfft(input_tensor: Any, fft_rank: int) -> Any:
    """Returns the sizes, int32 [fft_rank], of the last axes."""
    fft_shape = input_tensor.get_shape()[-fft_rank:]
    if not fft_shape.is_fully_defined():
        return array_ops.shape(input_tensor)[-fft_rank:]
    return constant_op.constant(fft_shape.as_list(), dtypes.int32)


def _infer_fft_length_for_irfft(input_tensor: Any, fft_rank: int) -> Any:
    """Returns the sizes that the real result has when nothing else is said: the last one is 2 (n - 1)."""
    fft_shape = input_tensor.get_shape()[-fft_rank:]
    if not fft_shape.is_fully_defined():
        fft_length = array_ops.unstack(array_ops.shape(input_tensor)[-fft_rank:], num=fft_rank)
        fft_length[-1] = math_ops.maximum(0, 2 * (fft_length[-1] - 1))
        return array_ops.stack(fft_length)
    sizes = fft_shape.as_list()
    if sizes:
        sizes[-1] = max(0, 2 * (sizes[-1] - 1))
    return constant_op.constant(sizes, dtypes.int32)


def _maybe_pad_for_rfft(input_tensor: Any, fft_rank: int, fft_length: Any, is_reverse: bool = False) -> Any:
    """Pads the last axes with zeros to the input size of a transform of `fft_length`."""
    fft_shape = tensor_util.constant_value_as_shape(fft_length)
    ndims = input_tensor.shape.ndims
    if ndims is not None and any(dim.value == 0 for dim in input_tensor.shape.dims):
        return input_tensor
    if fft_shape.is_fully_defined() and ndims is not None:
        input_fft_shape = input_tensor.shape[-fft_shape.ndims :]
        if input_fft_shape.is_fully_defined():
            sizes: Any = fft_shape.as_list()
            if is_reverse and sizes:
                sizes[-1] = sizes[-1] // 2 + 1
            paddings = [[0, max(want - have, 0)] for want, have in zip(sizes, input_fft_shape.as_list())]
            if not any(pad > 0 for _, pad in paddings):
                return input_tensor
            return array_ops.pad(input_tensor, [[0, 0]] * max(ndims - len(sizes), 0) + paddings)
    input_rank = array_ops.rank(input_tensor)
    input_fft_shape = array_ops.shape(input_tensor)[-fft_rank:]
    outer_dims = math_ops.maximum(0, input_rank - fft_rank)
    outer_paddings = array_ops.zeros([outer_dims], fft_length.dtype)
    if is_reverse:
        fft_length = array_ops.concat([fft_length[:-1], fft_length[-1:] // 2 + 1], 0)
    fft_paddings = math_ops.maximum(0, fft_length - input_fft_shape)
    paddings = array_ops.concat([outer_paddings, fft_paddings], axis=0)
    return array_ops.pad(input_tensor, array_ops.stack([array_ops.zeros_like(paddings), paddings], axis=1))


def _rfft_wrapper(fft_fn: Callable[..., Any], fft_rank: int, default_name: str) -> Any:
    def _rfft(input_tensor: Any, fft_length: Any = None, name: Optional[str] = None) -> Any:
        with ops.name_scope(name, default_name, [input_tensor, fft_length]) as name:
            input_tensor = ops.convert_to_tensor(input_tensor, dtypes.float32)
            input_tensor.shape.with_rank_at_least(fft_rank)
            if fft_length is None:
                fft_length = _infer_fft_length_for_rfft(input_tensor, fft_rank)
            else:
                fft_length = ops.convert_to_tensor(fft_length, dtypes.int32)
            input_tensor = _maybe_pad_for_rfft(input_tensor, fft_rank, fft_length)
            return fft_fn(input_tensor, fft_length, name)

    _rfft.__doc__ = """Returns the Fourier transform of real numbers over the last %d axes.

    Args:
      input_tensor: float32 [..., n].
      fft_length: the sizes of the transform, int32 [%d]; by default those of the axes, which else are cut or padded.
      name: name of the op.

    Returns:
      complex64, the last axis being n / 2 + 1.
    """ % (
        fft_rank,
        fft_rank,
    )
    return _rfft


def _irfft_wrapper(ifft_fn: Callable[..., Any], fft_rank: int, default_name: str) -> Any:
    def _irfft(input_tensor: Any, fft_length: Any = None, name: Optional[str] = None) -> Any:
        with ops.name_scope(name, default_name, [input_tensor, fft_length]) as name:
            input_tensor = ops.convert_to_tensor(input_tensor, dtypes.complex64)
            input_tensor.shape.with_rank_at_least(fft_rank)
            if fft_length is None:
                fft_length = _infer_fft_length_for_irfft(input_tensor, fft_rank)
            else:
                fft_length = ops.convert_to_tensor(fft_length, dtypes.int32)
            input_tensor = _maybe_pad_for_rfft(input_tensor, fft_rank, fft_length, is_reverse=True)
            return ifft_fn(input_tensor, fft_length, name)

    _irfft.__doc__ = """Returns the real numbers whose Fourier transform over the last %d axes is given.

    Args:
      input_tensor: complex64 [..., n / 2 + 1].
      fft_length: the sizes of the result, int32 [%d].
      name: name of the op.

    Returns:
      float32 [..., n].
    """ % (
        fft_rank,
        fft_rank,
    )
    return _irfft


fft = gen_spectral_ops.fft
ifft = gen_spectral_ops.ifft
fft2d = gen_spectral_ops.fft2d
ifft2d = gen_spectral_ops.ifft2d
fft3d = gen_spectral_ops.fft3d
ifft3d = gen_spectral_ops.ifft3d
rfft = _rfft_wrapper(gen_spectral_ops.rfft, 1, "rfft")
irfft = _irfft_wrapper(gen_spectral_ops.irfft, 1, "irfft")
rfft2d = _rfft_wrapper(gen_spectral_ops.rfft2d, 2, "rfft2d")
irfft2d = _irfft_wrapper(gen_spectral_ops.irfft2d, 2, "irfft2d")
rfft3d = _rfft_wrapper(gen_spectral_ops.rfft3d, 3, "rfft3d")
irfft3d = _irfft_wrapper(gen_spectral_ops.irfft3d, 3, "irfft3d")


def _shift(x: Any, axes: Any, shift_of: Callable[[Any], Any]) -> Any:
    if axes is None:
        if x.shape.rank is None:
            axes = math_ops.range(array_ops.rank(x))
            shift = shift_of(array_ops.shape(x))
        else:
            axes = tuple(range(x.shape.rank))
            shift = shift_of(array_ops.shape(x))
    elif isinstance(axes, int):
        shift = shift_of(array_ops.shape(x)[axes])
    else:
        rank = array_ops.rank(x)
        axes = array_ops.where(math_ops.less(axes, 0), math_ops.add(axes, rank), axes)
        shift = shift_of(array_ops.gather(array_ops.shape(x), axes))
    return manip_ops.roll(x, shift, axes)


def fftshift(x: Any, axes: Any = None, name: Optional[str] = None) -> Any:
    """Moves the zero frequency to the middle of `axes` (all by default)."""
    with ops.name_scope(name, "fftshift"):
        return _shift(ops.convert_to_tensor(x), axes, lambda size: size // 2)


def ifftshift(x: Any, axes: Any = None, name: Optional[str] = None) -> Any:
    """The inverse of `fftshift`."""
    with ops.name_scope(name, "ifftshift"):
        return _shift(ops.convert_to_tensor(x), axes, lambda size: -(size // 2))
