# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Mixed precision by a rewrite of the graph: matrix products and convolutions get bfloat16 inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from millrace.python.platform import tf_logging as logging
from millrace.python.training import optimizer
from millrace.python.training.experimental import loss_scale_optimizer
from millrace.python.training.experimental import mixed_precision_global_state as state


def enable_mixed_precision_graph_rewrite(opt: Any, loss_scale: Any = "dynamic") -> Any:
    """`opt` with a loss scale; sessions that are made from now on use mixed precision.

    Matrix products and convolutions then have bfloat16 inputs and float32 sums and variables, if the
    processor is faster at that: `auto_mixed_precision` of RewriterConfig.

    Raises:
      ValueError: if `opt` is no Optimizer, or has a loss scale already.
    """
    if not isinstance(opt, optimizer.Optimizer):
        raise ValueError(
            '"opt" must be an instance of a tf.train.Optimizer or a tf.keras.optimizers.Optimizer, but got: %s'
            % opt
        )
    if isinstance(opt, loss_scale_optimizer.MixedPrecisionLossScaleOptimizer):
        raise ValueError(
            '"opt" must not already be an instance of a MixedPrecisionLossScaleOptimizer.'
            " `enable_mixed_precision_graph_rewrite` will automatically wrap the optimizer with a"
            " MixedPrecisionLossScaleOptimizer."
        )
    if state.non_mixed_precision_session_created:
        logging.warning(
            "You already have existing Sessions that do not use mixed precision."
            " enable_mixed_precision_graph_rewrite() will not affect these Sessions."
        )
    state.mixed_precision_graph_rewrite_is_enabled = True
    return loss_scale_optimizer.MixedPrecisionLossScaleOptimizer(opt, loss_scale)


def disable_mixed_precision_graph_rewrite() -> None:
    """Disables the rewrite for new sessions; optimizers that were wrapped keep their loss scale."""
    if not state.mixed_precision_graph_rewrite_is_enabled:
        logging.warning(
            "disable_mixed_precision_graph_rewrite() called when mixed precision is already disabled."
        )
    state.mixed_precision_graph_rewrite_is_enabled = False


@contextlib.contextmanager
def auto_mixed_precision_scope(enable: bool = True) -> Iterator[None]:
    """Sessions that are made within the scope use mixed precision, or do not."""
    before = state.mixed_precision_graph_rewrite_is_enabled
    state.mixed_precision_graph_rewrite_is_enabled = enable
    try:
        yield
    finally:
        state.mixed_precision_graph_rewrite_is_enabled = before
