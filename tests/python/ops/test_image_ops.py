# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops on images give the values of closed forms and TensorFlow's errors."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf

RNG = np.random.RandomState(1)


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.local_variables_initializer())
        session.run(tf.tables_initializer())
        return session.run(fetches, feed)


IMAGE = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
BATCH = np.stack([IMAGE, IMAGE + 100])


def test_flips_and_turns() -> None:
    for image, axis in ((IMAGE, 0), (BATCH, 1)):
        np.testing.assert_array_equal(run(tf.image.flip_up_down(image)), np.flip(image, axis))
        np.testing.assert_array_equal(run(tf.image.flip_left_right(image)), np.flip(image, axis + 1))
        np.testing.assert_array_equal(
            run(tf.image.transpose_image(image)), np.swapaxes(image, axis, axis + 1)
        )
        for k in range(5):
            np.testing.assert_array_equal(run(tf.image.rot90(image, k)), np.rot90(image, k, (axis, axis + 1)))
    p = tf.placeholder(tf.float32)
    np.testing.assert_array_equal(run(tf.image.flip_left_right(p), {p: IMAGE}), IMAGE[:, ::-1])
    with pytest.raises(ValueError, match="'image' must be at least three-dimensional"):
        tf.image.flip_left_right(np.zeros([2, 2]))
    with pytest.raises(ValueError, match="'image' must have either 3 or 4 dimensions."):
        tf.image.rot90(np.zeros([1, 1, 1, 1, 1]))


def test_random_flips_keep_or_flip() -> None:
    with tf.Session() as session:
        flipped = tf.image.random_flip_left_right(IMAGE, seed=3)
        seen = {bool((session.run(flipped) == IMAGE).all()) for _ in range(40)}
        assert seen == {True, False}
        batch = tf.image.random_flip_up_down(np.stack([IMAGE] * 40), seed=3)
        same = (session.run(batch) == IMAGE).all(axis=(1, 2, 3))
        assert 5 < same.sum() < 35


