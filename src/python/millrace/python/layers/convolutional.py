# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Convolutional layers."""
from __future__ import annotations

from millrace.python.layers._conv_base import _Conv, _ConvTranspose, _SeparableConv  # noqa: F401
from millrace.python.layers._conv_others import (  # noqa: F401
    Conv2DTranspose,
    Conv3DTranspose,
    SeparableConv1D,
    SeparableConv2D,
    conv2d_transpose,
    conv3d_transpose,
    separable_conv1d,
    separable_conv2d,
)
from millrace.python.layers._conv_plain import Conv1D, Conv2D, Conv3D, conv1d, conv2d, conv3d  # noqa: F401

Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D
SeparableConvolution2D = SeparableConv2D
Convolution2DTranspose = Deconvolution2D = Deconv2D = Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = Conv3DTranspose
convolution1d = conv1d
convolution2d = conv2d
convolution3d = conv3d
separable_convolution2d = separable_conv2d
convolution2d_transpose = deconvolution2d = deconv2d = conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = conv3d_transpose
