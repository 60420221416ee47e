// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// Statistics of an allocator. Counters are approximate while other threads allocate.
struct AllocatorStats {
  int64_t num_allocs = 0;
  int64_t bytes_in_use = 0;
  int64_t peak_bytes_in_use = 0;
  int64_t largest_alloc_size = 0;
  int64_t bytes_limit = 0;  // 0: none known
};

// Memory that the host cannot access through a pointer. The class that copies from and to it derives from
// this: a Device (device/device.h).
class MemorySpace {
 protected:
  MemorySpace() = default;
  ~MemorySpace() = default;
};

// Allocates memory for tensor buffers. Thread-safe. Never throws: nullptr when there is no memory.
class Allocator {
 public:
  static constexpr size_t kAlignment = 64;

  virtual ~Allocator() = default;
  virtual std::string_view name() const = 0;
  // Memory aligned to kAlignment.
  virtual void* Allocate(size_t bytes) = 0;
  // `bytes` is the argument of Allocate.
  virtual void Deallocate(void* p, size_t bytes) = 0;
  virtual AllocatorStats Stats() const { return {}; }

  // The device that accesses the memory; null: the host does.
  MemorySpace* memory_space() const { return memory_space_; }

 protected:
  constexpr Allocator() = default;
  // A decorator forwards the memory space of its base.
  explicit Allocator(MemorySpace* memory_space) : memory_space_(memory_space) {}

 private:
  MemorySpace* memory_space_ = nullptr;
};

// The process-wide allocator of host memory. Small blocks come from free lists of the calling thread, large
// ones from a bounded cache, so that a training step in steady state makes no system call.
Allocator& CpuAllocator();

// Fails every allocation above a budget; for tests of out-of-memory paths.
class FailingAllocator : public Allocator {
 public:
  FailingAllocator(Allocator& base, int64_t budget_bytes)
      : Allocator(base.memory_space()), base_(base), budget_(budget_bytes) {}
  std::string_view name() const override { return "failing"; }
  void* Allocate(size_t bytes) override;
  void Deallocate(void* p, size_t bytes) override;

 private:
  Allocator& base_;
  const int64_t budget_;
  std::atomic<int64_t> used_{0};  // relaxed: a sum that publishes nothing
};

}  // namespace millrace
