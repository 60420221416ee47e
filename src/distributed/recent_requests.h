// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "millrace/status.h"

namespace google::protobuf {
class Message;
}

namespace millrace {

// The last ids of requests that may take effect only once, although the network may deliver them twice.
// Thread-safe.
class RecentRequests {
 public:
  // The number of ids that are remembered.
  explicit RecentRequests(size_t most) : most_(most) {}
  // Aborted, with the request, for a repeated id. 0 is not an id.
  Status CheckNew(int64_t id, std::string_view method, const google::protobuf::Message& request)
      MR_EXCLUDES(mu_);

 private:
  const size_t most_;
  Mutex mu_;
  std::vector<int64_t> ids_ MR_GUARDED_BY(mu_);  // a ring when it is full
  size_t oldest_ MR_GUARDED_BY(mu_) = 0;
  std::unordered_set<int64_t> known_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
