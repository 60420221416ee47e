# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Structures of fetches, and feeds of objects that are made of several tensors."""
from __future__ import annotations

import collections
import collections.abc
from typing import Any

from millrace.python.framework import ops
from millrace.python.framework.indexed_slices import IndexedSlices, IndexedSlicesValue


def _sparse() -> Any:
    from millrace.python.framework import sparse_tensor

    return sparse_tensor


class _Expansion:
    """The functions that fetch and feed objects of a class."""

    def __init__(self, kind: Any, fetch: Any, feed: Any, feed_keys: Any) -> None:
        self.kind, self.fetch, self.feed, self.feed_keys = kind, fetch, feed, feed_keys


_expansions: list[_Expansion] = []


def register_session_run_conversion_functions(
    tensor_type: Any,
    fetch_function: Any,
    feed_function: Any = None,
    feed_function_for_partial_run: Any = None,
) -> None:
    """Registers functions with which sessions fetch and feed objects of a class.

    Args:
      tensor_type: the class.
      fetch_function: from an object to (list of tensors, function of the list of their values).
      feed_function: from an object and a value to a list of (tensor, value).
      feed_function_for_partial_run: from an object to a list of tensors.
    """
    for expansion in _expansions:
        if issubclass(tensor_type, expansion.kind):
            raise ValueError("%s has already been registered so ignore it." % tensor_type)
    _expansions.insert(
        0, _Expansion(tensor_type, fetch_function, feed_function, feed_function_for_partial_run)
    )


def _is_sparse(thing: Any) -> bool:
    return type(thing).__name__ == "SparseTensor" and isinstance(thing, _sparse().SparseTensor)


def _slices_parts(slices: Any) -> list[Any]:
    parts = [slices.values, slices.indices]
    return parts if slices.dense_shape is None else parts + [slices.dense_shape]


def expand_fetch(fetch: Any) -> Any:
    """(list of fetches, function of the list of their values); None for other values."""
    if _is_sparse(fetch):
        return [fetch.indices, fetch.values, fetch.dense_shape], lambda values: _sparse().SparseTensorValue(
            *values
        )
    if isinstance(fetch, IndexedSlices):
        return _slices_parts(fetch), lambda v: IndexedSlicesValue(v[0], v[1], v[2] if len(v) > 2 else None)
    for expansion in _expansions:
        if isinstance(fetch, expansion.kind):
            return expansion.fetch(fetch)
    if isinstance(fetch, (ops.Tensor, ops.Operation, str, bytes)):
        return [fetch], lambda values: values[0]
    if hasattr(fetch, "_as_graph_element"):
        return [fetch], lambda values: values[0]
    return None


def expand_feed(feed: Any, value: Any) -> list[tuple[Any, Any]]:
    """Pairs of a tensor and its value."""
    if _is_sparse(feed):
        return list(zip([feed.indices, feed.values, feed.dense_shape], value))
    if isinstance(feed, IndexedSlices):
        return list(zip(_slices_parts(feed), value))
    for expansion in _expansions:
        if isinstance(feed, expansion.kind):
            if expansion.feed is None:
                raise TypeError("Feeding %s is not supported" % type(feed))
            return list(expansion.feed(feed, value))
    return [(feed, value)]


def expand_feed_keys(feed: Any) -> list[Any]:
    """The tensors that a feed is made of."""
    if _is_sparse(feed):
        return [feed.indices, feed.values, feed.dense_shape]
    if isinstance(feed, IndexedSlices):
        return _slices_parts(feed)
    for expansion in _expansions:
        if isinstance(feed, expansion.kind) and expansion.feed_keys is not None:
            return list(expansion.feed_keys(feed))
    return [feed]


class _FetchMapper:
    """The fetches of a structure without duplicates, and the construction of the result from their values."""

    def unique_fetches(self) -> list[Any]:
        raise NotImplementedError("Must be implemented by subclasses")

    def build_results(self, values: list[Any]) -> Any:
        raise NotImplementedError("Must be implemented by subclasses")

    @staticmethod
    def for_fetch(fetch: Any) -> _FetchMapper:
        if fetch is None:
            raise TypeError("Fetch argument %r has invalid type %r" % (fetch, type(fetch)))
        expanded = expand_fetch(fetch)
        if expanded is not None:
            return _ElementFetchMapper(*expanded)
        if isinstance(fetch, (list, tuple)):
            return _ListFetchMapper(fetch)
        if isinstance(fetch, collections.abc.Mapping):
            return _DictFetchMapper(fetch)
        if hasattr(type(fetch), "__attrs_attrs__"):
            return _AttrsFetchMapper(fetch)
        return _ElementFetchMapper([fetch], lambda values: values[0])  # raises with the reason


