# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""A session that prompts in the terminal for the kind of each run, and shows its tensors."""
from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from millrace.python.debug.cli import readline_ui
from millrace.python.debug.lib import common, debug_data
from millrace.python.debug.wrappers import framework

_DUMP_ROOT_PREFIX = "tfdbg_"


class LocalCLIDebugWrapperSession(framework.BaseDebugWrapperSession):
    """Prompts for a command before a run, writes the tensors of watched runs, and shows them.

    Args:
      sess: the session.
      dump_root: the folder to which runs are written, new or empty; None: a temporary one.
      log_usage: not used.
      ui_type: "curses" and "readline" are the same here: lines on the terminal.
      thread_name_filter: a pattern of names of threads; runs of others are not watched.
      config_file_path: not used.

    Raises:
      ValueError: if `dump_root` is a file, or a folder that is not empty.
    """

    def __init__(
        self,
        sess: Any,
        dump_root: Any = None,
        log_usage: bool = True,
        ui_type: str = "curses",
        thread_name_filter: Any = None,
        config_file_path: Any = False,
    ) -> None:
        super().__init__(sess, thread_name_filter=thread_name_filter)
        if ui_type not in ("curses", "readline"):
            raise ValueError("Invalid ui_type: '%s'" % ui_type)
        if not dump_root:
            self._dump_root = tempfile.mkdtemp(prefix=_DUMP_ROOT_PREFIX)
        else:
            dump_root = os.path.expanduser(dump_root)
            if os.path.isfile(dump_root):
                raise ValueError("dump_root path points to a file: %s" % dump_root)
            if os.path.isdir(dump_root) and os.listdir(dump_root):
                raise ValueError("dump_root path points to a non-empty directory: %s" % dump_root)
            self._dump_root = dump_root
        self._ui_type = ui_type
        self._tensor_filters: dict[str, Any] = {}
        self.add_tensor_filter("has_inf_or_nan", debug_data.has_inf_or_nan)
        self._active_tensor_filter: Any = None
        self._active_filter_exclude_node_names: Any = None
        self._run_through_times = 1
        self._skip_debug = False
        self._run_start_response: Any = None
        self._run_info = ""
        self._fetches: Any = None
        self._feed_dict: Any = None
        self._run_cli: Any = None

    def add_tensor_filter(self, filter_name: str, tensor_filter: Callable[[Any, Any], Any]) -> None:
        """Adds a filter, which commands refer to by its name.

        Args:
          filter_name: the name; "has_inf_or_nan" is predefined.
          tensor_filter: a function of a DebugTensorDatum and the array, which returns a bool.
        """
        if not isinstance(filter_name, str):
            raise TypeError("Input argument filter_name is expected to be str, but is not.")
        if not filter_name:
            raise ValueError("Input argument filter_name cannot be empty.")
        if not callable(tensor_filter):
            raise TypeError("Input argument tensor_filter is expected to be callable, but is not.")
        self._tensor_filters[filter_name] = tensor_filter

    def get_tensor_filter(self, filter_name: str) -> Any:
        """The filter of that name.

        Raises:
          ValueError: if there is none.
        """
        if filter_name not in self._tensor_filters:
            raise ValueError('There is no tensor filter named "%s"' % filter_name)
        return self._tensor_filters[filter_name]

    def on_session_init(self, request: Any) -> Any:
        return framework.OnSessionInitResponse(framework.OnSessionInitAction.PROCEED)

    def _debug_urls(self) -> list[str]:
        return ["file://" + self._dump_root]

    def on_run_start(self, request: Any) -> Any:
        self._fetches, self._feed_dict = request.fetches, request.feed_dict
        self._run_info = common.get_run_short_description(
            request.run_call_count, request.fetches, request.feed_dict, request.is_callable_runner
        )
        if request.is_callable_runner:
            return self._response(framework.OnRunStartAction.NON_DEBUG_RUN)
        if self._active_tensor_filter:
            return self._run_start_response
        if self._run_start_response is None:
            self._prep_cli_for_run_start()
            self._run_start_response = self._launch_cli()
        if self._run_through_times > 1:
            self._run_through_times -= 1
            return self._response(framework.OnRunStartAction.NON_DEBUG_RUN)
        return self._run_start_response

    def on_run_end(self, request: Any) -> Any:
        if request.performed_action == framework.OnRunStartAction.DEBUG_RUN:
            self._show(request)
        elif self._run_through_times <= 1 and not self._active_tensor_filter:
            self._run_start_response = None
        return framework.OnRunEndResponse()

    def _show(self, request: Any) -> None:
        graphs = request.run_metadata.partition_graphs if request.run_metadata is not None else None
        dump: Any = None
        if os.path.isdir(self._dump_root):
            dump = debug_data.DebugDumpDir(self._dump_root, partition_graphs=graphs, validate=False)
            dump.set_python_graph(self._sess.graph)
        passed: Any = None
        if self._active_tensor_filter and request.tf_error is None:
            # If no tensor was watched, there is no folder.
            passed = dump is not None and dump.find(
                self.get_tensor_filter(self._active_tensor_filter),
                first_n=1,
                exclude_node_names=self._active_filter_exclude_node_names,
            )
            if not passed:
                self._remove_dump_root()
                return
        filter_name, self._active_tensor_filter = self._active_tensor_filter, None
        self._prep_debug_cli_for_run_end(dump, request.tf_error, filter_name if passed else None)
        self._run_start_response = self._launch_cli()
        self._remove_dump_root()

    def _remove_dump_root(self) -> None:
        if os.path.isdir(self._dump_root):
            shutil.rmtree(self._dump_root)

    def _prep_cli_for_run_start(self) -> None:
        self._run_cli = readline_ui.DebugCLI(
            self._tensor_filters, common.get_run_start_intro(
                self.run_call_count, self._fetches, self._feed_dict, self._tensor_filters
            )
        )  # fmt: skip

    def _prep_debug_cli_for_run_end(self, debug_dump: Any, tf_error: Any, passed_filter: Any) -> None:
        self._run_cli = readline_ui.DebugCLI(
            self._tensor_filters, "after " + self._run_info, debug_dump, tf_error, passed_filter
        )

    def _launch_cli(self) -> Any:
        """Reads commands until one resumes the run."""
        self._run_through_times = 1
        request = self._run_cli.run_ui()
        if request is None:
            self._remove_dump_root()
            print("tfdbg: the program ends", file=sys.stderr)
            sys.exit(1)
        return self._run_handler(request)

    def _run_handler(self, request: Any) -> Any:
        """The response for the command "run" with these options."""
        self._skip_debug = request.no_debug
        self._run_through_times = request.times
        self._active_tensor_filter = request.till_filter_pass
        self._active_filter_exclude_node_names = request.filter_exclude_node_names
        if request.profile:
            return self._response(framework.OnRunStartAction.PROFILE_RUN)
        if request.no_debug:
            return self._response(framework.OnRunStartAction.NON_DEBUG_RUN)
        return framework.OnRunStartResponse(
            framework.OnRunStartAction.DEBUG_RUN,
            self._debug_urls(),
            node_name_regex_whitelist=request.node_name_filter,
            op_type_regex_whitelist=request.op_type_filter,
            tensor_dtype_regex_whitelist=request.tensor_dtype_filter,
        )

    def _response(self, action: str) -> Any:
        return framework.OnRunStartResponse(action, [])

    def close(self) -> None:
        self._remove_dump_root()
        super().close()
