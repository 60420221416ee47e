# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks."""
from __future__ import annotations

from millrace.python.ops._rnn_dynamic import bidirectional_dynamic_rnn, dynamic_rnn, raw_rnn  # noqa: F401
from millrace.python.ops._rnn_dynamic import _dynamic_rnn_loop  # noqa: F401
from millrace.python.ops._rnn_helpers import (  # noqa: F401
    _best_effort_input_batch_size,
    _concat,
    _infer_state_dtype,
    _maybe_tensor_shape_from_tensor,
    _reverse_seq,
    _rnn_step,
    _transpose_batch_time,
)
from millrace.python.ops._rnn_static import (  # noqa: F401
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
