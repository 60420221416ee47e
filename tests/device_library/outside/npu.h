// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A device type outside the engine's tree: "NPU". Its memory holds every byte inverted, so reading it as host
// memory gives wrong numbers. Work is done at once; a device that works later also has a Stream.
#pragma once

#include <atomic>

#include "device/device.h"
#include "millrace/tensor.h"

namespace npu {

class NpuMemory final : public millrace::Allocator {
 public:
  explicit NpuMemory(millrace::MemorySpace* space) : Allocator(space) {}
  std::string_view name() const override { return "npu"; }
  void* Allocate(size_t bytes) override;
  void Deallocate(void* p, size_t bytes) override;
};

class Npu final : public millrace::Device {
 public:
  static constexpr const char* kType = "NPU";

  explicit Npu(millrace::DeviceAttributes attributes) : Device(std::move(attributes)), memory_(this) {}
  millrace::Allocator& allocator() override { return memory_; }
  void CopyToHost(const millrace::Tensor& from, const millrace::Tensor& to, CopyDone done) override;
  millrace::Status CopyFromHost(const millrace::Tensor& from, const millrace::Tensor& to) override;
  millrace::Status CopyFromDevice(Device& source, const millrace::Tensor& from,
                                  const millrace::Tensor& to) override;
  bool CanCopyFrom(const Device& source) const override { return source.type() == kType; }

 private:
  NpuMemory memory_;
};

// The number of kernel runs of this type in the process.
int64_t NumKernelsRun();

// Registers the type and its kernels. Sessions have the number of NPUs in their device_count.
millrace::Status RegisterNpu();

}  // namespace npu
