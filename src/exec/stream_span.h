// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "device/stream.h"
#include "kernel/kernel_context.h"
#include "kernel/op_kernel.h"
#include "millrace/ref.h"

namespace millrace {

class StepTraces;

// The part of a device's stream that one run of a kernel fills. In a traced step, the times at which that
// work begins and ends go into the trace; else it has no effect.
class StreamSpan {
 public:
  explicit StreamSpan(const KernelContext& context);
  // To be called when the kernel has added its work, within the run.
  void End();

 private:
  StepTraces* traces_ = nullptr;
  Device* device_ = nullptr;
  RefPtr<Event> begin_;
  std::string node_;
  std::string op_;
};

// A kernel of a device with a stream, with its work measured in traced steps.
std::shared_ptr<OpKernel> MeasureInStream(std::shared_ptr<OpKernel> kernel, KernelConstruction& construction);

}  // namespace millrace
