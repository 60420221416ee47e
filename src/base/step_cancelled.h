// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// The error of a step that was cancelled before one of its nodes had an error of its own. There is one such
// Status, whose copies share its text: this distinguishes them from errors of nodes with the same text.
const Status& StepCancelled();
// Whether `status` is a copy of it. A status from another process is not.
bool IsStepCancelled(const Status& status);

}  // namespace millrace
