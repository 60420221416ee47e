# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells."""
from __future__ import annotations

from millrace.python.ops._rnn_cell_base import (  # noqa: F401
    _BIAS_VARIABLE_NAME,
    _WEIGHTS_VARIABLE_NAME,
    ASSERT_LIKE_RNNCELL_ERROR_REGEXP,
    LayerRNNCell,
    LSTMStateTuple,
    RNNCell,
    _concat,
    _zero_state_tensors,
    assert_like_rnncell,
)
from millrace.python.ops._rnn_cells import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LSTMCell,
    MultiRNNCell,
)  # noqa: F401
from millrace.python.ops.rnn_cell_wrapper_impl import (  # noqa: F401
    DeviceWrapper,
    DropoutWrapper,
    ResidualWrapper,
    _default_dropout_state_filter_visitor,
    _RNNCellWrapperV1,
)
