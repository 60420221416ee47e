# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures of images and of pairs of images; gradients and edges."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from millrace.python.framework import constant_op, dtypes, ops
from millrace.python.ops import array_ops, control_flow_ops, math_ops, nn_ops
from millrace.python.ops._image_color import convert_image_dtype, gen_relu

_SSIM_K1 = 0.01
_SSIM_K2 = 0.03
_MSSSIM_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def total_variation(images: Any, name: Optional[str] = None) -> Any:
    """Returns the sum of the differences of neighbours in an image, or for each of a batch.

    Raises:
      ValueError: the rank is neither 3 nor 4.
    """
    with ops.name_scope(name, "total_variation"):
        images = ops.convert_to_tensor(images)
        ndims = images.get_shape().ndims
        if ndims == 3:
            pixel_dif1 = images[1:, :, :] - images[:-1, :, :]
            pixel_dif2 = images[:, 1:, :] - images[:, :-1, :]
            sum_axis = None
        elif ndims == 4:
            pixel_dif1 = images[:, 1:, :, :] - images[:, :-1, :, :]
            pixel_dif2 = images[:, :, 1:, :] - images[:, :, :-1, :]
            sum_axis = [1, 2, 3]
        else:
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        return math_ops.reduce_sum(math_ops.abs(pixel_dif1), axis=sum_axis) + math_ops.reduce_sum(
            math_ops.abs(pixel_dif2), axis=sum_axis
        )


def _verify_compatible_image_shapes(img1: Any, img2: Any) -> Any:
    """Returns (shape of img1, shape of img2, asserts that the images may be compared)."""
    shape1 = img1.get_shape().with_rank_at_least(3)
    shape2 = img2.get_shape().with_rank_at_least(3)
    shape1[-3:].assert_is_compatible_with(shape2[-3:])
    if shape1.ndims is not None and shape2.ndims is not None:
        for dim1, dim2 in zip(reversed(shape1.dims[:-3]), reversed(shape2.dims[:-3])):
            if not (dim1 == 1 or dim2 == 1 or dim1.is_compatible_with(dim2)):
                raise ValueError("Two images are not compatible: %s and %s" % (shape1, shape2))
    shape1, shape2 = array_ops.shape_n([img1, img2])
    checks = [
        control_flow_ops.Assert(
            math_ops.greater_equal(array_ops.size(shape1), 3), [shape1, shape2], summarize=10
        ),
        control_flow_ops.Assert(
            math_ops.reduce_all(math_ops.equal(shape1[-3:], shape2[-3:])), [shape1, shape2], summarize=10
        ),
    ]
    return shape1, shape2, checks


def psnr(a: Any, b: Any, max_val: Any, name: Optional[str] = None) -> Any:
    """Returns the peak signal-to-noise ratio, in decibels, of two batches of images [..., h, w, d]."""
    with ops.name_scope(name, "PSNR", [a, b]):
        a, b = ops.convert_to_tensor(a, name="a"), ops.convert_to_tensor(b, name="b")
        max_val = math_ops.cast(max_val, a.dtype)
        max_val = convert_image_dtype(max_val, dtypes.float32)
        a = convert_image_dtype(a, dtypes.float32)
        b = convert_image_dtype(b, dtypes.float32)
        mse = math_ops.reduce_mean(math_ops.squared_difference(a, b), [-3, -2, -1])
        psnr_val = math_ops.subtract(
            20 * math_ops.log(max_val) / math_ops.log(10.0),
            np.float32(10 / np.log(10)) * math_ops.log(mse),
            name="psnr",
        )
        _, _, checks = _verify_compatible_image_shapes(a, b)
        with ops.control_dependencies(checks):
            return array_ops.identity(psnr_val)


def _ssim_helper(
    x: Any,
    y: Any,
    reducer: Any,
    max_val: Any,
    compensation: float = 1.0,
    k1: Any = _SSIM_K1,
    k2: Any = _SSIM_K2,
) -> Any:
    """Returns (luminance, contrast and structure): the two factors of SSIM."""
    c1 = (k1 * max_val) ** 2
    c2 = (k2 * max_val) ** 2
    mean0, mean1 = reducer(x), reducer(y)
    num0 = mean0 * mean1 * 2.0
    den0 = math_ops.square(mean0) + math_ops.square(mean1)
    luminance = (num0 + c1) / (den0 + c1)
    num1 = reducer(x * y) * 2.0
    den1 = reducer(math_ops.square(x) + math_ops.square(y))
    c2 *= compensation
    return luminance, (num1 - num0 + c2) / (den1 - den0 + c2)


