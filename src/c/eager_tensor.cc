// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Handles of tensors for ops that run one by one.
#include "c/eager.h"

using namespace millrace::c_api;  // NOLINT(google-build-using-namespace): entry points of this library
using millrace::EagerTensor;
using millrace::RefPtr;
using millrace::Status;
using millrace::Tensor;
namespace errors = millrace::errors;

namespace {

// The value of a handle, once it is available.
millrace::StatusOr<const Tensor*> ValueOf(TFE_TensorHandle* h) {
  if (h == nullptr) return errors::InvalidArgument("The passed in handle is a nullptr");
  MR_RETURN_IF_ERROR(TensorOf(h)->Await());
  return &TensorOf(h)->value();
}

// The device of tensors that belong to no context.
const std::string& HostDeviceName() {
  static const std::string& name = millrace::InternDeviceName("/job:localhost/replica:0/task:0/device:CPU:0");
  return name;
}

const char* DeviceName(TFE_TensorHandle* h, TF_Status* status) {
  if (h == nullptr) {
    Set(status, errors::InvalidArgument("The passed in handle is a nullptr"));
    return nullptr;
  }
  Set(status, Status());
  return TensorOf(h)->device_name().c_str();
}

}  // namespace

TFE_TensorHandle* TFE_NewTensorHandle(TF_Tensor* t, TF_Status* status) {
  TFE_TensorHandle* result = nullptr;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(Tensor value, ToTensor(t));
    result = HandleOf(new EagerTensor(std::move(value), HostDeviceName()));
    return Status();
  });
  return result;
}

void TFE_DeleteTensorHandle(TFE_TensorHandle* h) {
  if (h != nullptr) TensorOf(h)->Unref();
}

TF_DataType TFE_TensorHandleDataType(TFE_TensorHandle* h) {
  return static_cast<TF_DataType>(h == nullptr ? millrace::DataType::kInvalid : TensorOf(h)->dtype());
}

int TFE_TensorHandleNumDims(TFE_TensorHandle* h, TF_Status* status) {
  int dims = -1;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const Tensor* value, ValueOf(h));
    dims = value->rank();
    return Status();
  });
  return dims;
}

int64_t TFE_TensorHandleNumElements(TFE_TensorHandle* h, TF_Status* status) {
  int64_t count = -1;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const Tensor* value, ValueOf(h));
    count = value->num_elements();
    return Status();
  });
  return count;
}

int64_t TFE_TensorHandleDim(TFE_TensorHandle* h, int dim_index, TF_Status* status) {
  int64_t dim = -1;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const Tensor* value, ValueOf(h));
    if (dim_index < 0 || dim_index >= value->rank()) {
      return errors::InvalidArgument("Dimension ", dim_index, " of a tensor of rank ", value->rank());
    }
    dim = value->dim(dim_index);
    return Status();
  });
  return dim;
}

const char* TFE_TensorHandleDeviceName(TFE_TensorHandle* h, TF_Status* status) {
  return DeviceName(h, status);
}

const char* TFE_TensorHandleBackingDeviceName(TFE_TensorHandle* h, TF_Status* status) {
  return DeviceName(h, status);
}

TFE_TensorHandle* TFE_TensorHandleCopySharingTensor(TFE_TensorHandle* h, TF_Status* status) {
  if (h == nullptr) {
    Set(status, errors::InvalidArgument("The passed in handle is a nullptr"));
    return nullptr;
  }
  Set(status, Status());
  TensorOf(h)->Ref();
  return h;
}

TF_Tensor* TFE_TensorHandleResolve(TFE_TensorHandle* h, TF_Status* status) {
  TF_Tensor* result = nullptr;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const Tensor* value, ValueOf(h));
    MR_ASSIGN_OR_RETURN(result, FromOutput(*value));
    return Status();
  });
  return result;
}

TFE_TensorHandle* TFE_TensorHandleCopyToDevice(TFE_TensorHandle* h, TFE_Context* ctx, const char* device_name,
                                               TF_Status* status) {
  TFE_TensorHandle* result = nullptr;
  Enter(status, [&]() -> Status {
    if (h == nullptr || ctx == nullptr) return NullArgument("The handle or the context");
    const millrace::Device* device = &ctx->context->host_device();
    if (device_name != nullptr && device_name[0] != '\0') {
      MR_ASSIGN_OR_RETURN(device, ctx->context->FindDevice(device_name));
    }
    MR_ASSIGN_OR_RETURN(RefPtr<EagerTensor> copy, ctx->context->Copy(*TensorOf(h), *device));
    result = HandleOf(copy.release());
    return Status();
  });
  return result;
}

TFE_TensorDebugInfo* TFE_TensorHandleTensorDebugInfo(TFE_TensorHandle* handle, TF_Status* status) {
  TFE_TensorDebugInfo* result = nullptr;
  Enter(status, [&]() -> Status {
    MR_ASSIGN_OR_RETURN(const Tensor* value, ValueOf(handle));
    result = new TFE_TensorDebugInfo{value->shape()};
    return Status();
  });
  return result;
}

void TFE_DeleteTensorDebugInfo(TFE_TensorDebugInfo* debug_info) { delete debug_info; }

int TFE_TensorDebugInfoOnDeviceNumDims(TFE_TensorDebugInfo* debug_info) {
  return debug_info == nullptr ? -1 : debug_info->shape.rank();
}

int64_t TFE_TensorDebugInfoOnDeviceDim(TFE_TensorDebugInfo* debug_info, int dim_index) {
  if (debug_info == nullptr || dim_index < 0 || dim_index >= debug_info->shape.rank()) return -1;
  return debug_info->shape.dim(dim_index);
}
