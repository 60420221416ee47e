# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Projective transforms of images."""
from __future__ import annotations

from typing import Any

from millrace.python.framework import dtypes, ops, tensor_util
from millrace.python.ops import array_ops, check_ops, math_ops

_IMAGE_DTYPES = {dtypes.uint8, dtypes.int32, dtypes.int64, dtypes.float16, dtypes.float32, dtypes.float64}


def _as_batch(images: Any) -> tuple[Any, Any]:
    """Images of rank 4, and a function that restores their rank."""
    images = ops.convert_to_tensor(images, name="images")
    if images.dtype.base_dtype not in _IMAGE_DTYPES:
        raise TypeError("Invalid dtype %s." % images.dtype)
    rank = images.shape.ndims
    if rank is None:
        raise TypeError("image_or_images rank must be statically known")
    if rank == 2:
        return images[array_ops.newaxis, :, :, array_ops.newaxis], lambda out: out[0, :, :, 0]
    if rank == 3:
        return images[array_ops.newaxis], lambda out: out[0]
    if rank == 4:
        return images, lambda out: out
    raise TypeError("Images should have rank between 2 and 4.")


def _vectors(values: Any, dtype: Any, name: str, rank: int) -> Any:
    """A tensor of rank `rank`; one of a lower rank becomes a batch of one."""
    tensor = ops.convert_to_tensor(values, name=name, dtype=dtype)
    if tensor.shape.ndims is None:
        raise TypeError("%s rank must be statically known" % name)
    if tensor.shape.ndims == rank - 1:
        return tensor[array_ops.newaxis]
    if tensor.shape.ndims == rank:
        return tensor
    raise TypeError("%s should have rank %d or %d." % (name.capitalize(), rank - 1, rank))


def transform(
    images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None, name: Any = None
) -> Any:
    """Applies projective transforms to images.

    Args:
      images: of shape [batch, rows, columns, channels], [rows, columns, channels] or [rows, columns].
      transforms: vectors [a0, a1, a2, b0, b1, b2, c0, c1], one, or one for each image. The pixel (x, y) of the
        result comes from ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), where k = c0 x + c1 y + 1.
      interpolation: "NEAREST" or "BILINEAR".
      output_shape: [rows, columns] of the result; None: those of the images.
      name: a name of the operations.

    Returns:
      A tensor of the rank and type of `images`, zero where there was no pixel.

    Raises:
      TypeError: if the type of `images` or a rank is wrong.
    """
    with ops.name_scope(name, "transform"):
        batch, restore = _as_batch(images)
        if output_shape is None:
            known = tensor_util.constant_value(array_ops.shape(batch)[1:3])
            output_shape = array_ops.shape(batch)[1:3] if known is None else known
        output_shape = ops.convert_to_tensor(output_shape, dtypes.int32, name="output_shape")
        if not output_shape.shape.is_compatible_with([2]):
            raise ValueError(
                "output_shape must be a 1-D Tensor of 2 elements: new_height, new_width, instead got %s"
                % output_shape
            )
        vectors = _vectors(transforms, dtypes.float32, "transforms", 2)
        interpolation = interpolation.upper()
        if interpolation not in ("NEAREST", "BILINEAR"):
            raise ValueError("Interpolation must be NEAREST or BILINEAR, got: %s" % interpolation)
        return restore(_transformed(batch, vectors, interpolation, output_shape))


