# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Convolutions."""

from millrace.python.layers._conv_base import _Conv as Conv  # noqa: F401
from millrace.python.layers._conv_base import _SeparableConv as SeparableConv  # noqa: F401
from millrace.python.layers.convolutional import (  # noqa: F401
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    SeparableConv1D,
    SeparableConv2D,
)
