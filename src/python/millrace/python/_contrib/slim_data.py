# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Datasets of tf.contrib.slim: descriptions of files, readers in threads, and providers of items."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

from millrace.python.framework import dtypes, ops
from millrace.python.lib.io import file_io
from millrace.python.ops import data_flow_ops, math_ops
from millrace.python.summary import summary
from millrace.python.training import input as tf_input
from millrace.python.training import queue_runner


class Dataset:
    """The files of a dataset and how they are read; other arguments become attributes."""

    def __init__(
        self,
        data_sources: Any,
        reader: Any,
        decoder: Any,
        num_samples: Any,
        items_to_descriptions: Any,
        **kwargs: Any,
    ) -> None:
        kwargs["data_sources"] = data_sources
        kwargs["reader"] = reader
        kwargs["decoder"] = decoder
        kwargs["num_samples"] = num_samples
        kwargs["items_to_descriptions"] = items_to_descriptions
        self.__dict__.update(kwargs)


def get_data_files(data_sources: Any) -> list[str]:
    """The files that match paths or patterns; ValueError if there are none."""
    if isinstance(data_sources, (list, tuple)):
        return [path for source in data_sources for path in get_data_files(source)]
    if any(c in data_sources for c in "*?["):
        files = file_io.get_matching_files(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise ValueError("No data files found in %s" % (data_sources,))
    return list(files)


def parallel_read(
    data_sources: Any, reader_class: Any, num_epochs: Any = None, num_readers: int = 4,
    reader_kwargs: Any = None,
    shuffle: bool = True, dtypes: Any = None, capacity: int = 256, min_after_dequeue: int = 128,
    seed: Any = None,  # noqa: F811
    scope: Any = None,
) -> Any:  # fmt: skip
    """(key, value) of records of files, read by several readers in threads."""
    data_files = get_data_files(data_sources)
    with ops.name_scope(scope or "parallel_read"):
        filename_queue = tf_input.string_input_producer(
            data_files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        types = dtypes or [_string(), _string()]
        if shuffle:
            queue: Any = data_flow_ops.RandomShuffleQueue(
                capacity=capacity,
                min_after_dequeue=min_after_dequeue,
                dtypes=types,
                seed=seed,
                name="common_queue",
            )
        else:
            queue = data_flow_ops.FIFOQueue(capacity=capacity, dtypes=types, name="common_queue")
        summary.scalar(
            "fraction_of_%d_full" % capacity, math_ops.cast(queue.size(), _float()) * (1.0 / capacity)
        )
        readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        enqueue_ops = [queue.enqueue(reader.read(filename_queue)) for reader in readers]
        queue_runner.add_queue_runner(queue_runner.QueueRunner(queue, enqueue_ops))
        return queue.dequeue()


def _string() -> Any:
    return dtypes.string


def _float() -> Any:
    return dtypes.float32


class DataProvider:
    """Items by name, and the number of samples."""

    def __init__(self, items_to_tensors: Any, num_samples: Any) -> None:
        self._items_to_tensors = items_to_tensors
        self._num_samples = num_samples

    def get(self, items: Any) -> list[Any]:
        """The tensors of items; ValueError for an unknown one."""
        valid = self.list_items()
        for item in items:
            if item not in valid:
                raise ValueError("Provider does not recognize item [%s]. Possible items: %s" % (item, valid))
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """The names of items."""
        return list(self._items_to_tensors)

    def num_samples(self) -> Any:
        """The number of samples."""
        return self._num_samples


class DatasetDataProvider(DataProvider):
    """The items of a Dataset, read in threads.

    Args:
      dataset: a Dataset.
      num_readers, reader_kwargs, shuffle, num_epochs, common_queue_capacity, common_queue_min, seed, scope:
      see parallel_read.
      record_key: the name of the item that is the record's key.
    """

    def __init__(
        self, dataset: Any, num_readers: int = 1, reader_kwargs: Any = None, shuffle: bool = True,
        num_epochs: Any = None,
        common_queue_capacity: int = 256, common_queue_min: int = 128, record_key: str = "record_key",
        seed: Any = None,
        scope: Any = None,
    ) -> None:  # fmt: skip
        key, data = parallel_read(
            dataset.data_sources, reader_class=dataset.reader, num_epochs=num_epochs, num_readers=num_readers,
            reader_kwargs=reader_kwargs, shuffle=shuffle, capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min, seed=seed, scope=scope,
        )  # fmt: skip
        items = dataset.decoder.list_items()
        items_to_tensors = dict(zip(items, dataset.decoder.decode(data, items)))
        if record_key in items_to_tensors:
            raise ValueError(
                "The item name used for `record_key` cannot also be used for a dataset item: %s" % record_key
            )
        items_to_tensors[record_key] = key
        super().__init__(items_to_tensors=items_to_tensors, num_samples=dataset.num_samples)


_threads = threading.local()


class NestedQueueRunnerError(Exception):
    """Raised when QueueRunners contexts are nested."""


@contextlib.contextmanager
def QueueRunners(session: Any) -> Iterator[None]:  # noqa: N802
    """Runs the queue runners of a graph within a block."""
    from millrace.python.training import coordinator

    if getattr(_threads, "running", False):
        raise NestedQueueRunnerError("QueueRunners cannot be nested")
    coord = coordinator.Coordinator()
    threads = queue_runner.start_queue_runners(sess=session, coord=coord)
    _threads.running = True
    try:
        yield
    finally:
        _threads.running = False
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=120)


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: Any = None,
    name: Any = None,
) -> Any:
    """A queue of prefetched batches, whose `dequeue` returns lists or dictionaries."""
    names, flat = (sorted(tensors), None) if isinstance(tensors, dict) else (None, list(tensors))
    if names is not None:
        flat = [tensors[n] for n in names]
    assert flat is not None
    with ops.name_scope(name, "prefetch_queue", flat):
        types, shapes = [t.dtype for t in flat], [t.get_shape() for t in flat]
        kind = data_flow_ops.PaddingFIFOQueue if dynamic_pad else data_flow_ops.FIFOQueue
        queue = kind(capacity=capacity, dtypes=types, shapes=shapes, names=names, shared_name=shared_name)
        value = dict(zip(names, flat)) if names is not None else flat
        enqueue_op = queue.enqueue(value)
        queue_runner.add_queue_runner(queue_runner.QueueRunner(queue, [enqueue_op] * num_threads))
        summary.scalar(
            "fraction_of_%d_full" % capacity, math_ops.cast(queue.size(), dtypes.float32) * (1.0 / capacity)
        )
        return queue
