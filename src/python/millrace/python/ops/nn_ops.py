# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Ops of neural networks: convolutions, pools, softmax, cross entropies, dropout and similar."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        ...  # the functions of the generated module

else:
    from millrace.python.ops.gen_nn_ops import *  # noqa: F401,F403

from millrace.python.ops import gen_nn_ops
from millrace.python.ops._nn_conv import (  # noqa: F401
    CONV_TRANSPOSE_OPS,
    _convert_padding,
    _get_sequence,
    conv1d,
    conv1d_transpose,
    conv1d_v2,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv2d_transpose_v2,
    conv2d_v2,
    conv3d_transpose,
    conv3d_transpose_v2,
    conv3d_v1,
    conv3d_v2,
    conv_transpose,
)
from millrace.python.ops._nn_dilated import (  # noqa: F401
    Convolution,
    _get_strides_and_dilation_rate,
    _NonAtrousConvolution,
    _with_space_to_batch_adjust,
    _with_space_to_batch_base_paddings,
    _WithSpaceToBatch,
    convolution,
    convolution_internal,
    convolution_v2,
    with_space_to_batch,
)
from millrace.python.ops._nn_misc import (  # noqa: F401
    _get_noise_shape,
    atrous_conv2d,
    atrous_conv2d_transpose,
    bias_add,
    bias_add_v1,
    conv3d_backprop_filter,
    crelu,
    crelu_v2,
    dilation2d_v1,
    dilation2d_v2,
    dropout,
    dropout_v2,
    erosion2d,
    erosion2d_v2,
    in_top_k,
    in_top_k_v2,
    leaky_relu,
    nth_element,
    relu6,
    top_k,
    xw_plus_b,
    xw_plus_b_v1,
)
from millrace.python.ops._nn_pool import (  # noqa: F401
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    avg_pool_v2,
    fractional_avg_pool,
    fractional_avg_pool_v2,
    fractional_max_pool,
    fractional_max_pool_v2,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax_v1,
    max_pool_with_argmax_v2,
    pool,
    pool_v2,
)
from millrace.python.ops._nn_softmax import (  # noqa: F401
    _ensure_xent_args,
    _flatten_outer_dims,
    _softmax,
    log_softmax,
    log_softmax_v2,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    softmax_cross_entropy_with_logits_v2_helper,
    softmax_v2,
    sparse_softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits_v2,
)

local_response_normalization = gen_nn_ops.lrn
lrn = gen_nn_ops.lrn
relu = gen_nn_ops.relu
elu = gen_nn_ops.elu
selu = gen_nn_ops.selu
softplus = gen_nn_ops.softplus
softsign = gen_nn_ops.softsign
l2_loss = gen_nn_ops.l2_loss
conv3d = gen_nn_ops.conv3d
conv3d_backprop_filter_v2 = gen_nn_ops.conv3d_backprop_filter_v2
conv3d_backprop_input_v2 = gen_nn_ops.conv3d_backprop_input_v2
depthwise_conv2d_native = gen_nn_ops.depthwise_conv2d_native
depthwise_conv2d_native_backprop_filter = gen_nn_ops.depthwise_conv2d_native_backprop_filter
depthwise_conv2d_native_backprop_input = gen_nn_ops.depthwise_conv2d_native_backprop_input
dilation2d = dilation2d_v1
max_pool_with_argmax = max_pool_with_argmax_v1
quantized_avg_pool = gen_nn_ops.quantized_avg_pool
quantized_conv2d = gen_nn_ops.quantized_conv2d
quantized_max_pool = gen_nn_ops.quantized_max_pool
quantized_relu_x = gen_nn_ops.quantized_relu_x
top_kv2 = gen_nn_ops.top_kv2
sparse_softmax_cross_entropy = gen_nn_ops.sparse_softmax_cross_entropy_with_logits
