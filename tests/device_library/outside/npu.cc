// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "npu.h"

#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernels/device/register.h"

namespace npu {

using namespace millrace;

namespace {

std::atomic<int64_t> kernels_run{0};

void CopyInverted(const void* from, void* to, size_t bytes) {
  const auto* const source = static_cast<const unsigned char*>(from);
  auto* const target = static_cast<unsigned char*>(to);
  for (size_t i = 0; i < bytes; ++i) target[i] = static_cast<unsigned char>(~source[i]);
}

// The values of a tensor in the device's memory, as its arithmetic sees them.
std::vector<float> Read(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  if (!values.empty()) CopyInverted(tensor.raw_data(), values.data(), tensor.num_bytes());
  return values;
}
void Write(const std::vector<float>& values, Tensor* tensor) {
  if (!values.empty()) CopyInverted(values.data(), tensor->raw_data(), tensor->num_bytes());
}

class NpuMatMul final : public OpKernel {
 public:
  explicit NpuMatMul(KernelConstruction& c) : OpKernel(c) {
    if (c.Attr<bool>("transpose_a") || c.Attr<bool>("transpose_b"))
      c.SetError(errors::Unimplemented("NPUs do not transpose"));
  }
  Status Compute(KernelContext& context) override {
    const Tensor &a = context.input(0), &b = context.input(1);
    if (a.shape().rank() != 2 || b.shape().rank() != 2 || a.shape().dim(1) != b.shape().dim(0))
      return errors::InvalidArgument("NPUs multiply no ", a.shape(), " by ", b.shape());
    const auto rows = static_cast<size_t>(a.shape().dim(0)), inner = static_cast<size_t>(a.shape().dim(1)),
               columns = static_cast<size_t>(b.shape().dim(1));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, {a.shape().dim(0), b.shape().dim(1)}));
    const std::vector<float> left = Read(a), right = Read(b);
    std::vector<float> product(rows * columns);
    for (size_t i = 0; i < rows; ++i)
      for (size_t k = 0; k < inner; ++k)
        for (size_t j = 0; j < columns; ++j)
          product[i * columns + j] += left[i * inner + k] * right[k * columns + j];
    Write(product, out);
    ++kernels_run;
    return Status();
  }
};

class NpuRelu final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, context.input(0).shape()));
    std::vector<float> values = Read(context.input(0));
    for (float& value : values) value = value > 0 ? value : 0;
    Write(values, out);
    ++kernels_run;
    return Status();
  }
};

Status MakeNpus(const DeviceOptions& options, std::vector<std::unique_ptr<Device>>* devices) {
  const auto it = options.device_count.find(Npu::kType);
  for (int i = 0; it != options.device_count.end() && i < it->second; ++i) {
    DeviceAttributes attributes;
    attributes.name = options.name_prefix + "/device:" + Npu::kType + ":" + std::to_string(i);
    attributes.type = Npu::kType;
    attributes.memory_limit = int64_t{1} << 30;
    attributes.incarnation = NewIncarnation();
    devices->push_back(std::make_unique<Npu>(std::move(attributes)));
  }
  return Status();
}

}  // namespace

void* NpuMemory::Allocate(size_t bytes) {
  return std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}
void NpuMemory::Deallocate(void* p, size_t /*bytes*/) { std::free(p); }

void Npu::CopyToHost(const Tensor& from, const Tensor& to, CopyDone done) {
  CopyInverted(from.raw_data(), Tensor(to).raw_data(), from.num_bytes());
  done(Status());
}
Status Npu::CopyFromHost(const Tensor& from, const Tensor& to) {
  CopyInverted(from.raw_data(), Tensor(to).raw_data(), from.num_bytes());
  return Status();
}
Status Npu::CopyFromDevice(Device& /*source*/, const Tensor& from, const Tensor& to) {
  std::memcpy(Tensor(to).raw_data(), from.raw_data(), from.num_bytes());
  return Status();
}

int64_t NumKernelsRun() { return kernels_run; }

Status RegisterNpu() {
  KernelRegistry& kernels = KernelRegistry::Global();
  RegisterDeviceKernels(kernels, Npu::kType);
  kernels.Register<NpuMatMul>(KernelDef("MatMul").Device(Npu::kType).Type<float>("T"));
  kernels.Register<NpuRelu>(KernelDef("Relu").Device(Npu::kType).Type<float>("T"));
  constexpr int kPriority = 100;  // above that of CPUs: nodes without a device come here if there is a kernel
  return DeviceFactoryRegistry::Global().Register(Npu::kType, kPriority, MakeNpus);
}

}  // namespace npu
