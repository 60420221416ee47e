# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients: the home of tf.gradients, tf.hessians and tf.custom_gradient."""
from __future__ import annotations

from millrace.python.eager.backprop import GradientTape  # noqa: F401
from millrace.python.ops.custom_gradient import custom_gradient  # noqa: F401
from millrace.python.ops.gradients_impl import HessiansV2  # noqa: F401
from millrace.python.ops.gradients_impl import _hessian_vector_product  # noqa: F401
from millrace.python.ops.gradients_impl import gradients  # noqa: F401
from millrace.python.ops.gradients_impl import gradients_v2  # noqa: F401
from millrace.python.ops.gradients_impl import hessians  # noqa: F401
from millrace.python.ops.gradients_util import AggregationMethod  # noqa: F401
from millrace.python.ops.unconnected_gradients import UnconnectedGradients  # noqa: F401