def _fspecial_gauss(size: Any, sigma: Any) -> Any:
    """Returns a Gaussian kernel [size, size, 1, 1] that sums to 1."""
    size = ops.convert_to_tensor(size, dtypes.int32)
    sigma = ops.convert_to_tensor(sigma)
    coords = math_ops.cast(math_ops.range(size), sigma.dtype)
    coords -= math_ops.cast(size - 1, sigma.dtype) / 2.0
    g = math_ops.square(coords)
    g *= -0.5 / math_ops.square(sigma)
    g = array_ops.reshape(g, shape=[1, -1]) + array_ops.reshape(g, shape=[-1, 1])
    g = nn_ops.softmax(array_ops.reshape(g, shape=[1, -1]))
    return array_ops.reshape(g, shape=[size, size, 1, 1])


def _ssim_per_channel(
    img1: Any,
    img2: Any,
    max_val: Any = 1.0,
    filter_size: Any = 11,
    filter_sigma: Any = 1.5,
    k1: Any = 0.01,
    k2: Any = 0.03,
) -> Any:
    """Returns (SSIM, its contrast and structure) for each channel, [..., channels]."""
    from millrace.python.ops import nn_impl

    filter_size = constant_op.constant(filter_size, dtype=dtypes.int32)
    filter_sigma = constant_op.constant(filter_sigma, dtype=img1.dtype)
    shape1, shape2 = array_ops.shape_n([img1, img2])
    checks = [
        control_flow_ops.Assert(
            math_ops.reduce_all(math_ops.greater_equal(shape[-3:-1], filter_size)),
            [shape, filter_size],
            summarize=8,
        )
        for shape in (shape1, shape2)
    ]
    with ops.control_dependencies(checks):
        img1 = array_ops.identity(img1)
    kernel = _fspecial_gauss(filter_size, filter_sigma)
    kernel = array_ops.tile(kernel, multiples=[1, 1, shape1[-1], 1])
    # The covariance is not corrected for bias.
    compensation = 1.0

    def reducer(x: Any) -> Any:
        shape = array_ops.shape(x)
        x = array_ops.reshape(x, shape=array_ops.concat([[-1], shape[-3:]], 0))
        y = nn_impl.depthwise_conv2d(x, kernel, strides=[1, 1, 1, 1], padding="VALID")
        return array_ops.reshape(y, array_ops.concat([shape[:-3], array_ops.shape(y)[1:]], 0))

    luminance, cs = _ssim_helper(img1, img2, reducer, max_val, compensation, k1, k2)
    axes = constant_op.constant([-3, -2], dtype=dtypes.int32)
    return math_ops.reduce_mean(luminance * cs, axes), math_ops.reduce_mean(cs, axes)


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: Any = 11,
    filter_sigma: Any = 1.5,
    k1: Any = 0.01,
    k2: Any = 0.03,
) -> Any:
    """Returns the structural similarity of images [..., height, width, channels], one number for each pair."""
    with ops.name_scope(None, "SSIM", [img1, img2]):
        img1 = ops.convert_to_tensor(img1, name="img1")
        img2 = ops.convert_to_tensor(img2, name="img2")
        _, _, checks = _verify_compatible_image_shapes(img1, img2)
        with ops.control_dependencies(checks):
            img1 = array_ops.identity(img1)
        max_val = math_ops.cast(max_val, img1.dtype)
        max_val = convert_image_dtype(max_val, dtypes.float32)
        img1 = convert_image_dtype(img1, dtypes.float32)
        img2 = convert_image_dtype(img2, dtypes.float32)
        per_channel, _ = _ssim_per_channel(img1, img2, max_val, filter_size, filter_sigma, k1, k2)
        return math_ops.reduce_mean(per_channel, [-1])


