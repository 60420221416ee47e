# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Streaming metrics: each returns (value so far, op that adds a batch)."""
from __future__ import annotations

import functools
import inspect
from typing import Any

from millrace.python.framework import ops
from millrace.python.ops._metrics_common import (  # noqa: F401
    _maybe_expand_labels,
    _remove_squeezable_dimensions,
    _safe_scalar_div,
    metric_variable,
)
from millrace.python.ops._metrics_means import (  # noqa: F401
    _streaming_confusion_matrix,
    accuracy,
    false_negatives,
    false_positives,
    mean,
    mean_absolute_error,
    mean_cosine_distance,
    mean_iou,
    mean_per_class_accuracy,
    mean_relative_error,
    mean_squared_error,
    mean_tensor,
    percentage_below,
    precision,
    recall,
    root_mean_squared_error,
    true_negatives,
    true_positives,
)
from millrace.python.ops._metrics_thresholds import (  # noqa: F401
    _confusion_matrix_at_thresholds,
    auc,
    false_negatives_at_thresholds,
    false_positives_at_thresholds,
    precision_at_thresholds,
    recall_at_thresholds,
    sensitivity_at_specificity,
    specificity_at_sensitivity,
    true_negatives_at_thresholds,
    true_positives_at_thresholds,
)
from millrace.python.ops._metrics_top_k import (  # noqa: F401
    _expand_and_tile,
    _num_relevant,
    _sparse_average_precision_at_top_k,
    average_precision_at_k,
    precision_at_k,
    precision_at_top_k,
    recall_at_k,
    recall_at_top_k,
    sparse_average_precision_at_k,
    sparse_precision_at_k,
)


def _in_graphs_only(function: Any) -> Any:
    """Makes the metric raise RuntimeError in eager mode: its updates are operations to run."""

    @functools.wraps(function)
    def metric(*args: Any, **kwargs: Any) -> Any:
        if ops.executing_eagerly():
            raise RuntimeError(
                "tf.metrics.%s is not supported when eager execution is enabled." % function.__name__
            )
        return function(*args, **kwargs)

    return metric


for _name, _function in list(globals().items()):
    if not _name.startswith("_") and getattr(_function, "__module__", "").startswith(
        "millrace.python.ops._metrics_"
    ):
        if inspect.isfunction(_function) and _name != "metric_variable":
            globals()[_name] = _in_graphs_only(_function)
