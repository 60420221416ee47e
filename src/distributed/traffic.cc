// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/traffic.h"

#include <chrono>
#include <utility>

#include "base/logging.h"

namespace millrace {
namespace {

constexpr int64_t kLogEverySeconds = 1;
// A task answers these at once; a task that does not must not delay the end of a session.
constexpr int64_t kCleanupMs = 10'000;

bool IsCleanup(Method method) {
  return method == Method::kDeregisterGraph || method == Method::kCleanupGraph ||
         method == Method::kDeleteWorkerSession;
}

// Whether the task has nothing to clean up: "Session handle is not found", "Graph handle …".
bool IsGone(const Status& status) {
  return status.message().find("is not found: ") != std::string_view::npos;
}

}  // namespace

void Traffic::AddFailedCleanup(Method method, const std::string& task, const Status& status) {
  using std::chrono::steady_clock;
  failed_cleanups_.fetch_add(1, std::memory_order_relaxed);
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now().time_since_epoch()).count();
  int64_t last = logged_at_s_.load(std::memory_order_relaxed);
  if (now < last + kLogEverySeconds || !logged_at_s_.compare_exchange_strong(last, now)) return;
  MR_LOG(Warning) << MethodName(method) << " at " << task << " failed (nothing else is affected): " << status;
}

void MeteredTransport::Start(RemoteCall call, Reply reply) {
  traffic_.AddSent(static_cast<int64_t>(call.request.size()));
  if (!IsCleanup(call.method)) {
    return inner_.Start(std::move(call), [&traffic = traffic_, finish = std::move(reply)](
                                             Status status, MessageBytes bytes) mutable {
      traffic.AddReceived(static_cast<int64_t>(bytes.size()));
      finish(std::move(status), std::move(bytes));
    });
  }
  if (call.timeout_in_ms == 0) call.timeout_in_ms = kCleanupMs;
  const Method method = call.method;
  const std::string task = call.task;
  inner_.Start(std::move(call), [&traffic = traffic_, method, task, finish = std::move(reply)](
                                    Status status, MessageBytes bytes) mutable {
    traffic.AddReceived(static_cast<int64_t>(bytes.size()));
    if (!status.ok() && !IsGone(status)) traffic.AddFailedCleanup(method, task, status);
    finish(std::move(status), std::move(bytes));
  });
}

}  // namespace millrace
