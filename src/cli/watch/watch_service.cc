// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/watch_service.h"

#include "base/strings.h"
#include "cli/watch/watch_data.h"

namespace millrace::cli {
namespace {

constexpr size_t kMostIds = 500;
constexpr const char* kJson = "application/json";
constexpr const char* kHtml = "text/html; charset=utf-8";

uint64_t NumberOf(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? 0 : SafeStringToUint64(found->second).value_or(0);
}

HttpResponse NotFound() { return {.code = 404, .body = "There is nothing of that name.\n"}; }

}  // namespace

StatusOr<bool> WatchService::Refresh(HttpServer::Clock::time_point until) {
  return watcher_.Refresh([until] { return HttpServer::Clock::now() >= until; });
}

std::optional<HttpResponse> WatchService::Answer(const HttpRequest& request) const {
  if (request.path == "/") return HttpResponse{.type = kHtml, .body = LivePage(title_)};
  if (request.path == "/index") return AnswerIndex(request);
  if (request.path == "/series") return AnswerSeries(request);
  if (request.path == "/blob") return AnswerBlob(request);
  if (request.path == "/graph") return AnswerGraph(request);
  return NotFound();
}

std::optional<HttpResponse> WatchService::AnswerIndex(const HttpRequest& request) const {
  const bool is_news = watcher_.store().generation() != NumberOf(request, "since");
  if (!is_news && !request.too_late) return std::nullopt;
  return HttpResponse{.type = kJson, .body = is_news ? IndexJson(watcher_) : "null"};
}

HttpResponse WatchService::AnswerSeries(const HttpRequest& request) const {
  std::vector<uint64_t> ids;
  const auto found = request.query.find("ids");
  if (found == request.query.end()) return NotFound();
  for (const std::string_view id : StrSplitSkipEmpty(found->second, ',')) {
    if (ids.size() < kMostIds) ids.push_back(SafeStringToUint64(id).value_or(0));
  }
  return {.type = kJson, .body = SeriesJson(watcher_.store(), ids, false)};
}

HttpResponse WatchService::AnswerBlob(const HttpRequest& request) const {
  const BlobPoint* const point =
      watcher_.store().FindBlob(NumberOf(request, "series"), NumberOf(request, "key"));
  if (point == nullptr || point->type.empty()) return NotFound();
  return {.type = point->type, .body = point->bytes};
}

HttpResponse WatchService::AnswerGraph(const HttpRequest& request) const {
  const Run* const run = watcher_.store().FindRun(NumberOf(request, "run"));
  if (run == nullptr) return NotFound();
  const auto page = GraphPage(*run);
  if (!page.ok()) return {.code = 404, .body = StrCat(page.status().message(), "\n")};
  return {.type = kHtml, .body = *page};
}

}  // namespace millrace::cli
