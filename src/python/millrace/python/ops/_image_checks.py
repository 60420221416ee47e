# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the shapes of images, at once where they are known, else by asserts in the graph."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import ops, tensor_util
from millrace.python.ops import array_ops, check_ops, control_flow_ops

_BATCH_ERROR = "'image' must have either 3 or 4 dimensions."


def _assert(cond: Any, ex_type: type, msg: str) -> list[Any]:
    """Returns the asserts that `cond` needs; raises `ex_type` when it is known to be false."""
    if _is_tensor(cond):
        return [control_flow_ops.Assert(cond, [msg])]
    if not cond:
        raise ex_type(msg)
    return []


def _is_tensor(x: Any) -> bool:
    return tensor_util.is_tensor(x)


def _ImageDimensions(image: Any, rank: int) -> list[Any]:
    """Returns the dimensions of an image: numbers where they are known, else tensors."""
    if image.get_shape().is_fully_defined():
        return list(image.get_shape().as_list())
    static_shape = image.get_shape().with_rank(rank).as_list()
    dynamic_shape = array_ops.unstack(array_ops.shape(image), rank)
    return [s if s is not None else d for s, d in zip(static_shape, dynamic_shape)]


def _Check3DImage(image: Any, require_static: bool = True) -> list[Any]:
    """Returns asserts that `image` is [height, width, channels] and not empty; ValueError when it is not."""
    try:
        image_shape = image.get_shape().with_rank(3)
    except ValueError:
        raise ValueError("'image' (shape %s) must be three-dimensional." % image.shape) from None
    if require_static and not image_shape.is_fully_defined():
        raise ValueError("'image' (shape %s) must be fully defined." % image_shape)
    if any(x == 0 for x in image_shape):
        raise ValueError("all dims of 'image.shape' must be > 0: %s" % image_shape)
    if image_shape.is_fully_defined():
        return []
    return [check_ops.assert_positive(array_ops.shape(image), ["all dims of 'image.shape' must be > 0."])]


def _Assert3DImage(image: Any) -> Any:
    return control_flow_ops.with_dependencies(_Check3DImage(image, require_static=False), image)


def _CheckAtLeast3DImage(image: Any, require_static: bool = True) -> list[Any]:
    """Returns asserts that `image` is [..., height, width, channels] and not empty; ValueError when it is not."""
    try:
        if image.get_shape().ndims is None:
            image_shape = image.get_shape().with_rank(3)
        else:
            image_shape = image.get_shape().with_rank_at_least(3)
    except ValueError:
        raise ValueError("'image' must be at least three-dimensional.") from None
    if require_static and not image_shape.is_fully_defined():
        raise ValueError("'image' must be fully defined.")
    inner_shape = image_shape[-3:]
    if any(x == 0 for x in inner_shape):
        raise ValueError("inner 3 dims of 'image.shape' must be > 0: %s" % image_shape)
    if inner_shape.is_fully_defined():
        return []
    return [
        check_ops.assert_positive(
            array_ops.shape(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."]
        ),
        check_ops.assert_greater_equal(
            array_ops.rank(image), 3, message="'image' must be at least three-dimensional."
        ),
    ]


def _AssertAtLeast3DImage(image: Any) -> Any:
    return control_flow_ops.with_dependencies(_CheckAtLeast3DImage(image, require_static=False), image)


def _CheckGrayscaleImage(image: Any, require_static: bool = True) -> list[Any]:
    """Returns asserts that the last dimension is 1; ValueError when it is known not to be."""
    try:
        if image.get_shape().ndims is None:
            image_shape = image.get_shape().with_rank(2)
        else:
            image_shape = image.get_shape().with_rank_at_least(2)
    except ValueError:
        raise ValueError("A grayscale image must be at least two-dimensional.") from None
    if require_static and not image_shape.is_fully_defined():
        raise ValueError("'image' must be fully defined.")
    if image_shape.is_fully_defined():
        if image_shape[-1] != 1:
            raise ValueError("Last dimension of a grayscale image should be size 1.")
        return []
    return [
        check_ops.assert_equal(
            array_ops.shape(image)[-1], 1, message="Last dimension of a grayscale image should be size 1."
        ),
        check_ops.assert_greater_equal(
            array_ops.rank(image), 3, message="A grayscale image must be at least two-dimensional."
        ),
    ]


def _AssertGrayscaleImage(image: Any) -> Any:
    return control_flow_ops.with_dependencies(_CheckGrayscaleImage(image, require_static=False), image)


def fix_image_flip_shape(image: Any, result: Any) -> Any:
    """Sets the shape of `result`, a flipped `image`, to that of `image`, or to rank 3 if that is unknown."""
    image_shape = image.get_shape()
    result.set_shape([None, None, None] if image_shape.ndims is None else image_shape)
    return result


def as_batch(image: Any) -> tuple[Any, bool]:
    """Returns (image as [batch, height, width, channels], whether it was a batch)."""
    shape = image.get_shape()
    if shape.ndims == 3:
        return array_ops.expand_dims(image, 0), False
    if shape.ndims is None:
        image = array_ops.expand_dims(image, 0)
        image.set_shape([None] * 4)
        return image, False
    if shape.ndims != 4:
        raise ValueError(_BATCH_ERROR)
    return image, True


def convert(image: Any, name: str = "image") -> Any:
    """Returns `image` as a tensor."""
    return ops.convert_to_tensor(image, name=name)
