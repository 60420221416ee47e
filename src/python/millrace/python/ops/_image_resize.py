# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Resizes of images by interpolation."""
from __future__ import annotations

from typing import Any, Callable, Optional

from millrace.python.framework import dtypes, ops, tensor_shape, tensor_util
from millrace.python.ops import array_ops, control_flow_ops, gen_image_ops, math_ops
from millrace.python.ops._image_checks import (
    _assert,
    _CheckAtLeast3DImage,
    _ImageDimensions,
    as_batch,
)
from millrace.python.ops._image_shapes import _maximum, pad_to_bounding_box


class ResizeMethodV1:
    """The methods of `resize_images`."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


class ResizeMethod:
    """The methods of `resize_images_v2`."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


def _scaled_size(images: Any, size: Any) -> Any:
    """The largest size within `size` that keeps the ratio of height to width."""
    _, height, width, _ = _ImageDimensions(images, rank=4)
    height, width = math_ops.cast(height, dtypes.float32), math_ops.cast(width, dtypes.float32)
    scale = math_ops.minimum(
        math_ops.cast(size[0], dtypes.float32) / height, math_ops.cast(size[1], dtypes.float32) / width
    )
    scaled = [math_ops.cast(math_ops.round(scale * extent), dtypes.int32) for extent in (height, width)]
    return ops.convert_to_tensor(scaled, dtypes.int32, name="size")


def _resize_images_common(
    images: Any,
    resizer_fn: Callable[[Any, Any], Any],
    size: Any,
    preserve_aspect_ratio: bool,
    name: Optional[str],
    skip_resize_if_same: bool,
) -> Any:
    with ops.name_scope(name, "resize", [images, size]):
        images = ops.convert_to_tensor(images, name="images")
        if images.get_shape().ndims is None:
            raise ValueError("'images' contains no shape.")
        is_batch = True
        if images.get_shape().ndims == 3:
            is_batch = False
            images = array_ops.expand_dims(images, 0)
        elif images.get_shape().ndims != 4:
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        _, height, width, _ = images.get_shape().as_list()
        try:
            size = ops.convert_to_tensor(size, dtypes.int32, name="size")
        except (TypeError, ValueError):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        if not size.get_shape().is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            size = _scaled_size(images, size)
        size_as_shape = tensor_util.constant_value_as_shape(size)
        new_height = tensor_shape.dimension_at_index(size_as_shape, 0).value
        new_width = tensor_shape.dimension_at_index(size_as_shape, 1).value
        if skip_resize_if_same and None not in (width, new_width, height, new_height):
            if width == new_width and height == new_height:
                return images if is_batch else array_ops.squeeze(images, axis=[0])
        images = resizer_fn(images, size)
        images.set_shape([None, new_height, new_width, None])
        return images if is_batch else array_ops.squeeze(images, axis=[0])


