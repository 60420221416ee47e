# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""The common part of the debugger."""
from __future__ import annotations

import collections
import json
from typing import Any

GRPC_URL_PREFIX = "grpc://"

# Identifies a kind of run: the names of its fetches and feeds.
RunKey = collections.namedtuple("RunKey", ["feed_names", "fetch_names"])


def get_graph_element_name(elem: Any) -> Any:
    """The name of a tensor, an operation, or anything else that has one; else its text."""
    return elem.name if hasattr(elem, "name") else str(elem)


def get_flattened_names(feeds_or_fetches: Any) -> list[str]:
    """The names of all elements of a structure of feeds or fetches."""
    if isinstance(feeds_or_fetches, dict):
        values: Any = feeds_or_fetches.values()
    elif isinstance(feeds_or_fetches, (list, tuple)):
        values = feeds_or_fetches
    else:
        return [get_graph_element_name(feeds_or_fetches)]
    return [name for value in values for name in get_flattened_names(value)]


def get_run_key(feed_dict: Any, fetches: Any) -> str:
    """A text that is the same for runs with the same feeds and fetches."""
    return json.dumps(RunKey(get_flattened_names(feed_dict), get_flattened_names(fetches)))


def get_run_start_intro(
    run_call_count: int,
    fetches: Any,
    feed_dict: Any,
    tensor_filters: Any,
    is_callable_runner: bool = False,
) -> str:
    """Lines that list the fetches and feeds of a run, and the filters."""
    names = ["(a callable)"] if is_callable_runner else get_flattened_names(fetches)
    lines = ["run #%d: %d fetch(es)" % (run_call_count, len(names))]
    lines += ["  fetch  " + name for name in names]
    if feed_dict:
        lines += ["  feed   " + get_graph_element_name(key) for key in feed_dict]
    lines += ["  filter " + name for name in sorted(tensor_filters or {})]
    return "\n".join(lines)


def get_run_short_description(
    run_call_count: int, fetches: Any, feed_dict: Any, is_callable_runner: bool = False
) -> str:
    """One line about a run."""
    if is_callable_runner:
        return "runner from make_callable()"
    description = "run #%d: " % run_call_count
    if hasattr(fetches, "name"):
        description += "1 fetch (%s); " % fetches.name
    else:
        count = len(get_flattened_names(fetches))
        description += "%d fetch%s; " % (count, "es" if count > 1 else "")
    if not feed_dict:
        return description + "0 feeds"
    if len(feed_dict) == 1:
        (key,) = feed_dict
        return description + "1 feed (%s)" % (
            key if isinstance(key, str) or not hasattr(key, "name") else key.name
        )
    return description + "%d feeds" % len(feed_dict)
