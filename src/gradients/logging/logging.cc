// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "gradients/family.h"

namespace millrace {
namespace {

constexpr gradients::Row kRows[] = {
    {"Print", gradients::PassThrough},
};

}  // namespace

Status RegisterLoggingGradients(GradientRegistry& registry) {
  return gradients::RegisterEach(registry, kRows);
}

}  // namespace millrace
