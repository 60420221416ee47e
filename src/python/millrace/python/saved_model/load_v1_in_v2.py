# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""SavedModels of version 1 as objects, whose graph runs in its own session."""
from __future__ import annotations

from typing import Any

from millrace.python.client import session
from millrace.python.framework import ops
from millrace.python.saved_model import constants, loader_impl, signature_serialization
from millrace.python.training.tracking import tracking
from millrace.python.util import nest


class SessionFunction:
    """A function from some tensors of a graph to others."""

    def __init__(self, owner: session.Session, feeds: dict[str, Any], fetches: Any) -> None:
        self._session = owner
        self._feeds = feeds
        self.structured_outputs = fetches

    @property
    def inputs(self) -> list[Any]:
        return list(self._feeds.values())

    @property
    def outputs(self) -> list[Any]:
        return nest.flatten(self.structured_outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The fetched values as tensors.

        Args:
          args: one value for each feed, or none.
          kwargs: values by names of feeds.

        Raises:
          TypeError: an argument is missing or unknown.
        """
        names = list(self._feeds)
        given = dict(zip(names, args), **kwargs)
        if len(args) > len(names) or set(given) != set(names):
            raise TypeError("Expected argument names %s but got values for %s." % (names, sorted(given)))
        values = {
            self._feeds[k]: v.numpy() if isinstance(v, ops.EagerTensor) else v for k, v in given.items()
        }
        results = self._session.run(self.structured_outputs, values)
        return nest.map_structure(lambda v: None if v is None else ops.convert_to_tensor(v), results)


class SessionModel(tracking.AutoTrackable):
    """A model of version 1: `graph`, `variables`, `signatures` and `prune`."""

    def __init__(self, export_dir: str, tags: Any) -> None:
        self.graph = ops.Graph()
        self._session = session.Session(graph=self.graph)
        with self.graph.as_default():
            loaded = loader_impl.SavedModelLoader(export_dir)
            if tags is None and len(loaded.saved_model.meta_graphs) == 1:
                tags = list(loaded.saved_model.meta_graphs[0].meta_info_def.tags)
            if tags is None:
                available = [list(m.meta_info_def.tags) for m in loaded.saved_model.meta_graphs]
                raise ValueError(
                    "Importing a SavedModel with tf.saved_model.load requires a 'tags=' argument if there is more than one "
                    "MetaGraph. Got 'tags=None', but there are %d MetaGraphs in the SavedModel with tag sets %s. Pass a "
                    "'tags=' argument to load this SavedModel." % (len(available), available)
                )
            meta_graph = loaded.load(self._session, tags)
            self.variables = list(self.graph.get_collection(ops.GraphKeys.GLOBAL_VARIABLES))
        hidden = (constants.INIT_OP_SIGNATURE_KEY, constants.TRAIN_OP_SIGNATURE_KEY)
        self.signatures = signature_serialization.SignatureMap(
            (key, self._function_of(signature))
            for key, signature in sorted(meta_graph.signature_def.items())
            if key not in hidden
        )

    def _function_of(self, signature: Any) -> SessionFunction:
        feeds = {k: self.graph.get_tensor_by_name(v.name) for k, v in sorted(signature.inputs.items())}
        fetches = {k: self.graph.get_tensor_by_name(v.name) for k, v in signature.outputs.items()}
        return SessionFunction(self._session, feeds, fetches)

    def prune(self, feeds: Any, fetches: Any) -> SessionFunction:
        """The function from some tensors, or names of tensors, to others."""
        element = self.graph.as_graph_element
        flat = [element(f) for f in nest.flatten(feeds)]
        return SessionFunction(
            self._session, {t.op.name: t for t in flat}, nest.map_structure(element, fetches)
        )


def load(export_dir: str, tags: Any) -> SessionModel:
    """The object of a model; see `tf.saved_model.load_v2`."""
    with ops.init_scope():
        return SessionModel(export_dir, tags)