def _transformed(images: Any, vectors: Any, interpolation: str, output_shape: Any) -> Any:
    """The transform of images of rank 4."""
    shape = array_ops.shape(images)
    rows, columns = output_shape[0], output_shape[1]
    x, y = array_ops.meshgrid(
        math_ops.cast(math_ops.range(columns), dtypes.float32),
        math_ops.cast(math_ops.range(rows), dtypes.float32),
    )
    a0, a1, a2, b0, b1, b2, c0, c1 = (v[:, :, array_ops.newaxis] for v in array_ops.split(vectors, 8, axis=1))
    scale = c0 * x + c1 * y + 1.0
    outside = math_ops.equal(scale, 0.0)
    scale = array_ops.where(outside, array_ops.ones_like(scale), scale)
    nowhere = array_ops.fill(array_ops.shape(scale), -2.0)
    from_x = array_ops.where(outside, nowhere, (a0 * x + a1 * y + a2) / scale)
    from_y = array_ops.where(outside, nowhere, (b0 * x + b1 * y + b2) / scale)
    # One transform may apply to all images.
    several = array_ops.zeros(array_ops.stack([shape[0], 1, 1]), dtypes.float32)
    from_x, from_y = from_x + several, from_y + several

    def read(at_y: Any, at_x: Any) -> Any:
        """The pixels there, zero outside of the images."""
        height, width = math_ops.cast(shape[1], dtypes.float32), math_ops.cast(shape[2], dtypes.float32)
        inside = (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
        zeros = array_ops.zeros_like(at_y)
        places = array_ops.stack([array_ops.where(inside, v, zeros) for v in (at_y, at_x)], axis=-1)
        pixels = array_ops.gather_nd(images, math_ops.cast(places, dtypes.int32), batch_dims=1)
        return pixels * math_ops.cast(inside, images.dtype)[..., array_ops.newaxis]

    if interpolation == "NEAREST":  # halves are rounded away from zero
        out = read(*(math_ops.sign(v) * math_ops.floor(math_ops.abs(v) + 0.5) for v in (from_y, from_x)))
    else:
        kind = dtypes.float64 if images.dtype == dtypes.float64 else dtypes.float32
        low_y, low_x = math_ops.floor(from_y), math_ops.floor(from_x)
        right = math_ops.cast(from_x - low_x, kind)[..., array_ops.newaxis]
        down = math_ops.cast(from_y - low_y, kind)[..., array_ops.newaxis]
        top, bottom = (
            (1 - right) * math_ops.cast(read(low_y + i, low_x), kind)
            + right * math_ops.cast(read(low_y + i, low_x + 1), kind)
            for i in (0.0, 1.0)
        )
        out = math_ops.cast((1 - down) * top + down * bottom, images.dtype)
    known = tensor_util.constant_value(output_shape)
    size: list[Any] = [None, None] if known is None else [int(n) for n in known]
    out.set_shape([images.shape[0].value, size[0], size[1], images.shape[3].value])
    return out


def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: Any = None) -> Any:
    """Rotates images about their centers.

    Args:
      images: as for transform.
      angles: in radians, counterclockwise: one, or one for each image.
      interpolation: "NEAREST" or "BILINEAR".
      name: a name of the operations.
    """
    with ops.name_scope(name, "rotate"):
        batch, _ = _as_batch(images)
        size = math_ops.cast(array_ops.shape(batch)[1:3], dtypes.float32)
        transforms = angles_to_projective_transforms(angles, size[0], size[1])
        return transform(images, transforms, interpolation=interpolation)


def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: Any = None) -> Any:
    """Moves images by vectors [dx, dy]: one, or one for each image."""
    with ops.name_scope(name, "translate"):
        return transform(
            images, translations_to_projective_transforms(translations), interpolation=interpolation
        )


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: Any = None
) -> Any:
    """The transforms that rotate images of one size about their centers by these angles."""
    with ops.name_scope(name, "angles_to_projective_transforms"):
        turns = _vectors(angles, dtypes.float32, "angles", 1)
        cos, sin = math_ops.cos(turns), math_ops.sin(turns)
        right, bottom = image_width - 1, image_height - 1
        dx = (right - (cos * right - sin * bottom)) / 2.0
        dy = (bottom - (sin * right + cos * bottom)) / 2.0
        zeros = array_ops.zeros_like(turns)
        return array_ops.stack([cos, -sin, dx, sin, cos, dy, zeros, zeros], axis=1)


def translations_to_projective_transforms(translations: Any, name: Any = None) -> Any:
    """The transforms that move images by vectors [dx, dy]."""
    with ops.name_scope(name, "translations_to_projective_transforms"):
        vectors = _vectors(translations, dtypes.float32, "translations", 2)
        dx, dy = vectors[:, 0], vectors[:, 1]
        ones, zeros = array_ops.ones_like(dx), array_ops.zeros_like(dx)
        return array_ops.stack([ones, zeros, -dx, zeros, ones, -dy, zeros, zeros], axis=1)


