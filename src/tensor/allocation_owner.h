// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace millrace {

// The name of the node whose kernel the calling thread runs, for allocators that record the owners of memory;
// null when unknown. The string need only live as long as it is set.
extern constinit thread_local const std::string* allocation_owner __attribute__((tls_model("initial-exec")));

class ScopedAllocationOwner {
 public:
  explicit ScopedAllocationOwner(const std::string* owner) : before_(allocation_owner) {
    allocation_owner = owner;
  }
  ~ScopedAllocationOwner() { allocation_owner = before_; }
  ScopedAllocationOwner(const ScopedAllocationOwner&) = delete;
  ScopedAllocationOwner& operator=(const ScopedAllocationOwner&) = delete;

 private:
  const std::string* const before_;
};

// Implemented by allocators that can describe a shortage of memory; the description ends the error text.
class ShortageReporter {
 public:
  virtual ~ShortageReporter() = default;
  virtual std::string DescribeShortage(size_t bytes) const = 0;
};

}  // namespace millrace
