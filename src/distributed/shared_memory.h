// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributed/unix_socket.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {

// Anonymous memory that a process may give to others by a descriptor. Nobody can make it smaller or larger,
// so that no access to it fails. Mapped as long as it is referenced, by whichever process.
class SharedMemory : public RefCounted {
 public:
  // ResourceExhausted when the memory can't be had. All of it is there afterwards.
  static StatusOr<RefPtr<SharedMemory>> Create(int64_t size);
  // What another process has created. InvalidArgument for a descriptor of anything else, and when it does not
  // have that size.
  static StatusOr<RefPtr<SharedMemory>> Map(const FileDescriptor& descriptor, int64_t size);

  void* data() const { return data_; }
  int64_t size() const { return size_; }
  // Valid in the process that has created it.
  int descriptor() const { return descriptor_.get(); }

 protected:
  ~SharedMemory() override;

 private:
  SharedMemory(void* data, int64_t size, FileDescriptor descriptor)
      : data_(data), size_(size), descriptor_(std::move(descriptor)) {}

  void* const data_;
  const int64_t size_;
  const FileDescriptor descriptor_;
};

}  // namespace millrace
