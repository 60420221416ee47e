// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/watch/event_watcher.h"
#include "cli/watch/http_server.h"

namespace millrace::cli {

// What the server of the page answers: "/" the page, "/index?since=N" what there is, as soon as it is newer
// than N,
// "/series?ids=1,2" points, "/blob?series=1&key=2" an image or a sound, "/graph?run=1" the page of a graph.
// One thread at a time.
class WatchService {
 public:
  // `env` is borrowed.
  WatchService(Env& env, const std::vector<std::string>& paths, std::string title)
      : watcher_(env, paths, {}), title_(std::move(title)) {}

  // Reads files until the time. Returns true if there is more to read.
  StatusOr<bool> Refresh(HttpServer::Clock::time_point until);
  std::optional<HttpResponse> Answer(const HttpRequest& request) const;
  const std::vector<std::string>& notes() const { return watcher_.store().notes(); }

 private:
  std::optional<HttpResponse> AnswerIndex(const HttpRequest& request) const;
  HttpResponse AnswerSeries(const HttpRequest& request) const;
  HttpResponse AnswerBlob(const HttpRequest& request) const;
  HttpResponse AnswerGraph(const HttpRequest& request) const;

  EventWatcher watcher_;
  const std::string title_;
};

}  // namespace millrace::cli
