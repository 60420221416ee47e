# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Writers of datasets to files."""
from __future__ import annotations

from typing import Any

from millrace.python.data.ops import dataset_ops
from millrace.python.data.util import convert
from millrace.python.framework import dtypes, ops, tensor_shape
from millrace.python.ops import gen_experimental_dataset_ops as ged_ops


class TFRecordWriter:
    """Writes the elements of a dataset, scalar strings, to a TFRecord file."""

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._filename = ops.convert_to_tensor(filename, dtypes.string, name="filename")
        self._compression_type = convert.optional_param_to_tensor(
            "compression_type", compression_type, argument_default="", argument_dtype=dtypes.string
        )

    def write(self, dataset: Any) -> Any:
        """The operation that writes.

        Raises:
          TypeError: the argument is no dataset, or not of scalar strings.
        """
        if not isinstance(dataset, dataset_ops.DatasetV2):
            raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
        types, shapes = dataset_ops.get_legacy_output_types(dataset), dataset_ops.get_legacy_output_shapes(
            dataset
        )
        if types != dtypes.string or not shapes.is_compatible_with(tensor_shape.TensorShape([])):
            raise TypeError(
                "`dataset` must produce scalar `DT_STRING` tensors whereas it produces shape {0} and types {1}".format(
                    shapes, types
                )
            )
        return ged_ops.dataset_to_tf_record(dataset._variant_tensor, self._filename, self._compression_type)
