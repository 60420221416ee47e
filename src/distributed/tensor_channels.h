// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/held_tensors.h"
#include "distributed/message_bytes.h"
#include "distributed/tensor_channel.h"
#include "distributed/tensor_message.h"
#include "distributed/traffic.h"
#include "kernel/rendezvous.h"

namespace tensorflow {
class RecvTensorRequest;
}

namespace millrace {

// The channels of a task for large tensors, and the choice of one with another task: a receiver lists its own
// in transport_options, which other servers ignore; a sender that has one of them answers with an offer
// instead of the elements. Thread-safe.
class TensorChannels {
 public:
  // In order of preference. `traffic`, which outlives this, counts tensors that do not travel in messages.
  TensorChannels(std::shared_ptr<HeldTensors> held, std::vector<std::unique_ptr<TensorChannel>> channels,
                 Traffic* traffic = nullptr);

  HeldTensors& held() { return *held_; }
  // Lists the channels in the request.
  void Introduce(tensorflow::RecvTensorRequest* request) const;
  // The transport_options of a request, if they are of this kind; otherwise empty.
  static std::string IntroductionsOf(tensorflow::RecvTensorRequest* request);
  // A response with an offer, if a channel takes the tensor; otherwise none. `introductions`: IntroductionsOf
  // the request.
  StatusOr<std::optional<MessageBytes>> Offer(std::string_view introductions, TaskSteps& steps,
                                              int64_t step_id, const Tensor& tensor, int64_t send_start_us);
  // Fetches the tensor that `task` has offered. Internal for a channel that this side does not have.
  void Fetch(std::string_view task, const OfferedTensor& offer, CancellationManager* cancellation,
             Rendezvous::RecvDone done);
  // See TensorChannel::Stop.
  void Stop();

 private:
  TensorChannel* Find(std::string_view name) const;

  const std::shared_ptr<HeldTensors> held_;
  const std::vector<std::unique_ptr<TensorChannel>> channels_;
  Traffic* const traffic_;
  std::string introductions_;
};

}  // namespace millrace
