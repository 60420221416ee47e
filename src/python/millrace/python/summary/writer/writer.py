# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""FileWriter: summaries, graphs and traces to an event file."""

from __future__ import annotations

import os.path
import time
from typing import Any

from millrace.python.eager import context
from millrace.python.framework import ops
from millrace.python.platform import tf_logging as logging
from millrace.python.summary import plugin_asset
from millrace.python.summary.writer.event_file_writer import EventFileWriter

_PLUGINS_DIR = "plugins"


class SummaryToEventTransformer:
    """Converts summaries, graphs, logs and traces to events, and passes them to a writer."""

    def __init__(self, event_writer: Any, graph: Any = None, graph_def: Any = None) -> None:
        """Keeps the arguments, and writes the graph, if any.

        Args:
          event_writer: an object with a method `add_event`.
          graph, graph_def: a graph to write now, or None; not both.
        """
        self.event_writer = event_writer
        self._session_run_tags: dict[str, bool] = {}
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
            # The meta graph is written as well, as TensorBoard expects.
            maybe_graph_as_def = (
                graph.as_graph_def(add_shapes=True) if isinstance(graph, ops.Graph) else graph
            )
            from millrace.python.framework import meta_graph

            self.add_meta_graph(meta_graph.create_meta_graph_def(graph_def=graph_def or maybe_graph_as_def))
        # Tags whose metadata was written already, and is left out of later events.
        self._seen_summary_tags: set[str] = set()

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Adds a Summary, as message or serialized."""
        from millrace.core.framework import summary_pb2
        from millrace.core.util import event_pb2

        if isinstance(summary, bytes):
            summary = summary_pb2.Summary.FromString(summary)
        for value in summary.value:
            if not value.metadata:
                continue
            if value.tag in self._seen_summary_tags:
                value.ClearField("metadata")
                continue
            self._seen_summary_tags.add(value.tag)
        self._add_event(event_pb2.Event(summary=summary), global_step)

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Adds a SessionLog."""
        from millrace.core.util import event_pb2

        self._add_event(event_pb2.Event(session_log=session_log), global_step)

    def _add_graph_def(self, graph_def: Any, global_step: Any = None) -> None:
        from millrace.core.util import event_pb2

        self._add_event(event_pb2.Event(graph_def=graph_def.SerializeToString()), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Adds a Graph (or, in the older way, a GraphDef).

        Raises:
          ValueError: if both are given.
          TypeError: if neither is a graph.
        """
        from millrace.core.framework import graph_pb2

        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, ops.Graph) or isinstance(graph_def, ops.Graph):
            whole = graph if isinstance(graph, ops.Graph) else graph_def
            if not isinstance(graph, ops.Graph):
                logging.warning(
                    "When passing a `Graph` object, please use the `graph` named argument instead of `graph_def`."
                )
            true_graph_def = whole.as_graph_def(add_shapes=True)
            self._write_plugin_assets(whole)
        elif isinstance(graph, graph_pb2.GraphDef) or isinstance(graph_def, graph_pb2.GraphDef):
            logging.warning(
                "Passing a `GraphDef` to the SummaryWriter is deprecated. Pass a `Graph` object instead,"
                " such as `sess.graph`."
            )
            true_graph_def = graph if isinstance(graph, graph_pb2.GraphDef) else graph_def
        else:
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated `GraphDef`")
        self._add_graph_def(true_graph_def, global_step)

    def _write_plugin_assets(self, graph: Any) -> None:
        from millrace.python.lib.io import file_io

        for asset in plugin_asset.get_all_plugin_assets(graph):
            logdir = os.path.join(self.event_writer.get_logdir(), _PLUGINS_DIR, asset.plugin_name)
            file_io.recursive_create_dir(logdir)
            for asset_name, content in asset.assets().items():
                with file_io.FileIO(os.path.join(logdir, asset_name), "w") as f:
                    f.write(content)

    def add_meta_graph(self, meta_graph_def: Any, global_step: Any = None) -> None:
        """Adds a MetaGraphDef. Raises TypeError for anything else."""
        from millrace.core.protobuf import meta_graph_pb2
        from millrace.core.util import event_pb2

        if not isinstance(meta_graph_def, meta_graph_pb2.MetaGraphDef):
            raise TypeError("meta_graph_def must be type MetaGraphDef, saw type: %s" % type(meta_graph_def))
        self._add_event(event_pb2.Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Adds the RunMetadata of a step under a tag. Raises ValueError for a tag that was used."""
        from millrace.core.util import event_pb2

        if tag in self._session_run_tags:
            raise ValueError("The provided tag was already used for this event type")
        self._session_run_tags[tag] = True
        tagged_metadata = event_pb2.TaggedRunMetadata()
        tagged_metadata.tag = tag
        tagged_metadata.run_metadata = run_metadata.SerializeToString()
        self._add_event(event_pb2.Event(tagged_run_metadata=tagged_metadata), global_step)

    def _add_event(self, event: Any, step: Any) -> None:
        event.wall_time = time.time()
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)


class FileWriter(SummaryToEventTransformer):
    """Writes events to a new file in a folder, in a thread of its own."""

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        """Makes the writer.

        Args:
          logdir: folder, made if missing.
          graph: a graph to write now, or None.
          max_queue: the number of queued events from which on callers wait.
          flush_secs: seconds between flushes of the file.
          graph_def: older form of `graph`.
          filename_suffix: suffix of the file's name.
          session: if given, events go through ops in its graph, so that writers of one session share the
            file.
        """
        if context.executing_eagerly():
            raise RuntimeError(
                "tf.summary.FileWriter is not compatible with eager execution. Use tf.contrib.summary instead."
            )
        event_writer: Any
        if session is not None:
            from millrace.python.summary.writer.event_file_writer_v2 import EventFileWriterV2

            event_writer = EventFileWriterV2(session, logdir, max_queue, flush_secs, filename_suffix)
        else:
            event_writer = EventFileWriter(logdir, max_queue, flush_secs, filename_suffix)
        self._closed = False
        super().__init__(event_writer, graph, graph_def)

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, unused_type: Any, unused_value: Any, unused_traceback: Any) -> None:
        self.close()

    def get_logdir(self) -> str:
        """The folder."""
        directory: str = self.event_writer.get_logdir()
        return directory

    def _warn_if_event_writer_is_closed(self) -> None:
        if self._closed:
            import warnings

            warnings.warn(
                "Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is explicitly reopened."
            )

    def _add_event(self, event: Any, step: Any) -> None:
        self._warn_if_event_writer_is_closed()
        super()._add_event(event, step)

    def add_event(self, event: Any) -> None:
        """Adds an Event."""
        self._warn_if_event_writer_is_closed()
        self.event_writer.add_event(event)

    def flush(self) -> None:
        """Returns when everything added before is in the file."""
        self._warn_if_event_writer_is_closed()
        self.event_writer.flush()

    def close(self) -> None:
        """Writes the queued events, and closes the file."""
        self.event_writer.close()
        self._closed = True

    def reopen(self) -> None:
        """Makes the writer usable again after `close`."""
        self.event_writer.reopen()
        self._closed = False
