# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Iterators that distribute the elements of one dataset to several devices in turn."""
from __future__ import annotations

from typing import Any

from millrace.python.data.util import structure
from millrace.python.framework import dtypes, ops
from millrace.python.ops import gen_dataset_ops, gen_resource_variable_ops


class MultiDeviceIterator:
    """Element i of a dataset is for device i modulo their number.

    Args:
      dataset: the dataset.
      devices: the names of the devices, in order.
      max_buffer_size: the maximum number of elements kept for each device.
      prefetch_buffer_size: not used, the elements are kept in the memory that all devices share.
      source_device: the device on which the dataset is read.
    """

    def __init__(
        self, dataset: Any, devices: Any, max_buffer_size: int = 1, prefetch_buffer_size: int = 1,
        source_device: str = "/cpu:0",
    ) -> None:  # fmt: skip
        del prefetch_buffer_size
        options = getattr(dataset, "_apply_options", None)
        self._dataset = options() if options is not None else dataset
        self._devices = list(devices)
        self._source_device = source_device
        flat = self._dataset._flat_structure
        with ops.device(source_device):
            self._multi_device_iterator_resource = gen_dataset_ops.multi_device_iterator(
                devices=self._devices, shared_name="", container="", **flat
            )
            started = gen_dataset_ops.multi_device_iterator_init(
                self._dataset._variant_tensor,
                self._multi_device_iterator_resource,
                max_buffer_size=max_buffer_size,
            )
            # The incarnation of the iterator, set by the initializer.
            name = ops.get_default_graph().unique_name("multi_device_iterator_incarnation")
            self._incarnation_id = gen_resource_variable_ops.var_handle_op(
                dtype=dtypes.int64, shape=[], shared_name=name, name=name
            )
            self._initializer = gen_resource_variable_ops.assign_variable_op(self._incarnation_id, started)

    def _shard(self, device: Any) -> int:
        try:
            return self._devices.index(device)
        except ValueError:
            raise ValueError("Device %s is not in `devices`" % device) from None

    def _next_of(self, shard: int) -> Any:
        spec = self._dataset.element_spec
        with ops.device(self._source_device):
            incarnation_id = gen_resource_variable_ops.read_variable_op(self._incarnation_id, dtypes.int64)
            flat = gen_dataset_ops.multi_device_iterator_get_next_from_shard(
                self._multi_device_iterator_resource, shard, incarnation_id, **self._dataset._flat_structure
            )
        return structure.from_compatible_tensor_list(spec, flat)

    def get_next(self, device: Any = None) -> Any:
        """The next element of a device, or of all devices in a list.

        Raises:
          ValueError: the iterator has no such device.
        """
        if device is not None:
            with ops.device(device):
                return self._next_of(self._shard(device))
        result = []
        for shard, name in enumerate(self._devices):
            with ops.device(name):
                result.append(self._next_of(shard))
        return result

    @property
    def initializer(self) -> Any:
        """The op that starts the iterator."""
        return self._initializer

    @property
    def element_spec(self) -> Any:
        return self._dataset.element_spec
