# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Brightness, contrast, colours and types of images."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, gen_image_ops, math_ops, random_ops
from millrace.python.ops._image_checks import _assert, _AssertAtLeast3DImage, _AssertGrayscaleImage

_FLOATS = (dtypes.float16, dtypes.float32)


def _as_float(image: Any) -> Any:
    return image if image.dtype in _FLOATS else convert_image_dtype(image, dtypes.float32)


def per_image_standardization(image: Any) -> Any:
    """Scales each image [..., height, width, channels] to mean 0 and variance 1.

    The standard deviation that it is divided by is at least 1 / sqrt(number of its elements).
    """
    with ops.name_scope(None, "per_image_standardization", [image]) as scope:
        image = ops.convert_to_tensor(image, name="image")
        image = _AssertAtLeast3DImage(image)
        num_pixels = math_ops.reduce_prod(array_ops.shape(image)[-3:])
        image = math_ops.cast(image, dtype=dtypes.float32)
        axes = [-1, -2, -3]
        image_mean = math_ops.reduce_mean(image, axis=axes, keepdims=True)
        variance = math_ops.reduce_mean(math_ops.square(image), axis=axes, keepdims=True) - math_ops.square(
            image_mean
        )
        stddev = math_ops.sqrt(gen_relu(variance))
        min_stddev = math_ops.rsqrt(math_ops.cast(num_pixels, dtypes.float32))
        pixel_value_scale = math_ops.maximum(stddev, min_stddev)
        return math_ops.divide(math_ops.subtract(image, image_mean), pixel_value_scale, name=scope)


def gen_relu(x: Any) -> Any:
    """Returns max(x, 0)."""
    from millrace.python.ops import gen_nn_ops

    return gen_nn_ops.relu(x)


