// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "base/step_cancelled.h"

namespace millrace {

const Status& StepCancelled() {
  static const auto* const status = new Status(ErrorCode::kCancelled, "Step was cancelled");
  return *status;
}

bool IsStepCancelled(const Status& status) {
  return !status.ok() && &status.message() == &StepCancelled().message();
}

}  // namespace millrace
