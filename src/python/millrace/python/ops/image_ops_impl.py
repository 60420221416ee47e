# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops on images: the home of the names in tf.image."""
from __future__ import annotations

from typing import Any, Optional

from millrace.python.ops import gen_image_ops
from millrace.python.ops._image_boxes import (  # noqa: F401
    combined_non_max_suppression,
    draw_bounding_boxes,
    draw_bounding_boxes_v2,
    extract_glimpse,
    extract_glimpse_v2,
    generate_bounding_box_proposals,
    non_max_suppression,
    non_max_suppression_overlaps,
    non_max_suppression_padded,
    non_max_suppression_with_overlaps,
    non_max_suppression_with_scores,
    sample_distorted_bounding_box,
    sample_distorted_bounding_box_v2,
)
from millrace.python.ops._image_checks import (  # noqa: F401
    _assert,
    _Assert3DImage,
    _AssertAtLeast3DImage,
    _AssertGrayscaleImage,
    _Check3DImage,
    _CheckAtLeast3DImage,
    _CheckGrayscaleImage,
    _ImageDimensions,
    _is_tensor,
    fix_image_flip_shape,
)
from millrace.python.ops._image_codecs import _is_png, decode_image, encode_png, is_jpeg  # noqa: F401
from millrace.python.ops._image_color import (  # noqa: F401
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_jpeg_quality,
    adjust_saturation,
    convert_image_dtype,
    grayscale_to_rgb,
    per_image_standardization,
    random_brightness,
    random_contrast,
    random_hue,
    random_jpeg_quality,
    random_saturation,
    rgb_to_grayscale,
    rgb_to_yiq,
    rgb_to_yuv,
    yiq_to_rgb,
    yuv_to_rgb,
)
from millrace.python.ops._image_quality import (  # noqa: F401
    _fspecial_gauss,
    _ssim_helper,
    _ssim_per_channel,
    _verify_compatible_image_shapes,
    image_gradients,
    psnr,
    sobel_edges,
    ssim,
    ssim_multiscale,
    total_variation,
)
from millrace.python.ops._image_resize import (  # noqa: F401
    ResizeMethod,
    ResizeMethodV1,
    _resize_image_with_pad_common,
    _resize_images_common,
    crop_and_resize,
    crop_and_resize_v1,
    crop_and_resize_v2,
    resize_image_with_pad,
    resize_image_with_pad_v1,
    resize_image_with_pad_v2,
    resize_images,
    resize_images_v1,
    resize_images_v2,
)
from millrace.python.ops._image_shapes import (  # noqa: F401
    _random_flip,
    central_crop,
    crop_to_bounding_box,
    flip_left_right,
    flip_up_down,
    pad_to_bounding_box,
    random_flip_left_right,
    random_flip_up_down,
    resize_image_with_crop_or_pad,
    resize_with_crop_or_pad,
    rot90,
    transpose,
    transpose_image,
)

decode_and_crop_jpeg = gen_image_ops.decode_and_crop_jpeg
decode_bmp = gen_image_ops.decode_bmp
decode_gif = gen_image_ops.decode_gif
decode_jpeg = gen_image_ops.decode_jpeg
decode_png = gen_image_ops.decode_png
encode_jpeg = gen_image_ops.encode_jpeg
extract_jpeg_shape = gen_image_ops.extract_jpeg_shape
rgb_to_hsv = gen_image_ops.rgb_to_hsv
hsv_to_rgb = gen_image_ops.hsv_to_rgb


def resize_bilinear(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: Optional[str] = None,
    half_pixel_centers: bool = False,
) -> Any:
    """Resizes `images` [batch, h, w, c] to `size`, int32 [2], by bilinear interpolation."""
    return gen_image_ops.resize_bilinear(
        images=images,
        size=size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )


def resize_nearest_neighbor(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: Optional[str] = None,
    half_pixel_centers: bool = False,
) -> Any:
    """Resizes `images` [batch, h, w, c] to `size`, int32 [2], by the nearest pixel."""
    return gen_image_ops.resize_nearest_neighbor(
        images=images,
        size=size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )


def resize_bicubic(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: Optional[str] = None,
    half_pixel_centers: bool = False,
) -> Any:
    """Resizes `images` [batch, h, w, c] to `size`, int32 [2], by bicubic interpolation."""
    return gen_image_ops.resize_bicubic(
        images=images,
        size=size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )


def resize_area(images: Any, size: Any, align_corners: bool = False, name: Optional[str] = None) -> Any:
    """Resizes `images` [batch, h, w, c] to `size`, int32 [2], by averages of the covered pixels."""
    return gen_image_ops.resize_area(images=images, size=size, align_corners=align_corners, name=name)


resize_bilinear_v1 = resize_bilinear
resize_nearest_neighbor_v1 = resize_nearest_neighbor
resize_bicubic_v1 = resize_bicubic
