# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of protocol buffers in tensors."""
from __future__ import annotations

from millrace.python.ops.gen_decode_proto_ops import decode_proto_v2 as decode_proto  # noqa: F401
from millrace.python.ops.gen_encode_proto_ops import encode_proto  # noqa: F401
