// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributed/unix_socket.h"
#include "millrace/ref.h"
#include "millrace/status.h"

namespace millrace {

// Anonymous memory that a process may share by a descriptor. Its size is sealed, so that no access to it
// fails. Mapped while there are references to it.
class SharedMemory : public RefCounted {
 public:
  // ResourceExhausted when the memory can't be allocated. All pages exist afterwards.
  static StatusOr<RefPtr<SharedMemory>> Create(int64_t size);
  // Maps memory of another process. InvalidArgument for any other descriptor, and for another
  // size.
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
