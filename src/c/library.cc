// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries that register ops and kernels when they are loaded.
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
#include "c/internal.h"
#include "op/op_def_codec.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/op_def.pb.h"

struct TF_Library {
  std::string op_list;  // a serialised OpList
};

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): the doors to it
using millrace::MutexLock;
using millrace::OpRegistration;
using millrace::OpRegistry;
using millrace::Status;
namespace errors = millrace::errors;

namespace {

// The ops of each library that was loaded, by the handle that the system gives it.
struct Libraries {
  millrace::Mutex mu;  // held while one is loaded, so that its ops can be distinguished
  std::map<void*, std::string> ops MR_GUARDED_BY(mu);
};

Libraries& Loaded() {
  static auto* libraries = new Libraries;
  return *libraries;
}

std::string OpsBeyond(const std::vector<const OpRegistration*>& before) {
  const std::set<const OpRegistration*> known(before.begin(), before.end());
  tensorflow::OpList list;
  for (const OpRegistration* op : OpRegistry::Global().All()) {
    if (!known.contains(op)) millrace::OpDefToProto(op->def, list.add_op());
  }
  return list.SerializeAsString();
}

// The loader of the system maps what the headers of a file promise and reads it, so that a file that was cut
// off would end the process. What is no library at all it refuses by itself.
Status CheckWhole(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return Status();  // the loader looks in more places, and says what is wrong
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

TF_Library* TF_LoadLibrary(const char* library_filename, TF_Status* status) {
  TF_Library* result = nullptr;
  Enter(status, [&]() -> Status {
    if (library_filename == nullptr) return NullArgument("The name of the library");
    if (loading) return errors::FailedPrecondition("A library cannot load others while it is initialised");
    MR_RETURN_IF_ERROR(CheckWhole(library_filename));
    Libraries& libraries = Loaded();
    MutexLock lock(libraries.mu);
    const std::vector<const OpRegistration*> before = OpRegistry::Global().All();
    loading = true;
    void* handle = dlopen(library_filename, RTLD_NOW | RTLD_LOCAL);
    loading = false;
    if (handle == nullptr) {
      const char* why = dlerror();
      return errors::NotFound(why == nullptr ? library_filename : why);
    }
    auto found = libraries.ops.find(handle);
    if (found == libraries.ops.end()) found = libraries.ops.emplace(handle, OpsBeyond(before)).first;
    result = new TF_Library{found->second};
    return Status();
  });
  return result;
}

TF_Buffer TF_GetOpList(TF_Library* lib_handle) {
  if (lib_handle == nullptr) return {nullptr, 0, nullptr};
  return {lib_handle->op_list.data(), lib_handle->op_list.size(), nullptr};
}

void TF_DeleteLibraryHandle(TF_Library* lib_handle) { delete lib_handle; }
