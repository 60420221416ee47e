# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Additional files for plugins of TensorBoard."""

from __future__ import annotations

import abc
from typing import Any

from millrace.python.framework import ops

_PLUGIN_ASSET_PREFIX = "__tensorboard_plugin_asset__"


def get_plugin_asset(plugin_asset_cls: Any, graph: Any = None) -> Any:
    """The asset of a class in a graph, made if there is none.

    Raises:
      ValueError: if the class has no name, or another class has the same.
    """
    if graph is None:
        graph = ops.get_default_graph()
    if not plugin_asset_cls.plugin_name:
        raise ValueError("Class %s has no plugin_name" % plugin_asset_cls.__name__)
    name = _PLUGIN_ASSET_PREFIX + plugin_asset_cls.plugin_name
    container = graph.get_collection(name)
    if container:
        if len(container) != 1:
            raise ValueError("Collection for %s had %d items, expected 1" % (name, len(container)))
        instance = container[0]
        if not isinstance(instance, plugin_asset_cls):
            raise ValueError(
                "Plugin name collision between classes %s and %s"
                % (plugin_asset_cls.__name__, instance.__class__.__name__)
            )
        return instance
    instance = plugin_asset_cls()
    graph.add_to_collection(name, instance)
    graph.add_to_collection(_PLUGIN_ASSET_PREFIX, plugin_asset_cls.plugin_name)
    return instance


def get_all_plugin_assets(graph: Any = None) -> list[Any]:
    """All assets of a graph."""
    if graph is None:
        graph = ops.get_default_graph()
    out = []
    for name in graph.get_collection(_PLUGIN_ASSET_PREFIX):
        collection = graph.get_collection(_PLUGIN_ASSET_PREFIX + name)
        if len(collection) != 1:
            raise ValueError("Collection for %s had %d items, expected 1" % (name, len(collection)))
        out.append(collection[0])
    return out


class PluginAsset(metaclass=abc.ABCMeta):
    """Base of assets: a name of the plugin, and files by name."""

    plugin_name: str | None = None

    @abc.abstractmethod
    def assets(self) -> dict[str, Any]:
        """Contents of the files, by name."""
        raise NotImplementedError()
