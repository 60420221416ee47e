// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/buffer.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "tensor/cpu_allocator.h"
#include "tensor/dtype_table.h"

namespace millrace {
namespace {

constexpr size_t kHeader = 64;
static_assert(sizeof(Buffer) <= kHeader && kHeader % Allocator::kAlignment == 0);

void ConstructElements(void* data, DataType dtype, int64_t count) {
  const auto n = static_cast<size_t>(count);
  switch (dtype) {
    case DataType::kString:
      std::uninitialized_value_construct_n(static_cast<std::string*>(data), n);
      break;
    case DataType::kResource:
      std::uninitialized_value_construct_n(static_cast<ResourceHandle*>(data), n);
      break;
    case DataType::kVariant:
      std::uninitialized_value_construct_n(static_cast<Variant*>(data), n);
      break;
    default:
      break;
  }
}

void DestroyElements(void* data, DataType dtype, int64_t count) {
  const auto n = static_cast<size_t>(count);
  switch (dtype) {
    case DataType::kString:
      std::destroy_n(static_cast<std::string*>(data), n);
      break;
    case DataType::kResource:
      std::destroy_n(static_cast<ResourceHandle*>(data), n);
      break;
    case DataType::kVariant:
      std::destroy_n(static_cast<Variant*>(data), n);
      break;
    default:
      break;
  }
}

class WrappedBuffer : public Buffer {
 public:
  WrappedBuffer(void* data, size_t bytes, std::function<void()> release)
      : Buffer(data, bytes, nullptr, DataType::kInvalid, 0), release_(std::move(release)) {}

 protected:
  void Destroy() override {
    const std::function<void()> release = std::move(release_);
    delete this;
    if (release) release();
  }

 private:
  std::function<void()> release_;
};

// Elements in the memory of a device.
class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(void* data, size_t bytes, Allocator& allocator, DataType dtype, int64_t count)
      : Buffer(data, bytes, &allocator, dtype, count) {}

 protected:
  void Destroy() override {
    void* const elements = data();
    const size_t bytes = size();
    Allocator& allocator = *allocator_;
    delete this;
    allocator.Deallocate(elements, bytes);
  }
};

RefPtr<Buffer> AllocateOnDevice(Allocator& allocator, DataType dtype, int64_t count, size_t bytes) {
  if (OwnsMemory(dtype)) return nullptr;
  void* const data = allocator.Allocate(bytes);
  if (data == nullptr) return nullptr;
  return RefPtr<Buffer>(new DeviceBuffer(data, bytes, allocator, dtype, count));
}

}  // namespace

RefPtr<Buffer> Buffer::Allocate(Allocator& allocator, DataType dtype, int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * ElementSize(dtype);
  CpuAllocatorImpl& cpu = GetCpuAllocatorImpl();
  // Named so that the call is inlined: this is most of what a small tensor costs.
  void* memory;
  if (&allocator == &cpu) {
    memory = cpu.Allocate(kHeader + bytes);
  } else if (allocator.memory_space() == nullptr) {
    memory = allocator.Allocate(kHeader + bytes);
  } else {
    return AllocateOnDevice(allocator, dtype, count, bytes);
  }
  if (memory == nullptr) return nullptr;
  void* data = static_cast<char*>(memory) + kHeader;
  if (OwnsMemory(dtype)) ConstructElements(data, dtype, count);
  return RefPtr<Buffer>(new (memory) Buffer(data, bytes, &allocator, dtype, count));
}

RefPtr<Buffer> Buffer::Wrap(void* data, size_t bytes, std::function<void()> release) {
  return RefPtr<Buffer>(new WrappedBuffer(data, bytes, std::move(release)));
}

void Buffer::Destroy() {
  if (OwnsMemory(dtype_)) DestroyElements(data_, dtype_, count_);
  Allocator* const allocator = allocator_;
  const size_t bytes = kHeader + size_;
  Buffer::~Buffer();  // not virtual: this is no subclass
  CpuAllocatorImpl& cpu = GetCpuAllocatorImpl();
  if (allocator == &cpu) {
    cpu.Deallocate(this, bytes);
  } else {
    allocator->Deallocate(this, bytes);
  }
}

}  // namespace millrace
