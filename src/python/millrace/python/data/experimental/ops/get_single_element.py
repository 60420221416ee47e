# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The only element of a dataset."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import dataset_ops
from millrace.python.data.util import structure
from millrace.python.ops import gen_dataset_ops


def get_single_element(dataset: Any) -> Any:
    """The element of a dataset that has one.

    Raises:
      TypeError: the argument is no dataset.
      InvalidArgumentError (when it is run): there is none or more than one.
    """
    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
    flat = gen_dataset_ops.dataset_to_single_element(dataset._variant_tensor, **dataset._flat_structure)
    return structure.from_compatible_tensor_list(
        dataset.element_spec, list(flat) if isinstance(flat, (list, tuple)) else [flat]
    )
