// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "kernel/kernel_context.h"
#include "kernel/resource.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/resource_handle.h"

namespace millrace {

// Tensors that a session keeps from one step to the next, by handle: "<node>;<number>;<device>". A step that
// makes one registers it with Offer; the session keeps those whose handles the step's client fetched.
// Thread-safe.
class SessionTensors {
 public:
  // The container of resource handles to such tensors.
  static constexpr std::string_view kContainer = "TensorHandle";

  // A handle for the value, as the output of the node that runs in `context`. InvalidArgument when the node
  // has run in this step before.
  StatusOr<std::string> Offer(const KernelContext& context, const Tensor& value);
  // Takes over the tensors offered by the nodes of `fetches` ("node" or "node:0") in the step with that
  // container, once: they leave the container. Several calls in a step may name different nodes.
  void Keep(ResourceManager& step_resources, std::span<const std::string> fetches) MR_EXCLUDES(mu_);
  // InvalidArgument when there is none.
  StatusOr<Tensor> Get(std::string_view handle) const MR_EXCLUDES(mu_);
  Status Delete(std::string_view handle) MR_EXCLUDES(mu_);
  size_t size_for_test() const MR_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  int64_t next_ MR_GUARDED_BY(mu_) = 0;
  std::map<std::string, Tensor, std::less<>> tensors_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace
