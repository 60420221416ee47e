# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Quantized products and convolutions with what follows them, beside NumPy's in floating point."""
import numpy as np
import pytest

import millrace as tf
from millrace.python.ops import gen_math_ops, gen_nn_ops

QUINT8, QINT8, QINT32 = tf.quint8, tf.qint8, tf.qint32


def raw(type_):
    return {QUINT8: np.uint8, QINT8: np.int8, QINT32: np.int32}[type_]


def quantized(values, type_):
    """A tensor of quantized integers."""
    return tf.bitcast(tf.constant(np.asarray(values).astype(raw(type_))), type_)


def integers(tensor):
    return tf.bitcast(tensor, {QUINT8: tf.uint8, QINT8: tf.int8, QINT32: tf.int32}[tensor.dtype])


def op(name):
    module = gen_nn_ops if hasattr(gen_nn_ops, name) else gen_math_ops
    return getattr(module, name)


def convolve(images, filters, depthwise=False, stride=1, dilation=1, margins=None, same=False):
    """The convolution by its definition; images and filters of float64."""
    n, h, w, _ = images.shape
    fh, fw, depth, k = filters.shape
    sh, sw = (fh - 1) * dilation + 1, (fw - 1) * dilation + 1
    if same:
        oh, ow = -(-h // stride), -(-w // stride)
        th, tw = max((oh - 1) * stride + sh - h, 0), max((ow - 1) * stride + sw - w, 0)
        margins = (th // 2, th - th // 2, tw // 2, tw - tw // 2)
    top, bottom, left, right = margins or (0, 0, 0, 0)
    padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), "constant")
    oh, ow = (padded.shape[1] - sh) // stride + 1, (padded.shape[2] - sw) // stride + 1
    out = np.zeros((n, oh, ow, depth * k if depthwise else k))
    for y in range(oh):
        for x in range(ow):
            window = padded[
                :, y * stride : y * stride + sh : dilation, x * stride : x * stride + sw : dilation
            ]
            if depthwise:
                out[:, y, x] = np.einsum("nijd,ijdk->ndk", window, filters).reshape(n, -1)
            else:
                out[:, y, x] = np.einsum("nijd,ijdk->nk", window, filters)
    return out


class Case:
    """Images and filters as integers with their ranges, and the numbers that those represent."""

    def __init__(self, type_, depthwise=False, channels=False, seed=0):
        random = np.random.RandomState(seed)
        low, high = (0, 256) if type_ == QUINT8 else (-127, 128)
        self.type, self.depthwise = type_, depthwise
        self.images = random.randint(low, high, (2, 6, 5, 3))
        self.filters = random.randint(-127, 128, (3, 2, 3, 4))
        self.channels = 12 if depthwise else 4
        self.most = np.float32(2.5)
        self.filter_most = (
            np.linspace(0.5, 1.5, self.channels).astype(np.float32) if channels else np.float32(0.75)
        )
        self.bias = random.uniform(-2, 2, self.channels).astype(np.float32)
        self.image_numbers = self.images * (float(self.most) / (255 if type_ == QUINT8 else 127))
        step = self.filter_most.astype(np.float64) / 127
        self.filter_numbers = self.filters * (step.reshape(3, 4) if depthwise and channels else step)
        self.step = float(self.most) / (255 if type_ == QUINT8 else 127) * step

    def run(
        self,
        name,
        *more,
        bias=None,
        out_type=None,
        narrow_range=None,
        stride=1,
        dilation=1,
        padding="VALID",
        **attrs,
    ):
        ranges = [0.0 if self.type == QUINT8 else -self.most, self.most, -self.filter_most, self.filter_most]
        inputs = [quantized(self.images, self.type), quantized(self.filters, QINT8)]
        inputs += [] if bias is None else [bias]
        inputs += ranges + list(narrow_range or []) + list(more)
        out = op(name)(
            *inputs,
            out_type=out_type,
            strides=[1, stride, stride, 1],
            padding=padding,
            dilations=[1, dilation, dilation, 1],
            **attrs,
        )
        with tf.Session() as sess:
            return sess.run([integers(out[0]), out[1], out[2]])

    def expected(self, **kwargs):
        return convolve(self.image_numbers, self.filter_numbers, self.depthwise, **kwargs)


def numbers(result, step):
    """The numbers that 32-bit integers represent; checks that the range agrees."""
    values, low, high = result
    np.testing.assert_allclose(np.asarray(high, np.float64), step * (2**31 - 1), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(low, np.float64), -step * 2**31, rtol=1e-5)
    return values * step