def test_crops_and_pads() -> None:
    np.testing.assert_array_equal(run(tf.image.crop_to_bounding_box(IMAGE, 1, 1, 1, 2)), IMAGE[1:2, 1:3])
    padded = tf.image.pad_to_bounding_box(BATCH, 1, 2, 4, 7)
    assert padded.shape == [2, 4, 7, 3]
    np.testing.assert_array_equal(run(padded), np.pad(BATCH, [[0, 0], [1, 1], [2, 1], [0, 0]]))
    np.testing.assert_array_equal(
        run(tf.image.resize_image_with_crop_or_pad(IMAGE, 4, 2)),
        np.pad(IMAGE[:, 1:3], [[1, 1], [0, 0], [0, 0]]),
    )
    np.testing.assert_array_equal(run(tf.image.central_crop(IMAGE, 0.5)), IMAGE[:, 1:3])
    with pytest.raises(ValueError, match="central_fraction must be within \\(0, 1\\]"):
        tf.image.central_crop(IMAGE, 1.5)
    for args, text in (
        ((-1, 0, 1, 1), "offset_height must be >= 0"),
        ((0, 0, 0, 1), "target_height must be > 0"),
        ((0, 3, 1, 2), "width must be >= target \\+ offset"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.image.crop_to_bounding_box(IMAGE, *args)
    with pytest.raises(ValueError, match="height must be <= target - offset"):
        tf.image.pad_to_bounding_box(IMAGE, 1, 0, 2, 4)
    n = tf.placeholder(tf.int32, [])
    np.testing.assert_array_equal(run(tf.image.crop_to_bounding_box(IMAGE, 0, 0, n, 4), {n: 1}), IMAGE[:1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="height must be >= target \\+ offset"):
        run(tf.image.crop_to_bounding_box(IMAGE, 0, 0, n, 4), {n: 5})


def bilinear(image: Any, height: int, width: int, align: bool) -> Any:
    def axis(size: int, new: int) -> Any:
        scale = (size - 1) / (new - 1) if align and new > 1 else size / new
        at = np.arange(new) * scale
        low = np.floor(at).astype(int)
        return low, np.minimum(low + 1, size - 1), (at - low)

    y0, y1, dy = axis(image.shape[0], height)
    x0, x1, dx = axis(image.shape[1], width)
    dy, dx = dy[:, None, None], dx[None, :, None]
    top = image[y0][:, x0] * (1 - dx) + image[y0][:, x1] * dx
    bottom = image[y1][:, x0] * (1 - dx) + image[y1][:, x1] * dx
    return top * (1 - dy) + bottom * dy


@pytest.mark.parametrize("align", [False, True])
def test_resizes(align: bool) -> None:
    result = tf.image.resize_images(BATCH, [5, 3], align_corners=align)
    assert result.shape == [2, 5, 3, 3]
    np.testing.assert_allclose(run(result)[0], bilinear(IMAGE, 5, 3, align), rtol=1e-5)
    nearest = run(tf.image.resize_nearest_neighbor(BATCH, [4, 8], align_corners=False))
    np.testing.assert_array_equal(nearest, BATCH.repeat(2, 1).repeat(2, 2))
    area = run(tf.image.resize_area(BATCH, [1, 2]))
    np.testing.assert_allclose(area[0, 0], IMAGE.reshape(2, 2, 2, 3).mean((0, 2)))
    assert run(tf.image.resize_bicubic(BATCH, [4, 8])).shape == (2, 4, 8, 3)
    assert run(tf.image.resize(IMAGE, [3, 3], method=tf.image.ResizeMethod.BICUBIC)).shape == (3, 3, 3)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_bilinear_resizing_of_bytes_is_exact(channels: int) -> None:
    def taps(size: int, new_size: int) -> Any:
        place = np.arange(new_size, dtype=np.float32) * (np.float32(size) / np.float32(new_size))
        lower = np.floor(place).astype(np.int64)
        return lower, np.minimum(lower + 1, size - 1), (place - lower.astype(np.float32)).astype(np.float32)

    for height, width, new_height, new_width in ((5, 9, 8, 33), (17, 31, 6, 14), (3, 2, 4, 1), (8, 8, 8, 8)):
        images = RNG.randint(0, 256, [2, height, width, channels]).astype(np.uint8)
        x, (top, bottom, down) = images.astype(np.float32), taps(height, new_height)
        left, right, along = taps(width, new_width)
        along, down = along[None, None, :, None], down[None, :, None, None]
        above = x[:, top][:, :, left] + (x[:, top][:, :, right] - x[:, top][:, :, left]) * along
        below = x[:, bottom][:, :, left] + (x[:, bottom][:, :, right] - x[:, bottom][:, :, left]) * along
        resized = run(tf.image.resize_bilinear(tf.constant(images), [new_height, new_width]))
        np.testing.assert_array_equal(resized, above + (below - above) * down)


def test_resize_arguments() -> None:
    same = tf.image.resize_images(IMAGE, [2, 4])
    np.testing.assert_array_equal(run(same), IMAGE)
    assert tf.image.resize_images(IMAGE, [4, 4], preserve_aspect_ratio=True).shape.as_list()[-1] == 3
    assert run(tf.image.resize_images(IMAGE, [4, 4], preserve_aspect_ratio=True)).shape == (2, 4, 3)
    assert run(tf.image.resize_image_with_pad(IMAGE, 4, 4)).shape == (4, 4, 3)
    for images, size, text in (
        (tf.placeholder(tf.float32), [2, 2], "'images' contains no shape."),
        (np.zeros([2, 2]), [2, 2], "'images' must have either 3 or 4 dimensions."),
        (IMAGE, [2, 2, 2], "'size' must be a 1-D Tensor of 2 elements"),
        (IMAGE, [2.5, 1.0], "'size' must be a 1-D int32 Tensor"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.image.resize_images(images, size)
    with pytest.raises(ValueError, match="Resize method is not implemented"):
        tf.image.resize_images(IMAGE, [3, 3], method=17)


def test_types_of_images() -> None:
    u8 = np.array([[[0, 128, 255]]], np.uint8)
    np.testing.assert_allclose(run(tf.image.convert_image_dtype(u8, tf.float32)), u8 / 255.0, rtol=1e-6)
    np.testing.assert_array_equal(run(tf.image.convert_image_dtype(u8 / 255.0, tf.uint8)), u8)
    np.testing.assert_array_equal(run(tf.image.convert_image_dtype(u8, tf.uint16)), u8.astype(int) * 256)
    np.testing.assert_array_equal(run(tf.image.convert_image_dtype(np.uint16(u8) * 256, tf.uint8)), u8)
    np.testing.assert_array_equal(
        run(tf.image.convert_image_dtype([[[-1.0, 2.0]]], tf.uint8, saturate=True)), [[[0, 255]]]
    )
    with pytest.raises(AttributeError, match="dtype must be either floating point or integer"):
        tf.image.convert_image_dtype(u8, tf.bool)


def test_colours() -> None:
    image = RNG.rand(3, 4, 3).astype(np.float32)
    np.testing.assert_allclose(run(tf.image.adjust_brightness(image, 0.1)), image + 0.1, rtol=1e-6)
    mean = image.mean((0, 1), keepdims=True)
    np.testing.assert_allclose(
        run(tf.image.adjust_contrast(image, 2.0)), (image - mean) * 2 + mean, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(run(tf.image.adjust_gamma(image, 2.0, 0.5)), 0.5 * image**2, rtol=1e-5)
    np.testing.assert_allclose(
        run(tf.image.rgb_to_grayscale(image))[..., 0], image @ [0.2989, 0.5870, 0.1140], rtol=1e-5
    )
    np.testing.assert_array_equal(run(tf.image.grayscale_to_rgb(image[..., :1])), image[..., :1].repeat(3, 2))
    np.testing.assert_allclose(run(tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(image))), image, atol=1e-5)
    np.testing.assert_allclose(run(tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(image))), image, atol=1e-4)
    np.testing.assert_allclose(run(tf.image.yiq_to_rgb(tf.image.rgb_to_yiq(image))), image, atol=1e-4)
    np.testing.assert_allclose(run(tf.image.adjust_hue(image, 0.0)), image, atol=1e-5)
    np.testing.assert_allclose(run(tf.image.adjust_hue(image, 1.0 / 3)), image[..., [2, 0, 1]], atol=1e-4)
    np.testing.assert_allclose(run(tf.image.adjust_saturation(image, 1.0)), image, atol=1e-5)
    grey = run(tf.image.adjust_saturation(image, 0.0))
    np.testing.assert_allclose(grey, image.max(-1, keepdims=True).repeat(3, 2), atol=1e-5)
    standard = run(tf.image.per_image_standardization(image))
    assert abs(standard.mean()) < 1e-5 and abs(standard.std() - 1) < 1e-4
    for fn, args in (
        (tf.image.random_brightness, (0.1,)),
        (tf.image.random_contrast, (0.5, 1.5)),
        (tf.image.random_hue, (0.1,)),
        (tf.image.random_saturation, (0.5, 1.5)),
    ):
        assert run(fn(image, *args)).shape == image.shape
    with pytest.raises(ValueError, match="max_delta must be non-negative."):
        tf.image.random_brightness(image, -0.1)
    with pytest.raises(ValueError, match="upper must be > lower."):
        tf.image.random_contrast(image, 2.0, 1.0)
    with pytest.raises(ValueError, match="max_delta must be <= 0.5."):
        tf.image.random_hue(image, 0.6)


def test_codecs() -> None:
    image = np.add.outer(np.add.outer(np.arange(5), np.arange(6)), [100, 110, 120]).astype(np.uint8)
    png, jpeg = tf.image.encode_png(image), tf.image.encode_jpeg(image, quality=95)
    np.testing.assert_array_equal(run(tf.image.decode_png(png)), image)
    np.testing.assert_array_equal(run(tf.image.decode_image(png)), image)
    assert np.abs(run(tf.image.decode_jpeg(jpeg)).astype(int) - image).mean() < 3
    assert run(tf.image.decode_image(jpeg)).shape == (5, 6, 3)
    assert run(tf.image.decode_png(png, channels=1)).shape == (5, 6, 1)
    assert run(tf.image.extract_jpeg_shape(jpeg)).tolist() == [5, 6, 3]
    assert run([tf.image.is_jpeg(jpeg), tf.image.is_jpeg(png)]) == [True, False]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="Unable to decode bytes as JPEG, PNG, GIF, or BMP"
    ):
        run(tf.image.decode_image(b"none of these"))
    with pytest.raises(ValueError, match="channels must be in \\(None, 0, 1, 3, 4\\)"):
        tf.image.decode_image(png, channels=2)
    assert run(tf.image.adjust_jpeg_quality(image / 255.0, 90)).shape == (5, 6, 3)


def test_boxes() -> None:
    boxes = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]])
    scores = np.float32([0.9, 0.75, 0.6])
    assert run(tf.image.non_max_suppression(boxes, scores, 3, 0.5)).tolist() == [0, 2]
    assert run(tf.image.non_max_suppression(boxes, scores, 3, 0.5, 0.7)).tolist() == [0]
    selected, valid = run(
        tf.image.non_max_suppression_padded(boxes, scores, 3, 0.5, pad_to_max_output_size=True)
    )
    assert selected.tolist() == [0, 2, 0] and valid == 2
    indices, soft = run(tf.image.non_max_suppression_with_scores(boxes, scores, 3, 0.5))
    assert indices.tolist() == [0, 2] and soft.tolist() == pytest.approx([0.9, 0.6])
    crops = run(tf.image.crop_and_resize(BATCH, [[0, 0, 1, 1]], [1], [2, 4]))
    np.testing.assert_allclose(crops[0], BATCH[1], rtol=1e-6)
    drawn = run(tf.image.draw_bounding_boxes(np.zeros([1, 5, 5, 3], np.float32), [[[0.0, 0.0, 1.0, 1.0]]]))
    assert drawn[0, 0].any() and not drawn[0, 2, 2].any()
    begin, size, box = run(
        tf.image.sample_distorted_bounding_box(
            [20, 30, 3],
            np.zeros([1, 0, 4], np.float32),
            use_image_if_no_bounding_boxes=True,
            min_object_covered=0.5,
        )
    )
    assert box.shape == (1, 1, 4) and (begin[:2] + size[:2] <= [20, 30]).all() and size[2] == -1
    glimpse = run(tf.image.extract_glimpse(BATCH, [2, 2], [[0.0, 0.0]] * 2))
    assert glimpse.shape == (2, 2, 2, 3)


