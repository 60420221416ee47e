// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Three threads put numbers into a queue, the main thread takes them out four at a time.
#include <iostream>

#include "millrace/client_session.h"
#include "millrace/coordinator.h"
#include "millrace/ops.h"

namespace mr = millrace;
namespace ops = millrace::ops;

mr::Status Run() {
  const mr::Scope scope = mr::Scope::NewRootScope();
  const mr::Output number = ops::Placeholder(scope, mr::DataType::kInt64);
  // Five elements at most: a further enqueue waits. Shapes have to be known for DequeueMany.
  const mr::Output queue = ops::FIFOQueueV2(scope, {mr::DataType::kInt64},
                                            ops::FIFOQueueV2::Capacity(5).Shapes({mr::TensorShape()}));
  const mr::Operation enqueue = ops::QueueEnqueueV2(scope, queue, {number});
  const mr::Operation close = ops::QueueCloseV2(scope, queue);
  const mr::Output batch = ops::QueueDequeueUpToV2(scope, queue, 4, {mr::DataType::kInt64})[0];
  mr::SessionOptions options;
  options.operation_timeout_in_ms = 60'000;  // a Run that waits longer ends with DeadlineExceeded
  const mr::ClientSession session(scope, options);

  // An error of any thread asks all to stop, and is what Join returns.
  mr::Coordinator coordinator;
  for (int64_t thread = 0; thread < 3; ++thread) {
    coordinator.StartThread("producer", [&, thread]() -> mr::Status {
      for (int64_t i = thread; i < 18 && !coordinator.ShouldStop(); i += 3)
        MR_RETURN_IF_ERROR(session.Run({{number, i}}, {}, {enqueue}, nullptr));
      return mr::Status();
    });
  }
  int64_t count = 0, sum = 0;
  std::vector<mr::Tensor> outputs;
  while (count < 16) {
    MR_RETURN_IF_ERROR(session.Run({batch}, &outputs));
    for (const int64_t value : outputs[0].vec<int64_t>()) ++count, sum += value;
  }
  MR_RETURN_IF_ERROR(coordinator.Join());

  // Once the queue is closed and the rest is out, it has reached the end: OutOfRange.
  MR_RETURN_IF_ERROR(session.Run({}, {}, {close}, nullptr));
  mr::Status status;
  while ((status = session.Run({batch}, &outputs)).ok()) {
    std::cout << "the last batch has " << outputs[0].dim(0) << " numbers\n";
    for (const int64_t value : outputs[0].vec<int64_t>()) ++count, sum += value;
  }
  std::cout << count << " numbers, sum " << sum << '\n';
  std::cout << mr::ErrorCodeName(status.code()) << '\n';
  return mr::errors::IsOutOfRange(status) ? mr::Status() : status;
}

int main() {
  const mr::Status status = Run();
  if (!status.ok()) std::cerr << status << '\n';
  return status.ok() ? 0 : 1;
}
