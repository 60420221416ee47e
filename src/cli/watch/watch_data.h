// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "cli/watch/event_watcher.h"

namespace millrace::cli {

// The data of the page, as JSON.

// The runs and series, without points.
std::string IndexJson(const EventWatcher& watcher);
// The points of some series: an object by their ids; ids of none are left out. Images and sounds are named by
// their keys, or written out as "data:" addresses.
std::string SeriesJson(const EventStore& store, std::span<const uint64_t> ids, bool with_bytes);
// All of it, for programs: runs by name with the points of their series; images and sounds with their sizes
// only.
std::string AllJson(const EventWatcher& watcher);
// The page of a run's graph; an error if the run has no valid graph.
StatusOr<std::string> GraphPage(const Run& run);

// The page: one that asks its server for the data, or one with the data in it.
std::string LivePage(const std::string& title);
std::string WholePage(const EventWatcher& watcher, const std::string& title);

}  // namespace millrace::cli
