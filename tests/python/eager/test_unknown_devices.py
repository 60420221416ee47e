# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops and tensors on devices that do not exist."""
import subprocess
import sys

import numpy as np
import pytest

import millrace as tf
from millrace.python.eager import context

GPU = "/job:localhost/replica:0/task:0/device:GPU:7"


@pytest.fixture(autouse=True)
def eager():
    with context.eager_mode():
        yield


def test_a_constant():
    with pytest.raises(
        RuntimeError, match="Error copying tensor to device: %s. %s unknown device" % (GPU, GPU)
    ):
        with tf.device("/device:GPU:7"):
            tf.constant(1.0)
    assert tf.constant(2.0).numpy() == 2


def test_an_op_and_a_copy():
    x = tf.constant([1.0, 2.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="GPU:7 unknown device"):
        with tf.device("GPU:7"):
            tf.negative(x)
    with pytest.raises(RuntimeError, match="Error copying tensor to device: .*GPU:3"):
        x.gpu(3)
    with tf.device("/cpu:0"):
        np.testing.assert_array_equal(tf.negative(x), [-1, -2])
    np.testing.assert_array_equal(x.cpu(), [1, 2])


def test_names_that_are_none():
    with pytest.raises(ValueError, match="Unknown attribute: 'nonsense'"):
        with tf.device("nonsense"):
            pass
    with pytest.raises(ValueError, match="Expecting a string device name"):
        with tf.device(3):
            pass


def test_the_first_error_of_a_process_has_its_class():
    program = (
        "import millrace as tf\n"
        "tf.enable_eager_execution()\n"
        "x = tf.constant(1.0)\n"
        "try:\n"
        "    with tf.device('GPU:7'):\n"
        "        x + x\n"
        "except Exception as e:\n"
        "    print(type(e).__name__)\n"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert got.stdout == "InvalidArgumentError\n"
