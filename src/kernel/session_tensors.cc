// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/session_tensors.h"

#include <utility>

namespace millrace {
namespace {

constexpr char kOffered[] = "_session_tensors";

// Is kept in the step's container, under the name of its node.
class OfferedTensor final : public Resource {
 public:
  OfferedTensor(std::string h, Tensor v) : handle(std::move(h)), value(std::move(v)) {}
  std::string DebugString() const override { return handle; }
  const std::string handle;
  const Tensor value;
};

Status NotKept(std::string_view handle) {
  return errors::InvalidArgument("The tensor with handle '", handle, "' is not in the session store.");
}

}  // namespace

StatusOr<std::string> SessionTensors::Offer(const KernelContext& context, const Tensor& value) {
  ResourceManager* const step = context.step().step_resources;
  if (step == nullptr) return errors::Internal("The step has no container for tensors of the session");
  const std::string& node = context.kernel().name();
  int64_t number;
  {
    MutexLock lock(mu_);
    number = next_++;
  }
  std::string handle = StrCat(node, ";", number, ";", context.device().name());
  if (!step->Create(kOffered, node, MakeRef<OfferedTensor>(handle, value)).ok()) {
    return errors::InvalidArgument("Failed to add a tensor with name '", node, "' to the tensor store.");
  }
  return handle;
}

void SessionTensors::Keep(ResourceManager& step_resources, std::span<const std::string> fetches) {
  for (const std::string& fetch : fetches) {
    const std::string_view node = std::string_view(fetch).substr(0, fetch.find(':'));
    const auto offered = step_resources.Lookup<OfferedTensor>(kOffered, node);
    // A node may be fetched twice, and two that fetch it at once may both find it here.
    if (!offered.ok()) continue;
    step_resources.Delete<OfferedTensor>(kOffered, node).IgnoreError("another call may have been first");
    MutexLock lock(mu_);
    tensors_.try_emplace((*offered)->handle, (*offered)->value);
  }
}

StatusOr<Tensor> SessionTensors::Get(std::string_view handle) const {
  MutexLock lock(mu_);
  const auto it = tensors_.find(handle);
  if (it == tensors_.end()) return NotKept(handle);
  return it->second;
}

Status SessionTensors::Delete(std::string_view handle) {
  decltype(tensors_)::node_type deleted;  // destroyed after the lock is released
  MutexLock lock(mu_);
  const auto it = tensors_.find(handle);
  if (it == tensors_.end()) return NotKept(handle);
  deleted = tensors_.extract(it);
  return Status();
}

size_t SessionTensors::size_for_test() const {
  MutexLock lock(mu_);
  return tensors_.size();
}

}  // namespace millrace
