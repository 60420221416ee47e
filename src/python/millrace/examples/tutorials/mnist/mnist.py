# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The model of the tutorial on feeding: two hidden layers and a softmax."""
from __future__ import annotations

import math
from typing import Any

from millrace.python.framework import dtypes
from millrace.python.framework import ops
from millrace.python.ops import array_ops
from millrace.python.ops import init_ops
from millrace.python.ops import math_ops
from millrace.python.ops import nn_ops
from millrace.python.ops import variables
from millrace.python.ops.losses import losses
from millrace.python.ops import nn
from millrace.python.summary import summary
from millrace.python.training import gradient_descent

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(x: Any, units: int) -> Any:
    width = int(x.shape[1])
    start = init_ops.truncated_normal_initializer(stddev=1.0 / math.sqrt(float(width)))
    weights = variables.VariableV1(start([width, units], dtypes.float32), name="weights")
    biases = variables.VariableV1(array_ops.zeros([units]), name="biases")
    return nn_ops.bias_add(math_ops.matmul(x, weights), biases)


def inference(images: Any, hidden1_units: int, hidden2_units: int) -> Any:
    """Logits, float32 [batch, 10], of images, float32 [batch, 784]."""
    with ops.name_scope("hidden1"):
        hidden1 = nn_ops.relu(_layer(images, hidden1_units))
    with ops.name_scope("hidden2"):
        hidden2 = nn_ops.relu(_layer(hidden1, hidden2_units))
    with ops.name_scope("softmax_linear"):
        return _layer(hidden2, NUM_CLASSES)


def loss(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of logits [batch, 10] and labels, integers [batch]."""
    return losses.sparse_softmax_cross_entropy(labels=math_ops.cast(labels, dtypes.int64), logits=logits)


def training(loss: Any, learning_rate: float) -> Any:  # pylint: disable=redefined-outer-name
    """The operation of one step of gradient descent; it counts the global step."""
    summary.scalar("loss", loss)
    optimizer = gradient_descent.GradientDescentOptimizer(learning_rate)
    global_step = variables.VariableV1(0, name="global_step", trainable=False)
    return optimizer.minimize(loss, global_step=global_step)


def evaluation(logits: Any, labels: Any) -> Any:
    """The number of labels, integers [batch], that have the largest logit: int32 []."""
    correct = nn.in_top_k(logits, labels, 1)
    return math_ops.reduce_sum(math_ops.cast(correct, dtypes.int32))
