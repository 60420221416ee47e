// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/resource_op.h"

#include <cctype>
#include <cstdint>
#include <utility>

namespace millrace {
namespace {

bool IsContainerName(std::string_view name) {
  const auto alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  if (!alnum(name[0]) && name[0] != '.') return false;
  for (const char c : name.substr(1)) {
    if (!alnum(c) && c != '-' && c != '.' && c != '/' && c != '_') return false;
  }
  return true;
}

}  // namespace

StatusOr<ResourceName> NameResource(const KernelConstruction& c, Unnamed unnamed) {
  static std::atomic<int64_t> next{0};
  ResourceName place;
  MR_ASSIGN_OR_RETURN(place.container, c.attrs().Get<std::string>("container"));
  MR_ASSIGN_OR_RETURN(place.name, c.attrs().Get<std::string>("shared_name"));
  if (place.container.empty()) {
    place.container = ResourceManager::kDefaultContainer;
  } else if (!IsContainerName(place.container)) {
    return errors::InvalidArgument("container contains invalid characters: ", place.container);
  }
  if (!place.name.empty()) {
    if (place.name[0] == '_')
      return errors::InvalidArgument("shared_name cannot start with '_':", place.name);
  } else if (unnamed == Unnamed::kNodeName) {
    place.name = c.name();
  } else {
    place.is_private = true;
    place.name = "_" + std::to_string(next.fetch_add(1, std::memory_order_relaxed)) + "_";
    place.name += c.name();
  }
  return place;
}

Status BadHandle(const KernelContext& context, int i) {
  if (context.input_is_ref(i)) {
    return errors::InvalidArgument("Resource handle must have 2 elements, but had shape: ",
                                   context.ref_input(i).shape());
  }
  return errors::InvalidArgument("Input ", i, " of ", context.kernel().op_name(),
                                 " must be a scalar resource handle, got ",
                                 DataTypeName(context.input(i).dtype()), context.input(i).shape());
}

ResourceOpKernelBase::ResourceOpKernelBase(KernelConstruction& c, Unnamed unnamed)
    : OpKernel(c), manager_(c.resources()) {
  auto place = NameResource(c, unnamed);
  if (place.ok()) {
    place_ = *std::move(place);
  } else {
    c.SetError(place.status());
  }
}

void ResourceOpKernelBase::SetHandle(ResourceHandle handle) {
  if (IsRefType(output_type(0))) {
    handle_ = Tensor::Vector<std::string>({handle.container, handle.name});
  } else {
    handle_ = Tensor::Scalar<ResourceHandle>(handle);
  }
}

Status ResourceOpKernelBase::Output(KernelContext& context) {
  if (IsRefType(output_type(0))) {
    context.set_output_ref(0, &mu_, &handle_);
  } else {
    context.set_output(0, handle_);
  }
  return Status();
}

}  // namespace millrace
