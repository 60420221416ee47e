// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries that register ops and kernels when they are loaded.
#include <dlfcn.h>

#include <map>
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
  millrace::Mutex mu;  // held while one is loaded, so that its ops are told from those of others
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

}  // namespace

TF_Library* TF_LoadLibrary(const char* library_filename, TF_Status* status) {
  TF_Library* result = nullptr;
  Enter(status, [&]() -> Status {
    if (library_filename == nullptr) return NullArgument("The name of the library");
    Libraries& libraries = Loaded();
    MutexLock lock(libraries.mu);
    const std::vector<const OpRegistration*> before = OpRegistry::Global().All();
    void* handle = dlopen(library_filename, RTLD_NOW | RTLD_LOCAL);
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
