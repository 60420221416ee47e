# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Operations on the bits of integers: tf.bitwise."""

from __future__ import annotations

from millrace.python.ops.gen_bitwise_ops import *  # noqa: F401,F403