@pytest.mark.parametrize("type_", [QUINT8, QINT8])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("kwargs", [{}, {"stride": 2}, {"dilation": 2}, {"padding": "SAME", "stride": 2}])
def test_convolution_of_ranges_of_channels(type_, channels, kwargs):
    case = Case(type_, channels=channels)
    got = numbers(case.run("quantized_conv2d_per_channel", out_type=QINT32, **kwargs), case.step)
    kwargs = dict(kwargs)
    same = kwargs.pop("padding", "VALID") == "SAME"
    np.testing.assert_allclose(got, case.expected(same=same, **kwargs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("channels", [False, True])
def test_bias(relu, depthwise, channels):
    case = Case(QUINT8, depthwise, channels)
    name = f"quantized_{'depthwise_' if depthwise else ''}conv2d_with_bias{'_and_relu' if relu else ''}"
    got = numbers(case.run(name, bias=case.bias, out_type=QINT32), case.step)
    expected = case.expected() + case.bias
    # The bias is rounded to a step.
    np.testing.assert_allclose(got, np.maximum(expected, 0) if relu else expected, atol=np.max(case.step))


def test_margins():
    case = Case(QUINT8)
    got = case.run("quantized_conv2d_and_relu", out_type=QINT32, padding_list=[0, 0, 1, 2, 3, 0, 0, 0])
    expected = np.maximum(case.expected(margins=(1, 2, 3, 0)), 0)
    np.testing.assert_allclose(numbers(got, case.step), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="padding_list must have 8 entries"):
        case.run("quantized_conv2d_and_relu", out_type=QINT32, padding_list=[1, 2])


def test_depthwise_alone():
    case = Case(QUINT8, depthwise=True)
    got = numbers(case.run("quantized_depthwise_conv2d", out_type=QINT32), case.step)
    np.testing.assert_allclose(got, case.expected(), rtol=1e-5, atol=1e-5)


def narrow(numbers_, type_, most):
    limit = 255 if type_ == QUINT8 else 127
    return np.clip(np.rint(numbers_ * limit / most), 0 if type_ == QUINT8 else -128, limit)


@pytest.mark.parametrize(
    "name, out_type, relu, bias, depthwise",
    [
        ("quantized_conv2d_and_requantize", QINT8, False, False, False),
        ("quantized_conv2d_and_relu_and_requantize", QUINT8, True, False, False),
        ("quantized_conv2d_with_bias_and_requantize", QINT8, False, True, False),
        ("quantized_conv2d_with_bias_and_relu_and_requantize", QUINT8, True, True, False),
        ("quantized_depthwise_conv2d_with_bias_and_relu_and_requantize", QUINT8, True, True, True),
    ],
)
@pytest.mark.parametrize("channels", [False, True])
def test_few_bits_again(name, out_type, relu, bias, depthwise, channels):
    case = Case(QUINT8, depthwise, channels)
    most = 9.0
    low = 0.0 if out_type == QUINT8 else -most
    values, got_low, got_high = case.run(
        name, bias=case.bias if bias else None, out_type=out_type, narrow_range=[low, most]
    )
    expected = case.expected() + (case.bias if bias else 0)
    if relu:
        expected = np.maximum(expected, 0)
    assert (got_low, got_high) == (low, most)
    assert np.abs(values - narrow(expected, out_type, most)).max() <= 1
    assert len(np.unique(values)) > 10


def test_a_bias_of_integers():
    case = Case(QUINT8)
    bias = np.array([1000, -2000, 0, 30000])
    got = case.run(
        "quantized_conv2d_with_bias_and_requantize",
        bias=quantized(bias, QINT32),
        out_type=QINT8,
        narrow_range=[-9.0, 9.0],
    )[0]
    assert np.abs(got - narrow(case.expected() + bias * case.step, QINT8, 9.0)).max() <= 1


def test_a_tensor_added():
    case = Case(QUINT8)
    shape = case.expected().shape
    random = np.random.RandomState(3)
    more = random.uniform(-3, 3, shape).astype(np.float32)
    got = case.run("quantized_conv2d_with_bias_sum_and_relu", more, bias=case.bias, out_type=QINT32)
    expected = np.maximum(case.expected() + case.bias + more, 0)
    np.testing.assert_allclose(numbers(got, case.step), expected, atol=2 * case.step)
    for name, type_, low, high, most in [
        ("quantized_conv2d_with_bias_sum_and_relu_and_requantize", QUINT8, 0, 256, 3.0),
        ("quantized_conv2d_with_bias_signed_sum_and_relu_and_requantize", QINT8, -127, 128, 4.0),
    ]:
        steps = random.randint(low, high, shape)
        got = case.run(
            name,
            quantized(steps, type_),
            -most,
            most,
            bias=case.bias,
            out_type=QUINT8,
            narrow_range=[0.0, 9.0],
        )[0]
        expected = case.expected() + case.bias + steps * (most / (high - 1))
        assert np.abs(got - narrow(np.maximum(expected, 0), QUINT8, 9.0)).max() <= 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="summand must have the shape of the output"):
        case.run("quantized_conv2d_with_bias_sum_and_relu", more[:, :1], bias=case.bias, out_type=QINT32)


@pytest.mark.parametrize("mode, low", [("SCALED", 0.0), ("MIN_FIRST", -1.0)])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_products(mode, low, relu, transposed):
    random = np.random.RandomState(4)
    a, b = random.randint(0, 256, (3, 7)), random.randint(-127, 128, (7, 5))
    bias = random.uniform(-1, 1, 5).astype(np.float32)
    high, most = 2.0, 0.5
    a_numbers, b_numbers = a * ((high - low) / 255) + low, b * (most / 127)
    expected = a_numbers @ b_numbers + bias
    if relu:
        expected = np.maximum(expected, 0)
    name = "quantized_mat_mul_with_bias" + ("_and_relu" if relu else "")
    out = op(name)(
        quantized(a.T if transposed else a, QUINT8),
        quantized(b.T if transposed else b, QINT8),
        bias,
        low,
        high,
        -most,
        most,
        Toutput=QINT32,
        transpose_a=transposed,
        transpose_b=transposed,
        input_quant_mode=mode,
    )
    with tf.Session() as sess:
        got = sess.run([integers(out[0]), out[1], out[2]])
    step = (high - low) / 255 * (most / 127)
    np.testing.assert_allclose(numbers(got, step), expected, atol=2 * step)
    narrow_out = op("quantized_mat_mul_with_bias_and_relu_and_requantize")(
        quantized(a, QUINT8),
        quantized(b, QINT8),
        bias,
        low,
        high,
        -most,
        most,
        0.0,
        3.0,
        Toutput=QUINT8,
        input_quant_mode=mode,
    )
    with tf.Session() as sess:
        few = sess.run(integers(narrow_out[0]))
    assert np.abs(few - narrow(np.maximum(a_numbers @ b_numbers + bias, 0), QUINT8, 3.0)).max() <= 1


def test_ranges_of_channels():
    sums = np.array([[[[2**30, -(2**20)], [5, 2**29]]]])
    low, high = np.float32([-4, -2]), np.float32([3, 2])
    with tf.Session() as sess:

        def used(values, most):
            return sess.run(
                list(
                    op("requantization_range_per_channel")(
                        quantized(values, QINT32), low, high, clip_value_max=most
                    )
                )
            )

        np.testing.assert_allclose(used(sums, 100.0), [-2, 2])
        np.testing.assert_allclose(used(sums, 1.25), [-1.25, 1.25])
        np.testing.assert_allclose(used(np.abs(sums), 100.0), [0, 2])
        for type_, limit in ((QINT8, 127), (QUINT8, 255)):
            out = op("requantize_per_channel")(quantized(sums, QINT32), low, high, -2.0, 2.0, out_type=type_)
            got = sess.run([integers(out[0]), out[1], out[2]])
            expected = narrow(sums * np.array([4, 2]) / 2**31, type_, 2.0)
            assert got[0].tolist() == expected.tolist() and got[1:] == [-2, 2]
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="input_min has incorrect size, expected 2 was 1"
        ):
            sess.run(
                list(
                    op("requantization_range_per_channel")(
                        quantized(sums, QINT32), low[:1], high, clip_value_max=1.0
                    )
                )
            )


def test_held_between_zero_and_a_value():
    out = op("quantized_relu_x")(quantized([0, 100, 128, 200, 255], QUINT8), 0.5, -1.0, 1.0, out_type=QUINT8)
    with tf.Session() as sess:
        values, low, high = sess.run([integers(out[0]), out[1], out[2]])
    assert (low, high) == (-1, 1)
    np.testing.assert_allclose(values * (2 / 255) - 1, [0, 0, 0.5 / 128, 0.5, 0.5], atol=1 / 127)
