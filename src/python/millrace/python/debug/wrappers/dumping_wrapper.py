# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A session that writes the tensors of each run to a folder."""
from __future__ import annotations

import os
import threading
import time
from typing import Any

from millrace.python.debug.lib import _dump_files
from millrace.python.debug.wrappers import framework


class DumpingDebugWrapperSession(framework.NonInteractiveDebugWrapperSession):
    """Writes the tensors of each run to a new folder, which DebugDumpDir reads.

    Args:
      sess: the session.
      session_root: the folder in which each run gets one; it is new or empty.
      watch_fn: a function of fetches and feeds that returns WatchOptions; None: all tensors are watched.
      thread_name_filter: see BaseDebugWrapperSession.
      pass_through_operrors: whether errors of a run are raised.

    Raises:
      ValueError: if `session_root` is a file, or a folder that is not empty.
    """

    def __init__(
        self,
        sess: Any,
        session_root: str,
        watch_fn: Any = None,
        thread_name_filter: Any = None,
        pass_through_operrors: Any = None,
    ) -> None:
        super().__init__(
            sess,
            watch_fn=watch_fn,
            thread_name_filter=thread_name_filter,
            pass_through_operrors=pass_through_operrors,
        )
        session_root = os.path.expanduser(session_root)
        if os.path.exists(session_root):
            if not os.path.isdir(session_root):
                raise ValueError("session_root path points to a file: %s" % session_root)
            if os.listdir(session_root):
                raise ValueError("session_root path points to a non-empty directory: %s" % session_root)
        else:
            os.makedirs(session_root)
        self._session_root = session_root
        self._run_counter = 0
        self._run_counter_lock = threading.Lock()

    def prepare_run_debug_urls(self, fetches: Any, feed_dict: Any) -> Any:
        """The URL of a new folder, to which the fetches and feeds are written."""
        with self._run_counter_lock:
            run_dir = os.path.join(
                self._session_root, "run_%d_%d" % (int(time.time() * 1e6), self._run_counter)
            )
            self._run_counter += 1
        os.mkdir(run_dir)
        _dump_files.write_message(run_dir, _dump_files.FETCHES_INFO_FILE_TAG, repr(fetches))
        feed_keys = repr(feed_dict.keys()) if feed_dict else "None"
        _dump_files.write_message(run_dir, _dump_files.FEED_KEYS_INFO_FILE_TAG, feed_keys)
        return ["file://" + run_dir]
