// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "autodiff/gradient_context.h"
#include "autodiff/gradient_registry.h"

// Common code of the files of this folder.
namespace millrace::gradients {

struct Row {
  const char* op;
  Status (*fn)(GradientContext&);
};

// Registers in order; returns the first error.
inline Status RegisterEach(GradientRegistry& registry, std::span<const Row> rows) {
  for (const Row& row : rows) MR_RETURN_IF_ERROR(registry.Register(row.op, row.fn));
  return Status();
}

// dx = dy, also for slices.
inline Status PassThrough(GradientContext& c) {
  c.SetInputGrad(0, c.grad_value(0));
  return c.status();
}

}  // namespace millrace::gradients
