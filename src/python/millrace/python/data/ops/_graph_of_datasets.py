# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The graph that a dataset and its inputs are in."""
from __future__ import annotations

import warnings
from typing import Any

from millrace.python.framework import ops


def _ensure_same_dataset_graph(dataset: Any) -> None:
    """Checks that a dataset and those that it reads are of the default graph.

    Raises:
      ValueError: they are not.
    """
    current = ops.get_default_graph()
    pending, seen = [dataset], set()
    while pending:
        ds = pending.pop()
        if id(ds) in seen:
            continue
        seen.add(id(ds))
        if ds._graph is not current:
            warnings.warn(
                "The graph (%s) of the iterator is different from the graph (%s) the dataset: %s was  created in. If you "
                "are using the Estimator API, make sure that no part of the dataset returned by the `input_fn` function is "
                "defined outside the `input_fn` function. Please ensure that all datasets in the pipeline are created in "
                "the same graph as the iterator." % (current, ds._graph, ds)
            )
        pending += ds._inputs()
