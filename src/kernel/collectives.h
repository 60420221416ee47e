// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function.h"
#include "kernel/resource.h"
#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// The attributes of a node for its group, and for the operation of the group.
struct CollectiveMember {
  enum class Kind : int { kReduce = 0, kBroadcast = 1, kGather = 2 };  // TensorFlow's numbers
  std::string name;                                                    // of the node
  Kind kind = Kind::kReduce;
  DataType dtype = DataType::kFloat;
  TensorShape shape;
  int32_t group_key = 0;
  int32_t group_size = 0;
  int32_t instance_key = 0;
  std::string device_type;
  std::string device;
  bool is_source = false;  // of a broadcast
};

// A complete group, from the view of one of its members.
struct CollectiveGroup {
  std::vector<std::string> devices;  // sorted; the index is the rank
  int rank = 0;
  int source_rank = -1;  // of a broadcast
};

// Collective operations of one step at one task. It is a resource of a step that has such nodes. Callbacks
// are called once, on any thread, with no lock held. Thread-safe.
class StepCollectives : public Resource {
 public:
  static constexpr std::string_view kName = "collectives";
  using Done = UniqueFunction<void(Status)>;
  using Joined = UniqueFunction<void(StatusOr<CollectiveGroup>)>;
  using Fetched = UniqueFunction<void(Status, Tensor)>;

  // Waits until all members have joined. InvalidArgument when they do not agree.
  virtual void Join(const CollectiveMember& member, Joined done) = 0;
  // Offers a buffer to another member, and waits until it has been taken.
  virtual void Provide(std::string_view key, std::string_view from, std::string_view to, Tensor buffer,
                       Done taken) = 0;
  // Takes a buffer of that many elements, as a vector. Internal if it has another size.
  virtual void Fetch(std::string_view key, std::string_view from, std::string_view to, DataType dtype,
                     int64_t num_elements, Fetched done) = 0;
  // Ends all waits, here and at the tasks that take buffers of this step here.
  virtual void Abort(const Status& status) = 0;
  std::string DebugString() const override { return "collectives"; }
};

}  // namespace millrace
