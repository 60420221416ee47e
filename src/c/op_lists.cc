// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which ops and kernels there are.
#include "base/strings.h"
#include "c/internal.h"
#include "kernel/kernel_registry.h"
#include "millrace/c/client.h"
#include "op/elementwise_kind.h"
#include "op/op_def_codec.h"
#include "op/op_registry.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_def.pb.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::KernelDef;
using millrace::KernelRegistry;

namespace {

// The constraints of a kernel as text: "device='CPU'; T in [DT_FLOAT, DT_INT32]; …".
void AddConstraints(const KernelDef& kernel, tensorflow::KernelDef* proto) {
  const std::string text = kernel.ToString();
  for (const std::string_view part : millrace::StrSplit(text, ';')) {
    const size_t in = part.find(" in [");
    if (in == std::string_view::npos || !part.ends_with(']')) continue;
    tensorflow::KernelDef::AttrConstraint* constraint = proto->add_constraint();
    constraint->set_name(std::string(part.substr(1, in - 1)));
    const std::string_view types = part.substr(in + 5, part.size() - in - 6);
    for (std::string_view type : millrace::StrSplitSkipEmpty(types, ',')) {
      if (type.starts_with(' ')) type.remove_prefix(1);
      if (const auto dtype = millrace::ParseDataType(type)) {
        constraint->mutable_allowed_values()->mutable_list()->add_type(millrace::DataTypeToProto(*dtype));
      }
    }
  }
}

void AddKernels(const std::string& op, tensorflow::KernelList* list) {
  for (const KernelDef* kernel : KernelRegistry::Global().KernelsOf(op)) {
    tensorflow::KernelDef* proto = list->add_kernel();
    proto->set_op(kernel->op());
    proto->set_device_type(kernel->device_type());
    proto->set_label(kernel->label());
    proto->set_priority(kernel->priority());
    for (const std::string& arg : kernel->host_memory_args()) proto->add_host_memory_arg(arg);
    AddConstraints(*kernel, proto);
  }
}

TF_Buffer* NewKernelList(const std::vector<std::string>& ops, TF_Status* status) {
  TF_Buffer* buffer = TF_NewBuffer();
  const bool ok = Enter(status, [&] {
    tensorflow::KernelList list;
    for (const std::string& op : ops) AddKernels(op, &list);
    return ToBuffer(list, buffer);
  });
  if (ok) return buffer;
  TF_DeleteBuffer(buffer);
  return nullptr;
}

}  // namespace

TF_Buffer* TF_GetAllOpList(void) {
  TF_Buffer* buffer = TF_NewBuffer();
  Enter(nullptr, [&] {
    tensorflow::OpList list;
    millrace::ExportOps(millrace::OpRegistry::Global(), &list);
    return ToBuffer(list, buffer);
  });
  return buffer;
}

TF_Buffer* TF_GetAllRegisteredKernels(TF_Status* status) {
  return NewKernelList(KernelRegistry::Global().Ops(), status);
}

TF_Buffer* TF_GetRegisteredKernelsForOp(const char* name, TF_Status* status) {
  return NewKernelList({OrEmpty(name)}, status);
}

int Millrace_ElementwiseKind(const char* op_type) {
  return EnterOr(0, [op_type] {
    const auto op = millrace::OpRegistry::Global().LookUp(OrEmpty(op_type));
    return op.ok() ? static_cast<int>(millrace::ElementwiseKindOf(**op)) : 0;
  });
}
