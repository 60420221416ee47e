// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/recent_requests.h"

#include <google/protobuf/message.h>

#include "base/strings.h"

namespace millrace {
namespace {

// Requests with tensors are truncated in errors.
constexpr size_t kMostBytes = 1024;

}  // namespace

Status RecentRequests::CheckNew(int64_t id, std::string_view method,
                                const google::protobuf::Message& request) {
  if (id == 0) return Status();
  {
    MutexLock lock(mu_);
    if (known_.insert(id).second) {
      if (ids_.size() < most_) {
        ids_.push_back(id);
      } else {
        known_.erase(ids_[oldest_]);
        ids_[oldest_] = id;
        oldest_ = (oldest_ + 1) % most_;
      }
      return Status();
    }
  }
  return errors::Aborted(
      "The same ", method, " request was received twice. ",
      request.ByteSizeLong() <= kMostBytes ? request.ShortDebugString() : StrCat("request_id: ", id));
}

}  // namespace millrace
