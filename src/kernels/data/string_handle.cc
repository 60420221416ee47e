// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// String handles of iterators, so that an iterator can be fed.
#include "kernels/data/string_handle.h"

#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/resource_handle.pb.h"

namespace millrace::data {

std::string HandleToString(const ResourceHandle& handle) {
  tensorflow::ResourceHandleProto proto;
  ResourceHandleToProto(handle, &proto);
  return proto.SerializeAsString();
}

StatusOr<ResourceHandle> HandleFromString(const KernelContext& context, const Tensor& text) {
  if (text.dtype() != DataType::kString || !text.shape().IsScalar()) {
    return errors::InvalidArgument("string_handle must be a scalar");
  }
  tensorflow::ResourceHandleProto proto;
  if (!proto.ParseFromString(text.scalar<std::string>())) {
    return errors::InvalidArgument("Could not parse string_handle as a valid ResourceHandle");
  }
  MR_ASSIGN_OR_RETURN(ResourceHandle handle, ResourceHandleFromProto(proto));
  if (handle.device != context.resources().device_name()) {
    return errors::InvalidArgument("Attempted create an iterator on device \"",
                                   context.resources().device_name(), "\" from handle defined on device \"",
                                   handle.device, "\"");
  }
  return handle;
}

Status CheckDeclared(const OpKernel& kernel, const Dataset::Signature& signature) {
  MR_ASSIGN_OR_RETURN(const auto types, kernel.props().attrs.Get<std::vector<DataType>>("output_types"));
  MR_ASSIGN_OR_RETURN(const auto shapes,
                      kernel.props().attrs.Get<std::vector<PartialShape>>("output_shapes"));
  if (!types.empty()) MR_RETURN_IF_ERROR(CheckTypes(types, signature.types));
  if (types.empty() || shapes.empty()) return Status();
  return CheckSignature({types, shapes}, signature);
}

}  // namespace millrace::data
