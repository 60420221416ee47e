// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "op/op_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "base/mutex.h"

namespace millrace {
namespace {

// The ops of each library that was loaded, by the handle that the system gives it.
struct Libraries {
  Mutex mu;  // held while one is loaded, so that its ops can be distinguished
  std::map<void*, std::vector<const OpRegistration*>> ops MR_GUARDED_BY(mu);
};

Libraries& Loaded() {
  static auto* libraries = new Libraries;
  return *libraries;
}

std::vector<const OpRegistration*> OpsBeyond(const std::vector<const OpRegistration*>& before) {
  const std::set<const OpRegistration*> known(before.begin(), before.end());
  std::vector<const OpRegistration*> added;
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    if (!known.contains(op)) added.push_back(op);
  }
  return added;
}

// The system's loader maps and reads the segments that the headers declare, so that a truncated file would
// crash the process. The loader itself refuses files that are no libraries.
Status CheckWhole(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return Status();  // the loader searches more folders, and reports the error
  const auto close_file = [](const int* f) { close(*f); };
  const std::unique_ptr<const int, decltype(close_file)> closer(&file, close_file);
  struct stat info;
  Elf64_Ehdr header;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) ||
      pread(file, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return Status();
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    const uint64_t at = header.e_phoff + static_cast<uint64_t>(i) * sizeof(part);
    const bool read = at < size && pread(file, &part, sizeof(part), static_cast<off_t>(at)) ==
                                       static_cast<ssize_t>(sizeof(part));
    if (!read || (part.p_filesz > 0 && (part.p_offset > size || part.p_filesz > size - part.p_offset))) {
      return errors::NotFound(path, ": the file is cut off");
    }
  }
  return Status();
}

// A library that is being initialised on this thread must not load another one: the mutex is held.
thread_local bool loading = false;

}  // namespace

StatusOr<std::vector<const OpRegistration*>> LoadOpLibrary(const std::string& path) {
  if (loading) return errors::FailedPrecondition("A library cannot load others while it is initialised");
  if (path.empty()) return errors::NotFound("The name of the library is empty");
  MR_RETURN_IF_ERROR(CheckWhole(path.c_str()));
  Libraries& libraries = Loaded();
  MutexLock lock(libraries.mu);
  const std::vector<const OpRegistration*> before = OpRegistry::Global().All();
  loading = true;
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  loading = false;
  if (handle == nullptr) {
    const char* why = dlerror();
    return errors::NotFound(why == nullptr ? path.c_str() : why);
  }
  auto found = libraries.ops.find(handle);
  if (found == libraries.ops.end()) found = libraries.ops.emplace(handle, OpsBeyond(before)).first;
  return found->second;
}

}  // namespace millrace
