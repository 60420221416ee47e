// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "device/device.h"
#include "distributed/recent_requests.h"
#include "distributed/transport.h"
#include "step/task_collectives.h"

namespace millrace {

// Calls the WorkerServices of other tasks with TensorFlow's messages. Thread-safe.
class TransportCollectivePeers : public CollectivePeers {
 public:
  // REQUIRES: `transport` outlives this.
  explicit TransportCollectivePeers(Transport& transport) : transport_(transport) {}
  void Fetch(const Buffer& buffer, CancellationManager& cancellation, StepCollectives::Fetched done) override;
  void CompleteGroup(std::string_view leader, const CollectiveMember& member,
                     CancellationManager& cancellation, CollectiveGroups::Completed done) override;
  void CompleteInstance(std::string_view leader, const CollectiveMember& member,
                        CancellationManager& cancellation, CollectiveGroups::Source done) override;
  StatusOr<NumberedStep> NextStep(std::string_view leader, int64_t graph_key,
                                  const StepTaker& taker) override;

 private:
  Transport& transport_;
};

// Answers RecvBuf, CompleteGroup, CompleteInstance and GetStepSequence at a task with these devices.
// `cancellation` lives until the reply; `recent` has the requests that may run only once.
void HandleCollective(TaskCollectives& collectives, const DeviceSet& devices, RecentRequests& recent,
                      Method method, const MessageBytes& request, CancellationManager& cancellation,
                      Reply reply);

}  // namespace millrace
