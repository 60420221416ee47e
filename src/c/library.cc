// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries that register ops and kernels when they are loaded.
#include "c/internal.h"
#include "op/op_def_codec.h"
#include "op/op_library.h"
#include "tensorflow/core/framework/op_def.pb.h"

struct TF_Library {
  std::string op_list;  // a serialised OpList
};

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::OpRegistration;
using millrace::Status;

TF_Library* TF_LoadLibrary(const char* library_filename, TF_Status* status) {
  TF_Library* result = nullptr;
  Enter(status, [&]() -> Status {
    if (library_filename == nullptr) return NullArgument("The name of the library");
    MR_ASSIGN_OR_RETURN(const std::vector<const OpRegistration*> ops,
                        millrace::LoadOpLibrary(library_filename));
    tensorflow::OpList list;
    for (const OpRegistration* op : ops) millrace::OpDefToProto(op->def, list.add_op());
    result = new TF_Library{list.SerializeAsString()};
    return Status();
  });
  return result;
}

TF_Buffer TF_GetOpList(TF_Library* lib_handle) {
  if (lib_handle == nullptr) return {nullptr, 0, nullptr};
  return {lib_handle->op_list.data(), lib_handle->op_list.size(), nullptr};
}

void TF_DeleteLibraryHandle(TF_Library* lib_handle) { delete lib_handle; }
