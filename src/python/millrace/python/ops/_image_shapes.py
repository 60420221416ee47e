# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Flips, rotations, crops and padding of images."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.framework import dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, math_ops, random_ops
from millrace.python.ops._image_checks import (
    _assert,
    _AssertAtLeast3DImage,
    _BATCH_ERROR,
    _CheckAtLeast3DImage,
    _ImageDimensions,
    _is_tensor,
    as_batch,
    fix_image_flip_shape,
)


def random_flip_up_down(image: Any, seed: Any = None) -> Any:
    """Turns an image, or each of a batch, upside down with probability 1/2."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def random_flip_left_right(image: Any, seed: Any = None) -> Any:
    """Mirrors an image, or each of a batch, left to right with probability 1/2."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def _random_flip(image: Any, flip_index: int, seed: Any, scope_name: str) -> Any:
    with ops.name_scope(None, scope_name, [image]) as scope:
        image = ops.convert_to_tensor(image, name="image")
        image = _AssertAtLeast3DImage(image)
        shape = image.get_shape()
        if shape.ndims == 3 or shape.ndims is None:
            uniform_random = random_ops.random_uniform([], 0, 1.0, seed=seed)
            mirror_cond = math_ops.less(uniform_random, 0.5)
            result = control_flow_ops.cond(
                mirror_cond, lambda: array_ops.reverse(image, [flip_index]), lambda: image, name=scope
            )
            return fix_image_flip_shape(image, result)
        if shape.ndims != 4:
            raise ValueError(_BATCH_ERROR)
        batch_size = array_ops.shape(image)[0]
        uniform_random = random_ops.random_uniform([batch_size], 0, 1.0, seed=seed)
        flips = math_ops.round(array_ops.reshape(uniform_random, [batch_size, 1, 1, 1]))
        flips = math_ops.cast(flips, image.dtype)
        flipped_input = array_ops.reverse(image, [flip_index + 1])
        return flips * flipped_input + (1 - flips) * image


def flip_left_right(image: Any) -> Any:
    """Mirrors an image [height, width, channels], or a batch of them, left to right."""
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image: Any) -> Any:
    """Turns an image [height, width, channels], or a batch of them, upside down."""
    return _flip(image, 0, "flip_up_down")


def _flip(image: Any, flip_index: int, scope_name: str) -> Any:
    with ops.name_scope(None, scope_name, [image]):
        image = ops.convert_to_tensor(image, name="image")
        image = _AssertAtLeast3DImage(image)
        shape = image.get_shape()
        if shape.ndims == 3 or shape.ndims is None:
            return fix_image_flip_shape(image, array_ops.reverse(image, [flip_index]))
        if shape.ndims != 4:
            raise ValueError(_BATCH_ERROR)
        return array_ops.reverse(image, [flip_index + 1])


def rot90(image: Any, k: Any = 1, name: Optional[str] = None) -> Any:
    """Rotates an image, or a batch of them, counter-clockwise by `k` times 90 degrees."""
    with ops.name_scope(name, "rot90", [image, k]) as scope:
        image = ops.convert_to_tensor(image, name="image")
        image = _AssertAtLeast3DImage(image)
        k = ops.convert_to_tensor(k, dtype=dtypes.int32, name="k")
        k.get_shape().assert_has_rank(0)
        k = math_ops.mod(k, 4)
        shape = image.get_shape()
        if shape.ndims == 3 or shape.ndims is None:
            result = _rot90(image, k, scope, 0, [1, 0, 2])
            result.set_shape([None, None, image.get_shape()[2]] if shape.ndims else [None, None, None])
            return result
        if shape.ndims != 4:
            raise ValueError(_BATCH_ERROR)
        result = _rot90(image, k, scope, 1, [0, 2, 1, 3])
        result.set_shape([shape[0], None, None, shape[3]])
        return result


