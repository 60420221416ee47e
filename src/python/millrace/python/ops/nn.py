# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Everything of `tf.nn` in one module."""
from __future__ import annotations

from millrace.python.ops import ctc_ops as _ctc_ops  # noqa: F401
from millrace.python.ops import embedding_ops as _embedding_ops  # noqa: F401
from millrace.python.ops.array_ops import (
    batch_to_space,
    depth_to_space,
    space_to_batch,
    space_to_depth,
)  # noqa: F401
from millrace.python.ops.candidate_sampling_ops import *  # noqa: F401,F403
from millrace.python.ops.ctc_ops import *  # noqa: F401,F403
from millrace.python.ops.embedding_ops import *  # noqa: F401,F403
from millrace.python.ops.gen_nn_ops import *  # type: ignore  # noqa: F401,F403
from millrace.python.ops.math_ops import sigmoid, tanh  # noqa: F401
from millrace.python.ops.nn_impl import *  # noqa: F401,F403
from millrace.python.ops.nn_ops import *  # type: ignore[assignment]  # noqa: F401,F403
from millrace.python.ops import rnn_cell  # noqa: F401
from millrace.python.ops.rnn import (  # noqa: F401
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    raw_rnn,
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
