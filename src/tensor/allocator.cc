// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "tensor/allocator.h"

#include "tensor/allocation_owner.h"

namespace millrace {

constinit thread_local const std::string* allocation_owner = nullptr;

void* FailingAllocator::Allocate(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (size < 0 || size > budget_) return nullptr;
  if (used_.fetch_add(size, std::memory_order_relaxed) + size > budget_) {
    used_.fetch_sub(size, std::memory_order_relaxed);
    return nullptr;
  }
  void* p = base_.Allocate(bytes);
  if (p == nullptr) used_.fetch_sub(size, std::memory_order_relaxed);
  return p;
}

void FailingAllocator::Deallocate(void* p, size_t bytes) {
  base_.Deallocate(p, bytes);
  used_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

}  // namespace millrace
