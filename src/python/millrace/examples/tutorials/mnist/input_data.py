# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""MNIST as most programs of TensorFlow 1.x read it: `mnist = input_data.read_data_sets(folder, one_hot=True)`."""
from __future__ import annotations

import collections
import gzip
import os
import shutil
import urllib.request
from typing import Any, BinaryIO, Iterator

import numpy as np

from millrace.python.framework import dtypes
from millrace.python.framework import random_seed

DEFAULT_SOURCE_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
TRAIN_IMAGES = "train-images-idx3-ubyte.gz"
TRAIN_LABELS = "train-labels-idx1-ubyte.gz"
TEST_IMAGES = "t10k-images-idx3-ubyte.gz"
TEST_LABELS = "t10k-labels-idx1-ubyte.gz"

Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


def _read_header(stream: BinaryIO, magic: int, name: str, numbers: int) -> list[int]:
    """The `numbers` big-endian sizes behind the magic number. Raises ValueError for another file."""
    header = stream.read(4 * (numbers + 1))
    values = np.frombuffer(header, dtype=">u4") if len(header) == 4 * (numbers + 1) else np.zeros(1, ">u4")
    if values[0] != magic:
        raise ValueError(
            f"Invalid magic number {values[0]} in MNIST {name} file: {getattr(stream, 'name', '')}"
        )
    return [int(value) for value in values[1:]]


def _read_values(stream: BinaryIO, count: int) -> np.ndarray[Any, Any]:
    data = stream.read(count)
    if len(data) != count:
        raise ValueError(f"MNIST file {getattr(stream, 'name', '')} ends after {len(data)} of {count} bytes")
    return np.frombuffer(data, dtype=np.uint8)


def extract_images(f: BinaryIO) -> np.ndarray[Any, Any]:
    """The images of an opened .gz file: uint8 [number, rows, columns, 1]."""
    with gzip.GzipFile(fileobj=f) as stream:
        count, rows, columns = _read_header(stream, 2051, "image", 3)  # type: ignore[arg-type]
        values = _read_values(stream, count * rows * columns)  # type: ignore[arg-type]
    return values.reshape(count, rows, columns, 1)


def dense_to_one_hot(labels_dense: np.ndarray[Any, Any], num_classes: int) -> np.ndarray[Any, Any]:
    """Labels [number] as rows of zeros with a one: float64 [number, num_classes]."""
    one_hot = np.zeros((labels_dense.shape[0], num_classes))
    one_hot[np.arange(labels_dense.shape[0]), labels_dense.ravel()] = 1
    return one_hot


def extract_labels(f: BinaryIO, one_hot: bool = False, num_classes: int = 10) -> np.ndarray[Any, Any]:
    """The labels of an opened .gz file: uint8 [number], or [number, num_classes] with `one_hot`."""
    with gzip.GzipFile(fileobj=f) as stream:
        (count,) = _read_header(stream, 2049, "label", 1)  # type: ignore[arg-type]
        labels = _read_values(stream, count)  # type: ignore[arg-type]
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


