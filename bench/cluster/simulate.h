// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// Runs a master with 10 to 10,000 simulated tasks and prints its figures as JSON.
Status Simulate();

}  // namespace millrace
