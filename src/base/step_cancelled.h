// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// The error of a step that was cancelled before one of its nodes had an error of its own. There is one, whose
// copies share its text: by that it is told from what a node says, even in the same words.
const Status& StepCancelled();
// Whether `status` is a copy of it. One that came from another process is not.
bool IsStepCancelled(const Status& status);

}  // namespace millrace
