# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Batch normalization."""

from millrace.python.layers.normalization import BatchNormalization  # noqa: F401

BatchNormalizationBase = BatchNormalization
