// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

void* MapAll(int fd, int64_t size) {
  return ::mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
}

}  // namespace

SharedMemory::~SharedMemory() { ::munmap(data_, static_cast<size_t>(size_)); }

StatusOr<RefPtr<SharedMemory>> SharedMemory::Create(int64_t size) {
  const auto failed = [size] {
    return errors::ResourceExhausted("Cannot create ", size,
                                     " bytes of shared memory: ", std::strerror(errno));
  };
  FileDescriptor fd(::memfd_create("millrace", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return failed();
  // Without allocated pages a write could end the process.
  if (::ftruncate(fd.get(), size) != 0 || ::fallocate(fd.get(), 0, 0, size) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    return failed();
  void* const data = MapAll(fd.get(), size);
  if (data == MAP_FAILED) return failed();
  return RefPtr<SharedMemory>(new SharedMemory(data, size, std::move(fd)));
}

StatusOr<RefPtr<SharedMemory>> SharedMemory::Map(const FileDescriptor& descriptor, int64_t size) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  struct stat properties {};
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(descriptor.get(), &properties) != 0 || size <= 0 ||
      properties.st_size != size) {
    return errors::InvalidArgument("Shared memory from another process has ", properties.st_size,
                                   " bytes instead of ", size, ", or is not sealed");
  }
  void* const data = MapAll(descriptor.get(), size);
  if (data == MAP_FAILED)
    return errors::ResourceExhausted("Shared memory of ", size, " bytes: ", std::strerror(errno));
  return RefPtr<SharedMemory>(new SharedMemory(data, size, FileDescriptor()));
}

}  // namespace millrace