class _ElementFetchMapper(_FetchMapper):
    """One object, made of one or several fetches."""

    def __init__(self, fetches: Any, contraction_fn: Any) -> None:
        self._unique_fetches = []
        for fetch in fetches:
            graph = ops.get_default_graph() if not hasattr(fetch, "graph") else fetch.graph
            try:
                self._unique_fetches.append(
                    _current_graph(graph).as_graph_element(fetch, allow_tensor=True, allow_operation=True)
                )
            except TypeError as e:
                raise TypeError(
                    "Fetch argument %r has invalid type %r, must be a string or Tensor. (%s)"
                    % (fetch, type(fetch), str(e))
                ) from None
            except ValueError as e:
                raise ValueError(
                    "Fetch argument %r cannot be interpreted as a Tensor. (%s)" % (fetch, str(e))
                ) from None
            except KeyError as e:
                raise ValueError(
                    "Fetch argument %r cannot be interpreted as a Tensor. (%s)" % (fetch, str(e))
                ) from None
        self._contraction_fn = contraction_fn

    def unique_fetches(self) -> list[Any]:
        return self._unique_fetches

    def build_results(self, values: list[Any]) -> Any:
        return self._contraction_fn(values) if values else None


_graph_in_use: list[Any] = []


def _current_graph(default: Any) -> Any:
    return _graph_in_use[-1] if _graph_in_use else default


def _uniquify(mappers: list[_FetchMapper]) -> tuple[list[Any], list[list[int]]]:
    unique: list[Any] = []
    seen: dict[int, int] = {}
    places = []
    for mapper in mappers:
        indices = []
        for fetch in mapper.unique_fetches():
            index = seen.setdefault(id(fetch), len(seen))
            if index == len(unique):
                unique.append(fetch)
            indices.append(index)
        places.append(indices)
    return unique, places


class _ManyFetchMapper(_FetchMapper):
    def _set(self, mappers: list[_FetchMapper]) -> None:
        self._mappers = mappers
        self._unique_fetches, self._value_indices = _uniquify(mappers)

    def unique_fetches(self) -> list[Any]:
        return self._unique_fetches

    def _parts(self, values: list[Any]) -> list[Any]:
        return [
            m.build_results([values[i] for i in places])
            for m, places in zip(self._mappers, self._value_indices)
        ]


class _ListFetchMapper(_ManyFetchMapper):
    """A list, tuple or named tuple."""

    def __init__(self, fetches: Any) -> None:
        self._fetch_type = type(fetches)
        self._set([_FetchMapper.for_fetch(fetch) for fetch in fetches])

    def build_results(self, values: list[Any]) -> Any:
        results = self._parts(values)
        if issubclass(self._fetch_type, list):
            return results
        if self._fetch_type is tuple:
            return tuple(results)
        return self._fetch_type(*results)


class _DictFetchMapper(_ManyFetchMapper):
    """A dict."""

    def __init__(self, fetches: Any) -> None:
        self._fetch_type = type(fetches)
        self._keys = list(fetches.keys())
        self._default = getattr(fetches, "default_factory", None)
        self._set([_FetchMapper.for_fetch(fetch) for fetch in fetches.values()])

    def build_results(self, values: list[Any]) -> Any:
        results = (
            self._fetch_type(self._default)
            if issubclass(self._fetch_type, collections.defaultdict)
            else self._fetch_type()
        )
        for key, value in zip(self._keys, self._parts(values)):
            results[key] = value
        return results


class _AttrsFetchMapper(_ManyFetchMapper):
    """An object of an attrs class."""

    def __init__(self, fetches: Any) -> None:
        self._fetch_type = type(fetches)
        names = [a.name for a in type(fetches).__attrs_attrs__]
        self._set([_FetchMapper.for_fetch(getattr(fetches, name)) for name in names])

    def build_results(self, values: list[Any]) -> Any:
        return self._fetch_type(*self._parts(values))


class _FetchHandler:
    """The fetches of a call: tensors, operations, and the structure of the result."""

    def __init__(self, graph: Any, fetches: Any, feeds: dict[Any, Any], feed_handles: Any = None) -> None:
        _graph_in_use.append(graph)
        try:
            self._fetch_mapper = _FetchMapper.for_fetch(fetches)
        finally:
            _graph_in_use.pop()
        self._fetches: list[Any] = []
        self._targets: list[Any] = []
        self._feeds = feeds
        self._places: list[Any] = []
        for fetch in self._fetch_mapper.unique_fetches():
            if not graph.is_fetchable(fetch):
                raise ValueError(
                    "Operation %r has been marked as not fetchable." % getattr(fetch, "op", fetch).name
                )
            if isinstance(fetch, ops.Operation):
                self._targets.append(fetch)
                self._places.append(None)
            elif fetch in feeds:
                self._places.append(fetch)
            else:
                self._places.append(len(self._fetches))
                self._fetches.append(fetch)
        self._all = self._fetch_mapper.unique_fetches()

    def fetches(self) -> list[Any]:
        return self._fetches

    def targets(self) -> list[Any]:
        return self._targets

    def build_results(self, session: Any, tensor_values: list[Any]) -> Any:
        values: list[Any] = []
        for fetch, place in zip(self._all, self._places):
            if place is None:
                values.append(None)
                continue
            value = tensor_values[place] if isinstance(place, int) else self._feeds[place]
            if not isinstance(place, int) and getattr(value, "ndim", None) == 0:
                value = value[()]
            if isinstance(fetch, ops.Tensor) and fetch.op.type in ("GetSessionHandle", "GetSessionHandleV2"):
                from millrace.python.ops import session_ops

                value = session_ops.TensorHandle(value, fetch.op.get_attr("T"), session)
            values.append(value)
        return self._fetch_mapper.build_results(values)
