// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "c/internal.h"
#include "eager/eager_context.h"
#include "tensorflow/c/eager/c_api.h"

struct TFE_ContextOptions {
  millrace::EagerContext::Options options;
  TFE_ContextDevicePlacementPolicy policy = TFE_DEVICE_PLACEMENT_SILENT;
};

struct TFE_Context {
  std::unique_ptr<millrace::EagerContext> context;
  TFE_ContextDevicePlacementPolicy policy;
  uint64_t number;  // no other context has it, nor will have
};

struct TFE_Op : millrace::EagerOp {
  TFE_Context* handle = nullptr;
};

struct TFE_TensorDebugInfo {
  millrace::TensorShape shape;
};

namespace millrace::c_api {

// A TFE_TensorHandle* is an EagerTensor*, of which it is a reference.
inline EagerTensor* TensorOf(TFE_TensorHandle* handle) { return reinterpret_cast<EagerTensor*>(handle); }
inline TFE_TensorHandle* HandleOf(EagerTensor* tensor) { return reinterpret_cast<TFE_TensorHandle*>(tensor); }

}  // namespace millrace::c_api
