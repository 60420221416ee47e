// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "step/collective_groups.h"

#include <iterator>
#include <utility>

namespace millrace {

Status CollectiveGroups::CheckJoining(const CollectiveMember& m, const Group& group) {
  if (group.device_type != m.device_type) {
    return errors::InvalidArgument("Collective Op ", m.name, " is assigned to device ", m.device,
                                   " with type ", m.device_type, " and group_key ", m.group_key,
                                   " but that group has type ", group.device_type);
  }
  if (group.size != m.group_size) {
    return errors::InvalidArgument("Collective Op ", m.name, " has group_size ", m.group_size,
                                   " and group_key ", m.group_key, " but that group has size ", group.size);
  }
  if (group.complete() && !group.devices.contains(m.device)) {
    return errors::InvalidArgument("Collective Op ", m.name, " is assigned to device ", m.device,
                                   " and group_key ", m.group_key,
                                   " but that group doesn't contain that device.");
  }
  return Status();
}

void CollectiveGroups::CompleteGroup(const CollectiveMember& member, Completed done) {
  Status status;
  std::vector<Completed> ready;
  std::vector<std::string> devices;
  if (member.group_size <= 0)
    return done(errors::InvalidArgument("group_size must be positive integer but got ", member.group_size));
  {
    MutexLock lock(mu_);
    auto it = groups_.find(member.group_key);
    if (it != groups_.end() && it->second.complete() && it->second.size != member.group_size) {
      groups_.erase(it);
      it = groups_.end();
    }
    if (it == groups_.end() && groups_.size() >= kMost) {
      status = errors::ResourceExhausted("There are ", kMost, " groups of devices already");
    } else {
      if (it == groups_.end()) {
        it = groups_.try_emplace(member.group_key).first;
        it->second.size = member.group_size;
        it->second.device_type = member.device_type;
      }
      Group& group = it->second;
      status = CheckJoining(member, group);
      if (status.ok()) {
        group.devices.insert(member.device);
        group.waiting.push_back(std::move(done));
        if (group.complete()) {
          ready.swap(group.waiting);
          devices.assign(group.devices.begin(), group.devices.end());
        }
      }
    }
  }
  if (!status.ok()) return done(std::move(status));
  for (Completed& each : ready) each(devices);
}

Status CollectiveGroups::CheckInstance(const CollectiveMember& m, const CollectiveMember& first) {
  const auto error = [&m](std::string_view what, const auto& wanted, const auto& got) {
    return errors::InvalidArgument("Collective instance ", m.instance_key, " of group ", m.group_key,
                                   " expected ", what, " ", wanted, " but Op ", m.name, " at ", m.device,
                                   " has ", got);
  };
  if (first.kind != m.kind) return error("type", static_cast<int>(first.kind), static_cast<int>(m.kind));
  if (first.dtype != m.dtype) return error("data_type", DataTypeName(first.dtype), DataTypeName(m.dtype));
  if (first.shape != m.shape) return error("shape", first.shape.ToString(), m.shape.ToString());
  return Status();
}

void CollectiveGroups::CompleteInstance(const CollectiveMember& member, Source done) {
  Status status;
  std::vector<Source> ready;
  int source = -1;
  {
    MutexLock lock(mu_);
    const auto it = groups_.find(member.group_key);
    if (it == groups_.end() || !it->second.complete() || !it->second.devices.contains(member.device)) {
      status = errors::FailedPrecondition("Collective Op ", member.name, ": the group ", member.group_key,
                                          " is not complete");
    } else if (it->second.instances.size() >= kMost) {
      status = errors::ResourceExhausted("Group ", member.group_key, " has ", kMost, " instances already");
    } else {
      Group& group = it->second;
      const auto [at, added] = group.instances.try_emplace(member.instance_key);
      Instance& instance = at->second;
      // An instance on which all agreed in an earlier step may have another shape in a later one.
      if (added) instance.first = member;
      status = CheckInstance(member, instance.first);
      const auto rank =
          static_cast<int>(std::distance(group.devices.begin(), group.devices.find(member.device)));
      if (status.ok() && member.is_source && instance.source_rank >= 0 && instance.source_rank != rank) {
        status = errors::InvalidArgument("Instance ", member.instance_key, " already has source ",
                                         instance.source_rank, ", received second claim from ", rank);
      }
      if (status.ok()) {
        if (member.is_source) instance.source_rank = rank;
        instance.joined.insert(member.device);
        instance.waiting.push_back(std::move(done));
        source = instance.source_rank;
        if (member.kind != CollectiveMember::Kind::kBroadcast || source >= 0) ready.swap(instance.waiting);
      } else {
        // Waiting members get the error, and the next attempt starts from scratch.
        ready.swap(instance.waiting);
        group.instances.erase(member.instance_key);
      }
    }
  }
  for (Source& each : ready) each(status.ok() ? StatusOr<int>(source) : StatusOr<int>(status));
  if (!status.ok()) done(std::move(status));
}

}  // namespace millrace
