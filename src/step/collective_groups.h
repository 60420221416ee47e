// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/function.h"
#include "base/mutex.h"
#include "kernel/collectives.h"

namespace millrace {

// State of the leader of collective groups: their members and operations. Thread-safe.
class CollectiveGroups {
 public:
  using Completed = UniqueFunction<void(StatusOr<std::vector<std::string>> devices)>;
  using Source = UniqueFunction<void(StatusOr<int> source_rank)>;

  // Calls `done` with the sorted devices when as many as the group's size have joined. InvalidArgument for a
  // member that contradicts earlier ones, or that is one too many. A complete group is replaced by one of the
  // same key and another size, so that a server outlives the programs that use it.
  void CompleteGroup(const CollectiveMember& member, Completed done) MR_EXCLUDES(mu_);
  // Calls `done` with the rank of the source of a broadcast, as soon as it is known; with -1 for other kinds.
  // InvalidArgument for a member that contradicts earlier ones; when all members have joined, the next one
  // starts a new instance. FailedPrecondition when the group is not complete.
  void CompleteInstance(const CollectiveMember& member, Source done) MR_EXCLUDES(mu_);

 private:
  static constexpr size_t kMost = 65536;  // of each kind: requests of peers must not exhaust memory
  struct Instance {
    CollectiveMember first;
    std::set<std::string> joined;
    int source_rank = -1;
    std::vector<Source> waiting;
  };
  struct Group {
    int32_t size = 0;
    std::string device_type;
    std::set<std::string> devices;
    std::vector<Completed> waiting;
    std::map<int32_t, Instance> instances;
    bool complete() const { return devices.size() == static_cast<size_t>(size); }
  };
  static Status CheckJoining(const CollectiveMember& member, const Group& group);
  static Status CheckInstance(const CollectiveMember& member, const CollectiveMember& first);

  Mutex mu_;
  std::map<int32_t, Group> groups_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