def random_brightness(image: Any, max_delta: Any, seed: Any = None) -> Any:
    """Adds a random number in [-max_delta, max_delta) to an image; ValueError for a negative `max_delta`."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_ops.random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image: Any, lower: Any, upper: Any, seed: Any = None) -> Any:
    """Changes the contrast by a random factor in [lower, upper); ValueError unless 0 <= lower < upper."""
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return adjust_contrast(image, random_ops.random_uniform([], lower, upper, seed=seed))


def adjust_brightness(image: Any, delta: Any) -> Any:
    """Adds `delta` to an image of floats; integers are scaled to [0, 1] before and back after it."""
    with ops.name_scope(None, "adjust_brightness", [image, delta]) as name:
        image = ops.convert_to_tensor(image, name="image")
        orig_dtype = image.dtype
        flt_image = _as_float(image)
        adjusted = math_ops.add(flt_image, math_ops.cast(delta, flt_image.dtype), name=name)
        return convert_image_dtype(adjusted, orig_dtype, saturate=True)


def adjust_contrast(images: Any, contrast_factor: Any) -> Any:
    """Multiplies the distance from the mean of each channel by `contrast_factor`."""
    with ops.name_scope(None, "adjust_contrast", [images, contrast_factor]) as name:
        images = ops.convert_to_tensor(images, name="images")
        orig_dtype = images.dtype
        flt_images = _as_float(images)
        adjusted = gen_image_ops.adjust_contrastv2(flt_images, contrast_factor=contrast_factor, name=name)
        return convert_image_dtype(adjusted, orig_dtype, saturate=True)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Any:
    """Returns gain * image ** gamma, for an image in [0, 1]; ValueError for a negative `gamma`."""
    with ops.name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image = ops.convert_to_tensor(image, name="image")
        orig_dtype = image.dtype
        flt_image = _as_float(image)
        asserts = _assert(gamma >= 0, ValueError, "Gamma should be a non-negative real number.")
        if asserts:
            gamma = control_flow_ops.with_dependencies(asserts, gamma)
        return convert_image_dtype(gain * flt_image**gamma, orig_dtype, saturate=True)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: Optional[str] = None) -> Any:
    """Converts an image and scales it: floats are in [0, 1), integers in [0, the largest].

    Raises:
      AttributeError: `dtype` is neither a float nor an integer.
    """
    image = ops.convert_to_tensor(image, name="image")
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating and not dtype.is_integer:
        raise AttributeError("dtype must be either floating point or integer")
    if dtype == image.dtype:
        return array_ops.identity(image, name=name)
    convert = math_ops.saturate_cast if saturate else math_ops.cast
    with ops.name_scope(name, "convert_image", [image]) as name:
        if image.dtype.is_integer and dtype.is_integer:
            scale_in, scale_out = image.dtype.max, dtype.max
            if scale_in > scale_out:
                # The numbers of values of both types are powers of 2.
                return convert(math_ops.div(image, (scale_in + 1) // (scale_out + 1)), dtype, name=name)
            return math_ops.multiply(convert(image, dtype), (scale_out + 1) // (scale_in + 1), name=name)
        if image.dtype.is_floating and dtype.is_floating:
            return math_ops.cast(image, dtype, name=name)
        if image.dtype.is_integer:
            return math_ops.multiply(math_ops.cast(image, dtype), 1.0 / image.dtype.max, name=name)
        # Half a step more, so that each integer has the same share of the interval.
        return convert(math_ops.multiply(image, dtype.max + 0.5), dtype, name=name)


def rgb_to_grayscale(images: Any, name: Optional[str] = None) -> Any:
    """Returns the luma of images [..., 3] as [..., 1]."""
    with ops.name_scope(name, "rgb_to_grayscale", [images]) as name:
        images = ops.convert_to_tensor(images, name="images")
        orig_dtype = images.dtype
        flt_image = convert_image_dtype(images, dtypes.float32)
        gray = math_ops.tensordot(flt_image, [0.2989, 0.5870, 0.1140], [-1, -1])
        return convert_image_dtype(array_ops.expand_dims(gray, -1), orig_dtype, name=name)


def grayscale_to_rgb(images: Any, name: Optional[str] = None) -> Any:
    """Repeats the only channel of images [..., 1] three times."""
    with ops.name_scope(name, "grayscale_to_rgb", [images]) as name:
        images = ops.convert_to_tensor(images, name="images")
        images = _AssertGrayscaleImage(images)
        rank_1 = array_ops.expand_dims(array_ops.rank(images) - 1, 0)
        multiples = array_ops.concat(
            [array_ops.ones(rank_1, dtype=dtypes.int32), array_ops.expand_dims(3, 0)], 0
        )
        rgb = array_ops.tile(images, multiples, name=name)
        rgb.set_shape(images.get_shape()[:-1].concatenate([3]))
        return rgb


def random_hue(image: Any, max_delta: Any, seed: Any = None) -> Any:
    """Rotates the hue of an RGB image by a random part of the circle in [-max_delta, max_delta)."""
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random_ops.random_uniform([], -max_delta, max_delta, seed=seed))


def adjust_hue(image: Any, delta: Any, name: Optional[str] = None) -> Any:
    """Adds `delta`, in [-1, 1], to the hue of RGB images."""
    with ops.name_scope(name, "adjust_hue", [image]):
        image = ops.convert_to_tensor(image, name="image")
        orig_dtype = image.dtype
        rgb_altered = gen_image_ops.adjust_hue(_as_float(image), delta)
        return convert_image_dtype(rgb_altered, orig_dtype)


def random_jpeg_quality(image: Any, min_jpeg_quality: Any, max_jpeg_quality: Any, seed: Any = None) -> Any:
    """Encodes an image as JPEG of a random quality and decodes it again."""
    if min_jpeg_quality < 0 or max_jpeg_quality < 0 or min_jpeg_quality > 100 or max_jpeg_quality > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    np.random.seed(seed)
    return adjust_jpeg_quality(image, np.random.randint(min_jpeg_quality, max_jpeg_quality))


def adjust_jpeg_quality(image: Any, jpeg_quality: Any, name: Optional[str] = None) -> Any:
    """Encodes an image as JPEG of the given quality and decodes it again."""
    with ops.name_scope(name, "adjust_jpeg_quality", [image]):
        image = ops.convert_to_tensor(image, name="image")
        orig_dtype = image.dtype
        image = convert_image_dtype(image, dtypes.uint8)
        if isinstance(jpeg_quality, ops.Tensor):
            image = gen_image_ops.encode_jpeg_variable_quality(image, jpeg_quality)
        else:
            image = gen_image_ops.encode_jpeg(image, quality=int(jpeg_quality))
        return convert_image_dtype(gen_image_ops.decode_jpeg(image), orig_dtype)


def random_saturation(image: Any, lower: Any, upper: Any, seed: Any = None) -> Any:
    """Multiplies the saturation of an RGB image by a random factor in [lower, upper)."""
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")
    return adjust_saturation(image, random_ops.random_uniform([], lower, upper, seed=seed))


def adjust_saturation(image: Any, saturation_factor: Any, name: Optional[str] = None) -> Any:
    """Multiplies the saturation of RGB images by `saturation_factor`."""
    with ops.name_scope(name, "adjust_saturation", [image]):
        image = ops.convert_to_tensor(image, name="image")
        orig_dtype = image.dtype
        adjusted = gen_image_ops.adjust_saturation(_as_float(image), saturation_factor)
        return convert_image_dtype(adjusted, orig_dtype)


_rgb_to_yiq_kernel: list[list[float]] = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_yiq_to_rgb_kernel: list[list[float]] = [
    [1, 1, 1],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]
_rgb_to_yuv_kernel: list[list[float]] = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_yuv_to_rgb_kernel: list[list[float]] = [
    [1, 1, 1],
    [0, -0.394642334, 2.03206185],
    [1.13988303, -0.58062185, 0],
]


def _by_kernel(images: Any, kernel: list[list[float]]) -> Any:
    images = ops.convert_to_tensor(images, name="images")
    kernel = ops.convert_to_tensor(kernel, dtype=images.dtype, name="kernel")
    ndims = images.get_shape().ndims
    return math_ops.tensordot(images, kernel, axes=[[ndims - 1], [0]])


def rgb_to_yiq(images: Any) -> Any:
    """Converts images [..., 3] of floats in [0, 1] from RGB to YIQ."""
    return _by_kernel(images, _rgb_to_yiq_kernel)


def yiq_to_rgb(images: Any) -> Any:
    """Converts images [..., 3] from YIQ to RGB."""
    return _by_kernel(images, _yiq_to_rgb_kernel)


def rgb_to_yuv(images: Any) -> Any:
    """Converts images [..., 3] of floats in [0, 1] from RGB to YUV."""
    return _by_kernel(images, _rgb_to_yuv_kernel)


def yuv_to_rgb(images: Any) -> Any:
    """Converts images [..., 3] from YUV to RGB."""
    return _by_kernel(images, _yuv_to_rgb_kernel)
