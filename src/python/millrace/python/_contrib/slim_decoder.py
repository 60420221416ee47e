# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Decoders of tf.contrib.slim: items (images, labels, boxes) of serialised Examples."""
from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import dtypes, sparse_tensor
from millrace.python.ops import (
    array_ops,
    control_flow_ops,
    image_ops,
    map_fn,
    math_ops,
    parsing_ops,
    sparse_ops,
)


class DataDecoder(metaclass=abc.ABCMeta):
    """The interface of decoders: `decode` returns items of data, `list_items` their names."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Any) -> Any:
        """The tensors of items, in their order."""

    @abc.abstractmethod
    def list_items(self) -> Any:
        """The names of all items."""


class ItemHandler(metaclass=abc.ABCMeta):
    """Makes an item from the tensors of features."""

    def __init__(self, keys: Any) -> None:
        self._keys = list(keys) if isinstance(keys, (tuple, list)) else [keys]

    @property
    def keys(self) -> Any:
        """The names of the features."""
        return self._keys

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        """The item."""


class ItemHandlerCallback(ItemHandler):
    """A handler that is a function of tensors by name."""

    def __init__(self, keys: Any, func: Any) -> None:
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        return self._func(keys_to_tensors)


class BoundingBox(ItemHandler):
    """Boxes [n, 4], from four features with one coordinate each."""

    def __init__(self, keys: Any = None, prefix: str = "") -> None:
        if keys is None:
            keys = ["ymin", "xmin", "ymax", "xmax"]
        elif len(keys) != 4:
            raise ValueError("BoundingBox expects 4 keys but got {}".format(len(keys)))
        self._full_keys = [prefix + k for k in keys]
        super().__init__(self._full_keys)

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        sides = []
        for key in self._full_keys:
            side = keys_to_tensors[key]
            if isinstance(side, sparse_tensor.SparseTensor):
                side = side.values
            sides.append(array_ops.expand_dims(side, 0))
        return array_ops.transpose(array_ops.concat(sides, 0))


class Tensor(ItemHandler):
    """A dense feature, whose shape is given or is in other features.

    Args:
      tensor_key: the feature.
      shape_keys: the features of the shape.
      shape: the shape.
      default_value: the value of missing entries of a sparse feature.
    """

    def __init__(
        self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0
    ) -> None:
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        if shape_keys and not isinstance(shape_keys, list):
            shape_keys = [shape_keys]
        self._tensor_key = tensor_key
        self._shape_keys = shape_keys
        self._shape = shape
        self._default_value = default_value
        super().__init__([tensor_key] + (shape_keys or []))

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        tensor = keys_to_tensors[self._tensor_key]
        shape = self._shape
        if self._shape_keys:
            parts = []
            for key in self._shape_keys:
                part = keys_to_tensors[key]
                if isinstance(part, sparse_tensor.SparseTensor):
                    part = sparse_ops.sparse_tensor_to_dense(part)
                parts.append(part)
            shape = array_ops.reshape(array_ops.stack(parts), [-1])
        if isinstance(tensor, sparse_tensor.SparseTensor):
            if shape is not None:
                tensor = sparse_ops.sparse_reshape(tensor, shape)
            return sparse_ops.sparse_tensor_to_dense(tensor, self._default_value)
        return tensor if shape is None else array_ops.reshape(tensor, shape)


class LookupTensor(Tensor):
    """A feature looked up in a table."""

    def __init__(
        self, tensor_key: str, table: Any, shape_keys: Any = None, shape: Any = None, default_value: Any = ""
    ) -> None:
        self._table = table
        super().__init__(tensor_key, shape_keys, shape, default_value)

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """A handler, and another one that is used if the first one's result is empty."""

    def __init__(self, handler: Any, backup: Any) -> None:
        if not isinstance(handler, ItemHandler):
            raise ValueError("Primary handler is of type %s instead of ItemHandler" % type(handler))
        if not isinstance(backup, ItemHandler):
            raise ValueError("Backup handler is of type %s instead of ItemHandler" % type(backup))
        self._handler = handler
        self._backup = backup
        super().__init__(handler.keys + backup.keys)

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        item = self._handler.tensors_to_item(keys_to_tensors)
        return control_flow_ops.cond(
            pred=math_ops.equal(math_ops.reduce_prod(array_ops.shape(item)), 0),
            true_fn=lambda: self._backup.tensors_to_item(keys_to_tensors),
            false_fn=lambda: item,
        )


