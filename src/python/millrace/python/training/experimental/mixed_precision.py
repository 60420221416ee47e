# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Mixed precision by a rewrite of the graph: the engine has none for processors, so only losses are scaled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from millrace.python.platform import tf_logging as logging
from millrace.python.training import optimizer
from millrace.python.training.experimental import loss_scale_optimizer

_enabled = False


def enable_mixed_precision_graph_rewrite(opt: Any, loss_scale: Any = "dynamic") -> Any:
    """`opt` with a loss scale. Ops keep their types: half precision is not faster on processors.

    Raises:
      ValueError: if `opt` is no Optimizer, or has a loss scale already.
    """
    global _enabled
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
    if not _enabled:
        logging.warning("Mixed precision keeps the types of all ops here: only the loss is scaled.")
    _enabled = True
    return loss_scale_optimizer.MixedPrecisionLossScaleOptimizer(opt, loss_scale)


def disable_mixed_precision_graph_rewrite() -> None:
    """Ends what `enable_mixed_precision_graph_rewrite` began; losses that were scaled stay so."""
    global _enabled
    if not _enabled:
        logging.warning(
            "disable_mixed_precision_graph_rewrite() called when mixed precision is already disabled."
        )
    _enabled = False


@contextlib.contextmanager
def auto_mixed_precision_scope(enable: bool = True) -> Iterator[None]:
    """Accepted, without an effect: see above."""
    del enable
    yield
