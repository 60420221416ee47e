# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Networks with random weights, each built at the same time as a graph of TensorFlow and as a model of ONNX.

Images are NHWC in the graph and NCHW in the model, as each engine prefers; all other tensors agree.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import millrace as tf

Pair = tuple[Any, str]  # a tensor of the graph, the name of a value of the model


class Builder:
    """One network of both kinds."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.RandomState(1)
        self.feeds: list[tuple[Any, np.ndarray]] = []  # by the graph
        self.inputs: list[tuple[str, np.ndarray]] = []  # by the model
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def uniform(self, shape: tuple[int, ...], limit: float) -> np.ndarray:
        return self.random.uniform(-limit, limit, shape).astype(np.float32)

    def weight(self, value: np.ndarray) -> str:
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> Any:
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def placeholder(self, value: np.ndarray, of_model: np.ndarray | None = None) -> Pair:
        of_model = value if of_model is None else of_model
        tensor = tf.placeholder(tf.as_dtype(value.dtype), value.shape)
        name = f"in{len(self.inputs)}"
        self.feeds.append((tensor, value))
        self.inputs.append((name, np.ascontiguousarray(of_model)))
        return tensor, name

    def image(self, batch: int, side: int) -> Pair:
        value = self.uniform((batch, side, side, 3), 1.0)
        return self.placeholder(value, value.transpose(0, 3, 1, 2))

    def conv(
        self,
        x: Pair,
        out: int,
        size: int | tuple[int, int],
        stride: int = 1,
        activation: str = "",
        depthwise: bool = False,
        valid: bool = False,
    ) -> Pair:
        """A convolution with batch norm and an activation ("", "relu", "relu6"); padded unless `valid`."""
        channels = int(x[0].shape[-1])
        height, width = size if isinstance(size, tuple) else (size, size)
        limit = float(np.sqrt(6.0 / (height * width * (1 if depthwise else channels))))
        if depthwise:
            out = channels
        filters = self.uniform((height, width, channels, 1 if depthwise else out), limit)
        scale, offset = 1 + self.uniform((out,), 0.2), self.uniform((out,), 0.1)
        mean, variance = self.uniform((out,), 0.1), 1 + self.uniform((out,), 0.5)
        pads = [0, 0] if valid else [(height - 1) // 2, (width - 1) // 2]
        t = x[0]
        explicit = stride > 1 and max(pads) > 0
        if explicit:
            t = tf.pad(t, [[0, 0], [pads[0]] * 2, [pads[1]] * 2, [0, 0]])
        strides, padding = [1, stride, stride, 1], "VALID" if explicit or valid else "SAME"
        if depthwise:
            t = tf.nn.depthwise_conv2d(t, filters, strides, padding)
            of_model = filters.transpose(2, 3, 0, 1)
        else:
            t = tf.nn.conv2d(t, filters, strides, padding)
            of_model = filters.transpose(3, 2, 0, 1)
        t = tf.nn.fused_batch_norm(t, scale, offset, mean, variance, epsilon=1e-5, is_training=False)[0]
        n = self.node(
            "Conv",
            [x[1], self.weight(of_model)],
            kernel_shape=[height, width],
            strides=[stride, stride],
            pads=pads * 2,
            group=channels if depthwise else 1,
        )
        parameters = [self.weight(v) for v in (scale, offset, mean, variance)]
        n = self.node("BatchNormalization", [n, *parameters], epsilon=1e-5)
        if activation == "relu":
            t, n = tf.nn.relu(t), self.node("Relu", [n])
        elif activation == "relu6":
            low, high = self.weight(np.float32(0)), self.weight(np.float32(6))
            t, n = tf.nn.relu6(t), self.node("Clip", [n, low, high])
        return t, n

    def dense(self, x: Pair, out: int) -> Pair:
        width = int(x[0].shape[-1])
        kernel, bias = self.uniform((width, out), float(np.sqrt(3.0 / width))), self.uniform((out,), 0.1)
        flat = tf.reshape(x[0], [-1, width])
        t = tf.nn.bias_add(tf.matmul(flat, kernel), bias)
        if x[0].shape.ndims != 2:
            t = tf.reshape(t, [int(d) for d in x[0].shape[:-1]] + [out])
        n = self.node("MatMul", [x[1], self.weight(kernel)])
        return t, self.node("Add", [n, self.weight(bias)])

    def mean_of_pixels(self, x: Pair) -> Pair:
        n = self.node("GlobalAveragePool", [x[1]])
        return tf.reduce_mean(x[0], [1, 2]), self.node("Flatten", [n])

    def pool(self, x: Pair, kind: str, stride: int) -> Pair:
        """3 x 3; the average with padding that does not count, the maximum without."""
        if kind == "max":
            t = tf.nn.max_pool(x[0], 3, stride, "VALID")
            return t, self.node("MaxPool", [x[1]], kernel_shape=[3, 3], strides=[stride] * 2)
        t = tf.nn.avg_pool(x[0], 3, stride, "SAME")
        n = self.node("AveragePool", [x[1]], kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)
        return t, n

    def concat(self, parts: list[Pair]) -> Pair:
        return tf.concat([p[0] for p in parts], -1), self.node("Concat", [p[1] for p in parts], axis=1)

    def add(self, x: Pair, y: Pair) -> Pair:
        return x[0] + y[0], self.node("Add", [x[1], y[1]])

    def model(self, output: Pair) -> bytes:
        def value(name: str, array: np.ndarray | None) -> Any:
            kind = (
                TensorProto.FLOAT
                if array is None
                else helper.np_dtype_to_tensor_dtype(array.dtype)
                if hasattr(helper, "np_dtype_to_tensor_dtype")
                else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype]
            )
            return helper.make_tensor_value_info(name, kind, None if array is None else array.shape)

        graph = helper.make_graph(
            self.nodes,
            "network",
            [value(name, array) for name, array in self.inputs],
            [value(output[1], None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 7
        return model.SerializeToString()


def resnet50(b: Builder, batch: int) -> Pair:
    x = b.conv(b.image(batch, 224), 64, 7, 2, "relu")
    t = tf.nn.max_pool(tf.pad(x[0], [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=-1e30), 3, 2, "VALID")
    x = t, b.node("MaxPool", [x[1]], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            shortcut = b.conv(x, 4 * width, 1, step) if block == 0 else x
            y = b.conv(b.conv(x, width, 1, 1, "relu"), width, 3, step, "relu")
            y = b.conv(y, 4 * width, 1, 1)
            y = y[0] * 0.3, b.node("Mul", [y[1], b.weight(np.float32(0.3))])
            x = b.add(y, shortcut)
            x = tf.nn.relu(x[0]), b.node("Relu", [x[1]])
    return b.dense(b.mean_of_pixels(x), 1000)


def mobilenet(b: Builder, batch: int) -> Pair:
    x = b.conv(b.image(batch, 224), 32, 3, 2, "relu6")
    layers = (
        [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    )
    for width, stride in layers:
        x = b.conv(b.conv(x, 0, 3, stride, "relu6", depthwise=True), width, 1, 1, "relu6")
    return b.dense(b.mean_of_pixels(x), 1000)


def inception_v3(b: Builder, batch: int) -> Pair:
    """Inception-v3 without its auxiliary head, 299 x 299."""

    def conv(x: Pair, out: int, size: int | tuple[int, int], stride: int = 1, valid: bool = False) -> Pair:
        return b.conv(x, out, size, stride, "relu", valid=valid)

    def chain(x: Pair, *layers: tuple[Any, ...]) -> Pair:
        for layer in layers:
            x = conv(x, *layer)
        return x

    x = chain(b.image(batch, 299), (32, 3, 2, True), (32, 3, 1, True), (64, 3))
    x = b.pool(chain(b.pool(x, "max", 2), (80, 1), (192, 3, 1, True)), "max", 2)
    for pooled in (32, 64, 64):
        towers = [conv(x, 64, 1), chain(x, (48, 1), (64, 5)), chain(x, (64, 1), (96, 3), (96, 3))]
        x = b.concat([*towers, conv(b.pool(x, "average", 1), pooled, 1)])
    towers = [conv(x, 384, 3, 2, True), chain(x, (64, 1), (96, 3), (96, 3, 2, True))]
    x = b.concat([*towers, b.pool(x, "max", 2)])
    for width in (128, 160, 160, 192):
        short = chain(x, (width, 1), (width, (1, 7)), (192, (7, 1)))
        deep = chain(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7)))
        x = b.concat([conv(x, 192, 1), short, deep, conv(b.pool(x, "average", 1), 192, 1)])
    wide = chain(x, (192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, True))
    x = b.concat([chain(x, (192, 1), (320, 3, 2, True)), wide, b.pool(x, "max", 2)])
    for _ in range(2):
        y, z = conv(x, 384, 1), chain(x, (448, 1), (384, 3))
        halves = [conv(part, 384, size) for part in (y, z) for size in ((1, 3), (3, 1))]
        x = b.concat([conv(x, 320, 1), *halves, conv(b.pool(x, "average", 1), 192, 1)])
    return b.dense(b.mean_of_pixels(x), 1000)


def bert_layer(b: Builder, batch: int) -> Pair:
    """An encoder layer of BERT-base: 128 tokens of 768, twelve heads, gelu by erf."""
    tokens, width, heads = 128, 768, 12
    depth = width // heads
    x = b.placeholder(b.uniform((batch, tokens, width), 1.0))

    def norm(x: Pair) -> Pair:
        scale, offset = 1 + b.uniform((width,), 0.1), b.uniform((width,), 0.1)
        mean = tf.reduce_mean(x[0], -1, keepdims=True)
        centred = x[0] - mean
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        t = centred * tf.rsqrt(variance + 1e-6) * scale + offset
        m = b.node("ReduceMean", [x[1]], axes=[-1], keepdims=1)
        c = b.node("Sub", [x[1], m])
        v = b.node("ReduceMean", [b.node("Mul", [c, c])], axes=[-1], keepdims=1)
        d = b.node("Sqrt", [b.node("Add", [v, b.weight(np.float32(1e-6))])])
        n = b.node("Add", [b.node("Mul", [b.node("Div", [c, d]), b.weight(scale)]), b.weight(offset)])
        return t, n

    def split(x: Pair, perm: list[int]) -> Pair:
        shape = [batch, tokens, heads, depth]
        n = b.node("Reshape", [x[1], b.weight(np.array(shape, np.int64))])
        return tf.transpose(tf.reshape(x[0], shape), perm), b.node("Transpose", [n], perm=perm)

    query, key = split(b.dense(x, width), [0, 2, 1, 3]), split(b.dense(x, width), [0, 2, 3, 1])
    value = split(b.dense(x, width), [0, 2, 1, 3])
    factor = np.float32(1 / np.sqrt(depth))
    scores = tf.matmul(query[0], key[0]) * factor
    n = b.node("Mul", [b.node("MatMul", [query[1], key[1]]), b.weight(factor)])
    mixed = tf.matmul(tf.nn.softmax(scores), value[0])
    n = b.node("MatMul", [b.node("Softmax", [n], axis=-1), value[1]])
    shape = [batch, tokens, width]
    t = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), shape)
    n = b.node("Reshape", [b.node("Transpose", [n], perm=[0, 2, 1, 3]), b.weight(np.array(shape, np.int64))])
    x = norm(b.add(b.dense((t, n), width), x))
    y = b.dense(x, 4 * width)
    half, one, root = np.float32(0.5), np.float32(1), np.float32(np.sqrt(2))
    t = y[0] * half * (one + tf.erf(y[0] / root))
    e = b.node("Add", [b.node("Erf", [b.node("Div", [y[1], b.weight(root)])]), b.weight(one)])
    n = b.node("Mul", [b.node("Mul", [y[1], b.weight(half)]), e])
    return norm(b.add(b.dense((t, n), width), x))


def lstm_model(b: Builder, batch: int) -> Pair:
    """A language model: 35 words of 10,000, embeddings of 200, two LSTMs of 200, logits of all words."""
    time, words, units = 35, 10_000, 200
    ids = b.placeholder(b.random.randint(0, words, (time, batch)).astype(np.int32))
    table = b.uniform((words, units), 0.1)
    x = tf.nn.embedding_lookup(tf.constant(table), ids[0]), b.node("Gather", [b.weight(table), ids[1]])
    for layer in range(2):
        kernel, bias = b.uniform((2 * units, 4 * units), 0.1), b.uniform((4 * units,), 0.1)
        cell = tf.nn.rnn_cell.BasicLSTMCell(units, forget_bias=0.0, name=f"cell{layer}")
        cell.build(tf.TensorShape([batch, units]))
        cell._kernel, cell._bias = tf.constant(kernel), tf.constant(bias)  # frozen
        t, _ = tf.nn.dynamic_rnn(cell, x[0], time_major=True, dtype=tf.float32)
        i, j, f, o = (kernel[:, k * units : (k + 1) * units].T for k in range(4))
        bi, bj, bf, bo = (bias[k * units : (k + 1) * units] for k in range(4))
        both = np.concatenate([i, o, f, j])  # the order of ONNX
        biases = np.concatenate([bi, bo, bf, bj, np.zeros(4 * units, np.float32)])
        parameters = [both[None, :, :units], both[None, :, units:], biases[None]]
        n = b.node("LSTM", [x[1], *[b.weight(p) for p in parameters]], 1, hidden_size=units)
        x = t, b.node("Squeeze", [n, b.weight(np.array([1], np.int64))])
    return b.dense(x, words)


NETWORKS: dict[str, Callable[[Builder, int], Pair]] = {
    "resnet50": resnet50,
    "mobilenet": mobilenet,
    "inception_v3": inception_v3,
    "bert_layer": bert_layer,
    "lstm_model": lstm_model,
}
