// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "c/internal.h"
#include "eager/eager_context.h"
#include "tensorflow/c/eager/c_api.h"

struct TFE_ContextOptions {
  millrace::EagerContext::Options options;
  TFE_ContextDevicePlacementPolicy policy = TFE_DEVICE_PLACEMENT_SILENT;
};

namespace millrace::c_api {

// Tells ops that may outlive a context whether it still exists. Never freed: the next context reuses it, with
// another number.
struct ContextLife {
  std::atomic<uint64_t> number{0};  // the living context's; 0: there is none
};

}  // namespace millrace::c_api

struct TFE_Context {
  TFE_Context(std::unique_ptr<millrace::EagerContext> context, TFE_ContextDevicePlacementPolicy policy);
  ~TFE_Context();

  std::unique_ptr<millrace::EagerContext> context;
  const TFE_ContextDevicePlacementPolicy policy;
  millrace::c_api::ContextLife* const life;
  const uint64_t number;  // unique: no other context ever has it
};

// Data shared with its context (definition, devices, functions) may be used while the context exists.
struct TFE_Op : millrace::EagerOp {
  const millrace::c_api::ContextLife* life = nullptr;
  uint64_t number = 0;

  bool has_context() const { return life->number.load(std::memory_order_acquire) == number; }
};

struct TFE_TensorDebugInfo {
  millrace::TensorShape shape;
};

namespace millrace::c_api {

// A TFE_TensorHandle* is an EagerTensor*, and holds a reference to it.
inline EagerTensor* TensorOf(TFE_TensorHandle* handle) { return reinterpret_cast<EagerTensor*>(handle); }
inline TFE_TensorHandle* HandleOf(EagerTensor* tensor) { return reinterpret_cast<TFE_TensorHandle*>(tensor); }

}  // namespace millrace::c_api