def _rot90(images: Any, k: Any, name: Any, row: int, permutation: list[int]) -> Any:
    def rotate_90() -> Any:
        return array_ops.transpose(array_ops.reverse_v2(images, [row + 1]), permutation)

    def rotate_180() -> Any:
        return array_ops.reverse_v2(images, [row, row + 1])

    def rotate_270() -> Any:
        return array_ops.reverse_v2(array_ops.transpose(images, permutation), [row + 1])

    cases = [
        (math_ops.equal(k, 1), rotate_90),
        (math_ops.equal(k, 2), rotate_180),
        (math_ops.equal(k, 3), rotate_270),
    ]
    return control_flow_ops.case(cases, default=lambda: images, exclusive=True, name=name)


def transpose(image: Any, name: Optional[str] = None) -> Any:
    """Swaps rows and columns of an image, or of a batch of them."""
    with ops.name_scope(name, "transpose", [image]):
        image = ops.convert_to_tensor(image, name="image")
        image = _AssertAtLeast3DImage(image)
        shape = image.get_shape()
        if shape.ndims == 3 or shape.ndims is None:
            return array_ops.transpose(image, [1, 0, 2], name=name)
        if shape.ndims != 4:
            raise ValueError(_BATCH_ERROR)
        return array_ops.transpose(image, [0, 2, 1, 3], name=name)


transpose_image = transpose


def central_crop(image: Any, central_fraction: Any) -> Any:
    """Returns the middle of an image, or of a batch: `central_fraction` of its height and width.

    Raises:
      ValueError: the fraction is not in (0, 1], or the rank is neither 3 nor 4.
    """
    with ops.name_scope(None, "central_crop", [image]):
        image = ops.convert_to_tensor(image, name="image")
        if central_fraction <= 0.0 or central_fraction > 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        if central_fraction == 1.0:
            return image
        _AssertAtLeast3DImage(image)
        rank = image.get_shape().ndims
        if rank not in (3, 4):
            raise ValueError(
                "`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {}.".format(rank)
            )
        starts, sizes, static_sizes = [], [], []
        for axis in (rank - 3, rank - 2):
            extent = image.get_shape().dims[axis].value
            if extent is None:
                extent = array_ops.shape(image)[axis]
                real = math_ops.cast(extent, dtypes.float64)
                start = math_ops.cast((real - real * central_fraction) / 2, dtypes.int32)
            else:
                start = int((float(extent) - float(extent) * central_fraction) / 2)
            starts.append(start)
            sizes.append(extent - start * 2)
            static_sizes.append(None if _is_tensor(sizes[-1]) else sizes[-1])
        if rank == 3:
            begin, size = [*starts, 0], [*sizes, -1]
            static = [*static_sizes, image.get_shape()[2]]
        else:
            begin, size = [0, *starts, 0], [-1, *sizes, -1]
            static = [image.get_shape()[0], *static_sizes, image.get_shape()[3]]
        image = array_ops.slice(image, array_ops.stack(begin), array_ops.stack(size))
        image.set_shape(static)
        return image


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Any:
    """Pads an image, or a batch, with zeros to the target height and width.

    Args:
      image: [height, width, channels] or [batch, height, width, channels].
      offset_height, offset_width: the rows of zeros above and the columns left of the image.
      target_height, target_width: the size of the result.

    Raises:
      ValueError: an offset is negative, or the image does not fit into the target.
    """
    with ops.name_scope(None, "pad_to_bounding_box", [image]):
        image = ops.convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        asserts = _CheckAtLeast3DImage(image, require_static=False)
        batch, height, width, depth = _ImageDimensions(image, rank=4)
        after_width = target_width - offset_width - width
        after_height = target_height - offset_height - height
        asserts += _assert(offset_height >= 0, ValueError, "offset_height must be >= 0")
        asserts += _assert(offset_width >= 0, ValueError, "offset_width must be >= 0")
        asserts += _assert(after_width >= 0, ValueError, "width must be <= target - offset")
        asserts += _assert(after_height >= 0, ValueError, "height must be <= target - offset")
        image = control_flow_ops.with_dependencies(asserts, image)
        paddings = array_ops.reshape(
            array_ops.stack([0, 0, offset_height, after_height, offset_width, after_width, 0, 0]), [4, 2]
        )
        padded = array_ops.pad(image, paddings)
        padded.set_shape([None if _is_tensor(i) else i for i in (batch, target_height, target_width, depth)])
        return padded if is_batch else array_ops.squeeze(padded, axis=[0])


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Any:
    """Returns the part of an image, or of a batch, that starts at the offsets and has the target size."""
    with ops.name_scope(None, "crop_to_bounding_box", [image]):
        image = ops.convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        asserts = _CheckAtLeast3DImage(image, require_static=False)
        batch, height, width, depth = _ImageDimensions(image, rank=4)
        asserts += _assert(offset_width >= 0, ValueError, "offset_width must be >= 0.")
        asserts += _assert(offset_height >= 0, ValueError, "offset_height must be >= 0.")
        asserts += _assert(target_width > 0, ValueError, "target_width must be > 0.")
        asserts += _assert(target_height > 0, ValueError, "target_height must be > 0.")
        asserts += _assert(
            width >= (target_width + offset_width), ValueError, "width must be >= target + offset."
        )
        asserts += _assert(
            height >= (target_height + offset_height), ValueError, "height must be >= target + offset."
        )
        image = control_flow_ops.with_dependencies(asserts, image)
        cropped = array_ops.slice(
            image,
            array_ops.stack([0, offset_height, offset_width, 0]),
            array_ops.stack([-1, target_height, target_width, -1]),
        )
        cropped.set_shape([None if _is_tensor(i) else i for i in (batch, target_height, target_width, depth)])
        return cropped if is_batch else array_ops.squeeze(cropped, axis=[0])