def resize_images_v1(
    images: Any,
    size: Any,
    method: Any = ResizeMethodV1.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Resizes an image [height, width, channels], or a batch of them, to `size` [new_height, new_width].

    An image that has the size already is returned as it is. The result of another method than
    NEAREST_NEIGHBOR is float32.

    Raises:
      ValueError: the shapes do not fit, or there is no such method.
    """

    def resizer(images: Any, size: Any) -> Any:
        if method in (ResizeMethodV1.BILINEAR, ResizeMethod.BILINEAR):
            return gen_image_ops.resize_bilinear(images, size, align_corners=align_corners)
        if method in (ResizeMethodV1.NEAREST_NEIGHBOR, ResizeMethod.NEAREST_NEIGHBOR):
            return gen_image_ops.resize_nearest_neighbor(images, size, align_corners=align_corners)
        if method in (ResizeMethodV1.BICUBIC, ResizeMethod.BICUBIC):
            return gen_image_ops.resize_bicubic(images, size, align_corners=align_corners)
        if method in (ResizeMethodV1.AREA, ResizeMethod.AREA):
            return gen_image_ops.resize_area(images, size, align_corners=align_corners)
        raise ValueError("Resize method is not implemented: {}".format(method))

    return _resize_images_common(
        images,
        resizer,
        size,
        preserve_aspect_ratio=preserve_aspect_ratio,
        name=name,
        skip_resize_if_same=True,
    )


resize_images = resize_images_v1
_KERNELS = {
    ResizeMethod.LANCZOS3: "lanczos3",
    ResizeMethod.LANCZOS5: "lanczos5",
    ResizeMethod.GAUSSIAN: "gaussian",
    ResizeMethod.MITCHELLCUBIC: "mitchellcubic",
}


def resize_images_v2(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: Optional[str] = None,
) -> Any:
    """As `resize_images` with centres at half pixels and, with `antialias`, wider kernels when it shrinks."""

    def translate(images: Any, size: Any, kernel_type: str) -> Any:
        images = math_ops.cast(images, dtypes.float32)
        scale = math_ops.cast(size, dtypes.float32) / math_ops.cast(
            array_ops.shape(images)[1:3], dtype=dtypes.float32
        )
        return gen_image_ops.scale_and_translate(
            images, size, scale, array_ops.zeros([2]), kernel_type=kernel_type, antialias=antialias
        )

    def resizer(images: Any, size: Any) -> Any:
        if method == ResizeMethod.BILINEAR:
            if antialias:
                return translate(images, size, "triangle")
            return gen_image_ops.resize_bilinear(images, size, half_pixel_centers=True)
        if method == ResizeMethod.NEAREST_NEIGHBOR:
            return gen_image_ops.resize_nearest_neighbor(images, size, half_pixel_centers=True)
        if method == ResizeMethod.BICUBIC:
            if antialias:
                return translate(images, size, "keyscubic")
            return gen_image_ops.resize_bicubic(images, size, half_pixel_centers=True)
        if method == ResizeMethod.AREA:
            return gen_image_ops.resize_area(images, size)
        if method in _KERNELS:
            return translate(images, size, _KERNELS[method])
        raise ValueError("Resize method is not implemented: {}".format(method))

    return _resize_images_common(
        images,
        resizer,
        size,
        preserve_aspect_ratio=preserve_aspect_ratio,
        name=name,
        skip_resize_if_same=False,
    )


def _resize_image_with_pad_common(image: Any, target_height: Any, target_width: Any, resize_fn: Any) -> Any:
    with ops.name_scope(None, "resize_image_with_pad", [image]):
        image = ops.convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        asserts = _CheckAtLeast3DImage(image, require_static=False)
        asserts += _assert(target_width > 0, ValueError, "target_width must be > 0.")
        asserts += _assert(target_height > 0, ValueError, "target_height must be > 0.")
        image = control_flow_ops.with_dependencies(asserts, image)
        _, height, width, _ = _ImageDimensions(image, rank=4)
        f_height = math_ops.cast(height, dtype=dtypes.float32)
        f_width = math_ops.cast(width, dtype=dtypes.float32)
        f_target_height = math_ops.cast(target_height, dtype=dtypes.float32)
        f_target_width = math_ops.cast(target_width, dtype=dtypes.float32)
        ratio = math_ops.maximum(f_width / f_target_width, f_height / f_target_height)
        resized_height_float, resized_width_float = f_height / ratio, f_width / ratio
        resized_height = math_ops.cast(math_ops.floor(resized_height_float), dtype=dtypes.int32)
        resized_width = math_ops.cast(math_ops.floor(resized_width_float), dtype=dtypes.int32)
        padding_height = math_ops.floor((f_target_height - resized_height_float) / 2)
        padding_width = math_ops.floor((f_target_width - resized_width_float) / 2)
        p_height = _maximum(0, math_ops.cast(padding_height, dtype=dtypes.int32))
        p_width = _maximum(0, math_ops.cast(padding_width, dtype=dtypes.int32))
        resized = resize_fn(image, array_ops.concat([[resized_height], [resized_width]], axis=0))
        padded = pad_to_bounding_box(resized, p_height, p_width, target_height, target_width)
        if padded.get_shape().ndims is None:
            raise ValueError("padded contains no shape.")
        _ImageDimensions(padded, rank=4)
        return padded if is_batch else array_ops.squeeze(padded, axis=[0])


def resize_image_with_pad_v1(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: Any = ResizeMethodV1.BILINEAR,
    align_corners: bool = False,
) -> Any:
    """Resizes an image, or a batch, keeping its ratio, and pads it evenly with zeros to the target size."""
    return _resize_image_with_pad_common(
        image, target_height, target_width, lambda im, size: resize_images_v1(im, size, method, align_corners)
    )


resize_image_with_pad = resize_image_with_pad_v1


def resize_image_with_pad_v2(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: Any = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Any:
    """As `resize_image_with_pad_v1`, by the methods of `resize_images_v2`."""
    return _resize_image_with_pad_common(
        image,
        target_height,
        target_width,
        lambda im, size: resize_images_v2(im, size, method, antialias=antialias),
    )


def crop_and_resize_v2(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: Optional[str] = None,
) -> Any:
    """Cuts `boxes` [n, 4] (y1, x1, y2, x2 as parts of the image) out of images and resizes them to `crop_size`."""
    return gen_image_ops.crop_and_resize(
        image, boxes, box_indices, crop_size, method, extrapolation_value, name
    )


def crop_and_resize_v1(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: Optional[str] = None,
    box_indices: Any = None,
) -> Any:
    """As `crop_and_resize_v2`; `box_ind` is the old name of `box_indices`."""
    from millrace.python.util import deprecation

    box_ind = deprecation.deprecated_argument_lookup("box_indices", box_indices, "box_ind", box_ind)
    return gen_image_ops.crop_and_resize(image, boxes, box_ind, crop_size, method, extrapolation_value, name)


crop_and_resize = crop_and_resize_v1