def test_measures() -> None:
    a = RNG.rand(2, 16, 16, 3).astype(np.float32)
    b = np.clip(a + 0.1 * RNG.randn(*a.shape), 0, 1).astype(np.float32)
    np.testing.assert_allclose(
        run(tf.image.psnr(a, b, 1.0)), -10 * np.log10(((a - b) ** 2).mean((1, 2, 3))), rtol=1e-4
    )
    np.testing.assert_allclose(run(tf.image.ssim(a, a, 1.0)), [1, 1], rtol=1e-5)
    assert (run(tf.image.ssim(a, b, 1.0)) < 1).all()
    big = RNG.rand(1, 180, 180, 1).astype(np.float32)
    np.testing.assert_allclose(run(tf.image.ssim_multiscale(big, big, 1.0)), [1], rtol=1e-4)
    tv = np.abs(np.diff(a, axis=1)).sum((1, 2, 3)) + np.abs(np.diff(a, axis=2)).sum((1, 2, 3))
    np.testing.assert_allclose(run(tf.image.total_variation(tf.constant(a))), tv, rtol=1e-5)
    dy, dx = run(tf.image.image_gradients(tf.constant(a)))
    np.testing.assert_allclose(dy[:, :-1], np.diff(a, axis=1), rtol=1e-5)
    np.testing.assert_allclose(dx[:, :, :-1], np.diff(a, axis=2), rtol=1e-5)
    assert not dy[:, -1].any()
    edges = run(tf.image.sobel_edges(tf.constant(a)))
    padded = np.pad(a, [[0, 0], [1, 1], [1, 1], [0, 0]], "reflect")
    rows = padded[:, 2:] - padded[:, :-2]
    np.testing.assert_allclose(
        edges[..., 0], rows[:, :, :-2] + 2 * rows[:, :, 1:-1] + rows[:, :, 2:], atol=1e-4
    )
    with pytest.raises(ValueError, match="'images' must be either 3 or 4-dimensional."):
        tf.image.total_variation(tf.zeros([2]))


def test_gradients_of_images() -> None:
    x = tf.constant(IMAGE)
    (grad,) = tf.gradients(tf.reduce_sum(tf.image.resize_images(x, [4, 8])), x)
    np.testing.assert_allclose(run(tf.reduce_sum(grad)), 4 * 8 * 3, rtol=1e-5)
    (grad,) = tf.gradients(tf.image.flip_left_right(x)[0, 0, 0], x)
    assert run(grad)[0, 3, 0] == 1
