// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "eager/eager_tensor.h"

#include <set>

namespace millrace {

EagerTensor::EagerTensor(DataType dtype, const std::string& device)
    : dtype_(dtype), device_(&device), pending_(std::make_unique<Pending>()), ready_(false) {}

EagerTensor::~EagerTensor() = default;

Status EagerTensor::AwaitPending() const {
  MutexLock lock(pending_->mu);
  while (!ready_.load(std::memory_order_relaxed))
    pending_->changed.Wait(pending_->mu);  // the mutex orders it
  return pending_->status;
}

void EagerTensor::Set(Tensor value) {
  MutexLock lock(pending_->mu);
  value_ = std::move(value);
  ready_.store(true, std::memory_order_release);
  pending_->changed.NotifyAll();
}

void EagerTensor::Fail(const Status& status) {
  MutexLock lock(pending_->mu);
  pending_->status = status;
  ready_.store(true, std::memory_order_release);
  pending_->changed.NotifyAll();
}

const std::string& InternDeviceName(const std::string& name) {
  static auto* const mu = new Mutex;
  static auto* const names = new std::set<std::string>;
  MutexLock lock(*mu);
  return *names->insert(name).first;
}

}  // namespace millrace
