// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/copy.h"

#include <utility>

#include "base/notification.h"

namespace millrace {

void BringTensor(const Tensor& tensor, Device* to, Allocator& allocator, TensorDone done) {
  Device* const from = DeviceOf(tensor);
  // A tensor without a buffer has no elements, or is a variable without a value.
  if (from == to || tensor.buffer() == nullptr) return done(tensor);
  StatusOr<Tensor> made = Tensor::Allocate(tensor.dtype(), tensor.shape(), allocator);
  if (!made.ok()) return done(made.status());
  const Tensor copy = *std::move(made);
  const auto finish = [](TensorDone& last, const Tensor& value, const Status& status) {
    last(status.ok() ? StatusOr<Tensor>(value) : StatusOr<Tensor>(status));
  };
  if (from == nullptr) return finish(done, copy, to->CopyFromHost(tensor, copy));
  if (to == nullptr) {
    return from->CopyToHost(
        tensor, copy,
        [copy, finish, last = std::move(done)](const Status& status) mutable { finish(last, copy, status); });
  }
  if (to->CanCopyFrom(*from)) return finish(done, copy, to->CopyFromDevice(*from, tensor, copy));
  StatusOr<Tensor> between = Tensor::Allocate(tensor.dtype(), tensor.shape(), from->host_allocator());
  if (!between.ok()) return done(between.status());
  const Tensor host = *std::move(between);
  from->CopyToHost(tensor, host,
                   [host, copy, to, finish, last = std::move(done)](const Status& status) mutable {
                     finish(last, copy, status.ok() ? to->CopyFromHost(host, copy) : status);
                   });
}

StatusOr<Tensor> BringToHost(const Tensor& tensor) {
  Device* const from = DeviceOf(tensor);
  if (from == nullptr) return tensor;
  Notification there;
  StatusOr<Tensor> result = errors::Internal("Nothing was copied");
  BringTensor(tensor, nullptr, from->host_allocator(), [&](StatusOr<Tensor> copy) {
    result = std::move(copy);
    there.Notify();
  });
  there.Wait();
  return result;
}

}  // namespace millrace
