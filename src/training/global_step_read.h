// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/client_session.h"
#include "millrace/scope.h"

namespace millrace {

inline constexpr char kGlobalStepReadKey[] = "global_step_read_op_cache";

// A copy of the global step before updates in the same step; made once, and kept in a collection.
// FailedPrecondition, naming the user, without a global step.
StatusOr<Output> GlobalStepRead(const Scope& scope, const char* user);

// The value of an integer scalar.
StatusOr<int64_t> ReadStep(const ClientSession& session, const Output& global_step);
int64_t StepOf(const Tensor& value);

}  // namespace millrace