def compose_transforms(*transforms: Any) -> Any:
    """The composition of transforms, the first of which is applied first."""
    assert transforms, "transforms cannot be empty"
    with ops.name_scope("compose_transforms"):
        composed = flat_transforms_to_matrices(transforms[0])
        for other in transforms[1:]:
            composed = math_ops.matmul(composed, flat_transforms_to_matrices(other))
        return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms: Any) -> Any:
    """Vectors of 8 numbers as matrices [batch, 3, 3]."""
    with ops.name_scope("flat_transforms_to_matrices"):
        vectors = ops.convert_to_tensor(transforms, name="transforms")
        if vectors.shape.ndims not in (1, 2):
            raise ValueError("Transforms should be 1D or 2D, got: %s" % transforms)
        vectors = array_ops.reshape(vectors, [-1, 8])
        ones = array_ops.ones_like(vectors[:, :1])
        return array_ops.reshape(array_ops.concat([vectors, ones], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Any:
    """Matrices [batch, 3, 3] as vectors of 8 numbers."""
    with ops.name_scope("matrices_to_flat_transforms"):
        matrices = ops.convert_to_tensor(transform_matrices, name="transform_matrices")
        if matrices.shape.ndims not in (2, 3):
            raise ValueError("Matrices should be 2D or 3D, got: %s" % transform_matrices)
        vectors = array_ops.reshape(matrices, [-1, 9])
        return (vectors / vectors[:, 8:9])[:, :8]


def interpolate_bilinear(
    grid: Any, query_points: Any, name: str = "interpolate_bilinear", indexing: str = "ij"
) -> Any:
    """Values between the points of a grid.

    Args:
      grid: a tensor of shape [batch, rows, columns, channels].
      query_points: points of shape [batch, N, 2]; those outside are moved to the border.
      name: a name of the operations.
      indexing: "ij" for points (row, column), "xy" for (column, row).

    Returns:
      A tensor of shape [batch, N, channels].
    """
    if indexing not in ("ij", "xy"):
        raise ValueError("Indexing mode must be 'ij' or 'xy'")
    with ops.name_scope(name):
        grid = ops.convert_to_tensor(grid)
        points = ops.convert_to_tensor(query_points)
        if grid.shape.ndims is not None and grid.shape.ndims != 4:
            raise ValueError("Grid must be 4 dimensional. Received size: %s" % grid.shape)
        if points.shape.ndims != 3 or not points.shape[2:].is_compatible_with([2]):
            raise ValueError("Query points must be size 2 in dim 2.")
        size = math_ops.cast(array_ops.shape(grid)[1:3], points.dtype)
        if indexing == "xy":
            points = points[:, :, ::-1]
        lowest = math_ops.minimum(math_ops.maximum(math_ops.floor(points), 0), size - 2)
        weight = math_ops.minimum(math_ops.maximum(points - lowest, 0), 1)
        weight = math_ops.cast(weight, grid.dtype)
        corner = math_ops.cast(lowest, dtypes.int32)

        def at(down: int, right: int) -> Any:
            return array_ops.gather_nd(grid, corner + [down, right], batch_dims=1)

        wy, wx = weight[:, :, 0:1], weight[:, :, 1:2]
        top = at(0, 0) + wx * (at(0, 1) - at(0, 0))
        bottom = at(1, 0) + wx * (at(1, 1) - at(1, 0))
        return top + wy * (bottom - top)


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Any:
    """Pixel (y, x) of the result is that of the image at (y, x) - flow, with bilinear interpolation.

    Args:
      image: a tensor of shape [batch, rows, columns, channels], with two rows and columns at least.
      flow: a tensor of shape [batch, rows, columns, 2].
      name: a name of the operations.
    """
    with ops.name_scope(name):
        image, flow = ops.convert_to_tensor(image), ops.convert_to_tensor(flow)
        shape = array_ops.shape(image)
        enough = check_ops.assert_greater_equal(shape[1:3], 2, message="Grid must be at least 2x2.")
        with ops.control_dependencies([enough] if enough is not None else []):
            columns, rows = array_ops.meshgrid(math_ops.range(shape[2]), math_ops.range(shape[1]))
        grid = math_ops.cast(array_ops.stack([rows, columns], axis=2), flow.dtype)
        points = array_ops.reshape(grid[array_ops.newaxis] - flow, [shape[0], shape[1] * shape[2], 2])
        warped = array_ops.reshape(interpolate_bilinear(image, points), shape)
        warped.set_shape(image.shape)
        return warped