class SparseTensor(ItemHandler):
    """A SparseTensor of features for its indices and values; `densify`: dense."""

    def __init__(
        self, indices_key: Any = None, values_key: Any = None, shape_key: Any = None, shape: Any = None,
        densify: bool = False, default_value: Any = 0,
    ) -> None:  # fmt: skip
        self._indices_key = indices_key or "indices"
        self._values_key = values_key or "values"
        self._shape_key = shape_key
        self._shape = shape
        self._densify = densify
        self._default_value = default_value
        keys = [self._indices_key, self._values_key] + ([shape_key] if shape_key else [])
        super().__init__(keys)

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        indices = keys_to_tensors[self._indices_key]
        values = keys_to_tensors[self._values_key]
        shape = keys_to_tensors[self._shape_key] if self._shape_key else self._shape
        if shape is None:
            return (
                indices
                if not self._densify
                else sparse_ops.sparse_tensor_to_dense(indices, self._default_value)
            )
        indices_columns = array_ops.reshape(math_ops.cast(indices.values, dtypes.int64), [-1, 1])
        result = sparse_tensor.SparseTensor(
            indices_columns, values.values, math_ops.cast(shape, dtypes.int64)
        )
        return sparse_ops.sparse_tensor_to_dense(result, self._default_value) if self._densify else result


class Image(ItemHandler):
    """An image, from the features of its bytes and their format (jpeg, png, raw).

    Args:
      image_key, format_key: the features; "image/encoded" and "image/format".
      shape: of the image, or None.
      channels: how many.
      dtype: of the image.
      repeated: whether the feature has several images.
      dct_method: of JPEG.
    """

    def __init__(
        self, image_key: Any = None, format_key: Any = None, shape: Any = None, channels: int = 3,
        dtype: Any = dtypes.uint8, repeated: bool = False, dct_method: str = "",
    ) -> None:  # fmt: skip
        self._image_key = image_key or "image/encoded"
        self._format_key = format_key or "image/format"
        super().__init__([self._image_key, self._format_key])
        self._shape = shape
        self._channels = channels
        self._dtype = dtype
        self._repeated = repeated
        self._dct_method = dct_method

    def tensors_to_item(self, keys_to_tensors: Any) -> Any:
        image_buffer = keys_to_tensors[self._image_key]
        image_format = keys_to_tensors[self._format_key]
        if self._repeated:
            if isinstance(image_buffer, sparse_tensor.SparseTensor):
                image_buffer = image_buffer.values
            return map_fn.map_fn(lambda x: self._decode(x, image_format), image_buffer, dtype=self._dtype)
        return self._decode(image_buffer, image_format)

    def _decode(self, image_buffer: Any, image_format: Any) -> Any:
        def decode_image() -> Any:
            if self._dtype == dtypes.uint16:
                return image_ops.decode_png(image_buffer, self._channels, dtype=self._dtype)
            image = image_ops.decode_image(image_buffer, channels=self._channels)
            return math_ops.cast(image, self._dtype)

        def decode_raw() -> Any:
            return parsing_ops.decode_raw(image_buffer, out_type=self._dtype)

        def check_jpeg() -> Any:
            if self._dtype == dtypes.uint16:
                return decode_image()
            jpeg = image_ops.decode_jpeg(image_buffer, self._channels, dct_method=self._dct_method)
            return math_ops.cast(jpeg, self._dtype)

        if self._shape is not None and self._shape == []:
            return decode_raw()
        is_raw = math_ops.logical_or(math_ops.equal(image_format, "raw"), math_ops.equal(image_format, "RAW"))
        is_jpeg = image_ops.is_jpeg(image_buffer)
        image = control_flow_ops.case(
            [(is_raw, decode_raw), (is_jpeg, check_jpeg)], default=decode_image, exclusive=False
        )
        image.set_shape([None, None, self._channels])
        if self._shape is not None:
            image = array_ops.reshape(image, self._shape)
        return image


class TFExampleDecoder(DataDecoder):
    """Items of serialised Examples.

    Args:
      keys_to_features: the features (FixedLenFeature, VarLenFeature) by name.
      items_to_handlers: a handler for each item, by name.
    """

    def __init__(self, keys_to_features: Any, items_to_handlers: Any) -> None:
        self._keys_to_features = keys_to_features
        self._items_to_handlers = items_to_handlers

    def list_items(self) -> Any:
        return list(self._items_to_handlers)

    def decode(self, data: Any, items: Any = None) -> Any:
        example = parsing_ops.parse_single_example(data, self._keys_to_features)
        for key in sorted(self._keys_to_features):
            feature = self._keys_to_features[key]
            if isinstance(feature, parsing_ops.FixedLenFeature):
                example[key] = array_ops.reshape(example[key], feature.shape)
        outputs = []
        for item in items or self.list_items():
            handler = self._items_to_handlers[item]
            outputs.append(handler.tensors_to_item({key: example[key] for key in handler.keys}))
        return outputs
