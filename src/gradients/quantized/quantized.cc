// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Rounding to the steps of an integer type, which gradients pass as if there were no steps.
#include "gradients/family.h"

namespace millrace {
namespace {

constexpr gradients::Row kRows[] = {
    {"QuantizeAndDequantize", gradients::PassThrough},
    {"QuantizeAndDequantizeV2", gradients::PassThrough},
    {"QuantizeAndDequantizeV3", gradients::PassThrough},
};

}  // namespace

Status RegisterQuantizedGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
