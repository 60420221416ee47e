// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/held_tensors.h"

#include <utility>

#include "base/random/philox.h"

namespace millrace {

// In the container of a step: drops the tensor with the step.
class HeldTensors::OfStep : public Resource {
 public:
  OfStep(std::shared_ptr<HeldTensors> all, uint64_t number) : all_(std::move(all)), number_(number) {}
  ~OfStep() override { all_->Drop(number_); }
  std::string DebugString() const override { return "A tensor for another task"; }

 private:
  const std::shared_ptr<HeldTensors> all_;
  const uint64_t number_;
};

StatusOr<uint64_t> HeldTensors::Hold(TaskSteps::Step& step, const Tensor& tensor) {
  uint64_t number = 0;
  {
    MutexLock lock(mu_);
    do {
      number = RandomSeed64();
    } while (held_.contains(number));
    held_.emplace(number, Held{tensor, static_cast<int64_t>(tensor.num_bytes())});
  }
  MR_RETURN_IF_ERROR(
      step.resources.Create("", StrCat("held/", number), MakeRef<OfStep>(shared_from_this(), number)));
  return number;
}

StatusOr<Tensor> HeldTensors::Find(uint64_t number) const {
  MutexLock lock(mu_);
  const auto it = held_.find(number);
  if (it == held_.end()) return errors::Aborted("The tensor was dropped because its step has ended");
  return it->second.tensor;
}

void HeldTensors::Sent(uint64_t number, int64_t num_bytes) {
  Tensor last;  // destroyed after the lock is released
  MutexLock lock(mu_);
  const auto it = held_.find(number);
  if (it == held_.end()) return;
  it->second.left -= num_bytes;
  if (it->second.left > 0) return;
  last = std::move(it->second.tensor);
  held_.erase(it);
}

size_t HeldTensors::size() const {
  MutexLock lock(mu_);
  return held_.size();
}

void HeldTensors::Drop(uint64_t number) {
  Tensor last;  // destroyed after the lock is released
  MutexLock lock(mu_);
  const auto it = held_.find(number);
  if (it == held_.end()) return;
  last = std::move(it->second.tensor);
  held_.erase(it);
}

}  // namespace millrace
