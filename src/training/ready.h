// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "millrace/client_session.h"
#include "millrace/output.h"
#include "millrace/status.h"

namespace millrace {

#pragma GCC visibility push(hidden)

// What is missing for the model to be ready, as `op` says, a string vector of names; nothing when it is, and
// when `op` is unset.
StatusOr<std::optional<std::string>> NotReady(const ClientSession& session, const Output& op);

#pragma GCC visibility pop

}  // namespace millrace