class DataSet:
    """Images and labels, handed out in batches; each epoch in an order of its own."""

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = dtypes.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        """`images` is [number, rows, columns, 1]; with dtype float32 its values become 0 to 1, with `reshape` its rows
        become [rows * columns]. Raises TypeError for another dtype than uint8 and float32."""
        seeds = random_seed.get_seed(seed)
        self._random = np.random.RandomState(seeds[0] if seed is None else seeds[1])
        dtype = dtypes.as_dtype(dtype).base_dtype
        if dtype not in (dtypes.uint8, dtypes.float32):
            raise TypeError("Invalid image dtype %r, expected uint8 or float32" % dtype)
        self.one_hot = one_hot
        self._fake = fake_data
        if fake_data:
            self._num_examples = 10000
        else:
            if images.shape[0] != labels.shape[0]:
                raise AssertionError("images.shape: %s labels.shape: %s" % (images.shape, labels.shape))
            self._num_examples = images.shape[0]
            if reshape:
                if images.shape[3] != 1:
                    raise AssertionError("images have %d channels, not one" % images.shape[3])
                images = images.reshape(images.shape[0], images.shape[1] * images.shape[2])
            if dtype == dtypes.float32:
                images = np.multiply(images, np.float32(1.0 / 255.0), dtype=np.float32)
        self._images = images
        self._labels = labels
        self._epochs_completed = 0
        self._order = np.arange(self._num_examples)
        self._index_in_epoch = 0
        self._in_order = False

    @property
    def images(self) -> Any:
        """All images."""
        return self._images

    @property
    def labels(self) -> Any:
        """All labels."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """The number of examples."""
        return int(self._num_examples)

    @property
    def epochs_completed(self) -> int:
        """The number of completed passes over all examples."""
        return self._epochs_completed

    def _fake_batch(self, batch_size: int) -> tuple[list[Any], list[Any]]:
        label: Any = [1] + [0] * 9 if self.one_hot else 0
        return [[1] * 784 for _ in range(batch_size)], [label for _ in range(batch_size)]

    def _indices(self, batch_size: int, shuffle: bool) -> Iterator[np.ndarray[Any, Any]]:
        """The numbers of the next examples, in pieces of one epoch each."""
        left = batch_size
        while left > 0:
            if self._index_in_epoch == 0 and (shuffle or self._in_order):
                self._order = np.arange(self._num_examples)
                if shuffle:
                    self._random.shuffle(self._order)
                self._in_order = shuffle
            piece = self._order[self._index_in_epoch : self._index_in_epoch + left]
            left -= len(piece)
            self._index_in_epoch += len(piece)
            yield piece
            if left > 0:
                self._epochs_completed += 1
                self._index_in_epoch = 0

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> tuple[Any, Any]:
        """The next `batch_size` images and labels; a batch may reach from one epoch into the next."""
        if fake_data or self._fake:
            return self._fake_batch(batch_size)
        indices = np.concatenate(list(self._indices(batch_size, shuffle)) or [np.zeros(0, np.int64)])
        return self._images[indices], self._labels[indices]


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """The path of `filename` in `work_directory`, downloaded from `source_url` if it does not exist."""
    os.makedirs(work_directory, exist_ok=True)
    path = os.path.join(work_directory, filename)
    if not os.path.exists(path):
        partial = f"{path}.{os.getpid()}.part"
        try:
            with urllib.request.urlopen(source_url, timeout=60) as source, open(partial, "wb") as target:
                shutil.copyfileobj(source, target)
            os.replace(partial, path)
        except OSError as error:
            if os.path.exists(partial):
                os.remove(partial)
            raise OSError(f"{path} does not exist and cannot be fetched from {source_url}: {error}") from error
        print("Successfully downloaded", filename, os.path.getsize(path), "bytes.")
    return path


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = dtypes.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str = DEFAULT_SOURCE_URL,
) -> Datasets:
    """MNIST from the files in `train_dir`; missing ones are downloaded first: `train`, `validation` and `test`.

    The first `validation_size` of the training examples are for validation; ValueError when there are not as many.
    """
    if fake_data:
        fakes = [DataSet([], [], True, one_hot, dtype, reshape, seed) for _ in range(3)]
        return Datasets(*fakes)
    source_url = source_url or DEFAULT_SOURCE_URL

    def opened(name: str) -> BinaryIO:
        path = maybe_download(name, train_dir, source_url + name)
        print("Extracting", path)
        return open(path, "rb")

    with opened(TRAIN_IMAGES) as f:
        train_images = extract_images(f)
    with opened(TRAIN_LABELS) as f:
        train_labels = extract_labels(f, one_hot=one_hot)
    with opened(TEST_IMAGES) as f:
        test_images = extract_images(f)
    with opened(TEST_LABELS) as f:
        test_labels = extract_labels(f, one_hot=one_hot)
    if not 0 <= validation_size <= len(train_images):
        raise ValueError(
            "Validation size should be between 0 and {}. Received: {}.".format(
                len(train_images), validation_size
            )
        )

    def data_set(images: Any, labels: Any) -> DataSet:
        return DataSet(images, labels, one_hot=one_hot, dtype=dtype, reshape=reshape, seed=seed)

    return Datasets(
        train=data_set(train_images[validation_size:], train_labels[validation_size:]),
        validation=data_set(train_images[:validation_size], train_labels[:validation_size]),
        test=data_set(test_images, test_labels),
    )


def load_mnist(train_dir: str = "MNIST-data") -> Datasets:
    """MNIST with labels as numbers."""
    return read_data_sets(train_dir)
