// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "millrace/ref.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace millrace {

// A tensor of a program that executes ops one by one: a value, or one that an asynchronous context has not
// computed yet. Outlives its context. Thread-safe.
class EagerTensor : public RefCounted {
 public:
  EagerTensor(Tensor value, const std::string& device)
      : dtype_(value.dtype()), device_(&device), ready_(true), value_(std::move(value)) {}
  // The result of an op that has not run; Set or Fail follows.
  EagerTensor(DataType dtype, const std::string& device);
  ~EagerTensor() override;

  DataType dtype() const { return dtype_; }
  const std::string& device_name() const { return *device_; }
  // Waits for the value. Returns the error of the op that should have computed it.
  Status Await() const {
    if (ready_.load(std::memory_order_acquire) && pending_ == nullptr) [[likely]]
      return Status();
    return AwaitPending();
  }
  // REQUIRES: Await() was OK.
  const Tensor& value() const { return value_; }
  void Set(Tensor value);
  void Fail(const Status& status);

 private:
  struct Pending {
    Mutex mu;
    CondVar changed;
    Status status MR_GUARDED_BY(mu);
  };
  Status AwaitPending() const;

  const DataType dtype_;
  const std::string* const device_;         // lives for ever
  const std::unique_ptr<Pending> pending_;  // null for a tensor that was created with its value
  std::atomic<bool> ready_;                 // set, by release, after the value or the error
  Tensor value_;
};

// The name, at an address that is valid while the process lives.
const std::string& InternDeviceName(const std::string& name);

}  // namespace millrace