def _maximum(x: Any, y: Any) -> Any:
    return math_ops.maximum(x, y) if _is_tensor(x) or _is_tensor(y) else max(x, y)


def _minimum(x: Any, y: Any) -> Any:
    return math_ops.minimum(x, y) if _is_tensor(x) or _is_tensor(y) else min(x, y)


def _equal(x: Any, y: Any) -> Any:
    return math_ops.equal(x, y) if _is_tensor(x) or _is_tensor(y) else x == y


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Any:
    """Crops an image, or a batch, in the middle or pads it evenly with zeros to the target size."""
    with ops.name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image = ops.convert_to_tensor(image, name="image")
        image, is_batch = as_batch(image)
        asserts = _CheckAtLeast3DImage(image, require_static=False)
        asserts += _assert(target_width > 0, ValueError, "target_width must be > 0.")
        asserts += _assert(target_height > 0, ValueError, "target_height must be > 0.")
        image = control_flow_ops.with_dependencies(asserts, image)
        if _is_tensor(target_height):
            target_height = control_flow_ops.with_dependencies(asserts, target_height)
        if _is_tensor(target_width):
            target_width = control_flow_ops.with_dependencies(asserts, target_width)
        _, height, width, _ = _ImageDimensions(image, rank=4)
        width_diff = target_width - width
        height_diff = target_height - height
        cropped = crop_to_bounding_box(
            image,
            _maximum(-height_diff // 2, 0),
            _maximum(-width_diff // 2, 0),
            _minimum(target_height, height),
            _minimum(target_width, width),
        )
        resized = pad_to_bounding_box(
            cropped, _maximum(height_diff // 2, 0), _maximum(width_diff // 2, 0), target_height, target_width
        )
        if resized.get_shape().ndims is None:
            raise ValueError("resized contains no shape.")
        _, resized_height, resized_width, _ = _ImageDimensions(resized, rank=4)
        asserts = _assert(_equal(resized_height, target_height), ValueError, "resized height is not correct.")
        asserts += _assert(_equal(resized_width, target_width), ValueError, "resized width is not correct.")
        resized = control_flow_ops.with_dependencies(asserts, resized)
        return resized if is_batch else array_ops.squeeze(resized, axis=[0])


resize_with_crop_or_pad = resize_image_with_crop_or_pad