def _halve(images: list[Any], divisor: list[int], divisor_tensor: Any) -> list[Any]:
    """Halves the height and the width of images, odd ones mirrored at the end."""
    shapes = array_ops.shape_n(images)
    flat = [array_ops.reshape(x, array_ops.concat([[-1], t[-3:]], 0)) for x, t in zip(images, shapes)]
    remainder = shapes[0][-3:] % divisor_tensor
    need_padding = math_ops.reduce_any(math_ops.not_equal(remainder, 0))

    def padded() -> list[Any]:
        paddings = array_ops.pad(
            array_ops.stack([array_ops.zeros_like(remainder), remainder], axis=-1), [[1, 0], [0, 0]]
        )
        return [array_ops.pad(x, paddings, mode="SYMMETRIC") for x in flat]

    flat = control_flow_ops.cond(need_padding, padded, lambda: [array_ops.identity(x) for x in flat])
    window = [1] + divisor
    halved = [nn_ops.avg_pool(x, ksize=window, strides=window, padding="VALID") for x in flat]
    return [
        array_ops.reshape(x, array_ops.concat([head[:-3], tail[1:]], 0))
        for x, head, tail in zip(halved, shapes, array_ops.shape_n(halved))
    ]


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Any = _MSSSIM_WEIGHTS,
    filter_size: Any = 11,
    filter_sigma: Any = 1.5,
    k1: Any = 0.01,
    k2: Any = 0.03,
) -> Any:
    """Returns the similarity of images over the same number of scales as there are `power_factors`."""
    with ops.name_scope(None, "MS-SSIM", [img1, img2]):
        img1 = ops.convert_to_tensor(img1, name="img1")
        img2 = ops.convert_to_tensor(img2, name="img2")
        shape1, shape2, checks = _verify_compatible_image_shapes(img1, img2)
        with ops.control_dependencies(checks):
            img1 = array_ops.identity(img1)
        max_val = math_ops.cast(max_val, img1.dtype)
        max_val = convert_image_dtype(max_val, dtypes.float32)
        imgs = [convert_image_dtype(img1, dtypes.float32), convert_image_dtype(img2, dtypes.float32)]
        divisor = [1, 2, 2, 1][1:]
        divisor_tensor = constant_op.constant(divisor, dtype=dtypes.int32)
        mcs: list[Any] = []
        ssim_per_channel = None
        for k in range(len(power_factors)):
            with ops.name_scope(None, "Scale%d" % k, imgs):
                if k > 0:
                    imgs = _halve(imgs, divisor, divisor_tensor)
                ssim_per_channel, cs = _ssim_per_channel(
                    imgs[0],
                    imgs[1],
                    max_val=max_val,
                    filter_size=filter_size,
                    filter_sigma=filter_sigma,
                    k1=k1,
                    k2=k2,
                )
                mcs.append(gen_relu(cs))
        # The luminance counts at the last scale only.
        mcs.pop()
        mcs_and_ssim = array_ops.stack(mcs + [gen_relu(ssim_per_channel)], axis=-1)
        return math_ops.reduce_mean(
            math_ops.reduce_prod(math_ops.pow(mcs_and_ssim, power_factors), [-1]), [-1]
        )


def image_gradients(image: Any) -> Any:
    """Returns (dy, dx) of images [batch, h, w, d]: differences to the next row and column, the last being 0.

    Raises:
      ValueError: the rank is not 4.
    """
    image = ops.convert_to_tensor(image)
    if image.get_shape().ndims != 4:
        raise ValueError(
            "image_gradients expects a 4D tensor [batch_size, h, w, d], not {}.".format(image.get_shape())
        )
    batch_size, height, width, depth = array_ops.unstack(array_ops.shape(image))
    dy = image[:, 1:, :, :] - image[:, :-1, :, :]
    dx = image[:, :, 1:, :] - image[:, :, :-1, :]
    dy = array_ops.concat(
        [dy, array_ops.zeros(array_ops.stack([batch_size, 1, width, depth]), image.dtype)], 1
    )
    dy = array_ops.reshape(dy, array_ops.shape(image))
    dx = array_ops.concat(
        [dx, array_ops.zeros(array_ops.stack([batch_size, height, 1, depth]), image.dtype)], 2
    )
    dx = array_ops.reshape(dx, array_ops.shape(image))
    return dy, dx


def sobel_edges(image: Any) -> Any:
    """Returns the Sobel edges [batch, h, w, d, 2] (dy, dx) of float images [batch, h, w, d]."""
    from millrace.python.ops import nn_impl

    image = ops.convert_to_tensor(image)
    static_shape = image.get_shape()
    image_shape = array_ops.shape(image)
    kernels = [[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]
    num_kernels = len(kernels)
    stacked = np.expand_dims(np.transpose(np.asarray(kernels), (1, 2, 0)), -2)
    kernels_tf = constant_op.constant(stacked, dtype=image.dtype)
    kernels_tf = array_ops.tile(kernels_tf, [1, 1, image_shape[-1], 1], name="sobel_filters")
    padded = array_ops.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    output = nn_impl.depthwise_conv2d(padded, kernels_tf, [1, 1, 1, 1], "VALID")
    output = array_ops.reshape(output, shape=array_ops.concat([image_shape, [num_kernels]], 0))
    output.set_shape(static_shape.concatenate([num_kernels]))
    return output
