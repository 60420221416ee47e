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

// The missing parts for the model to be ready, from `op`, a string vector of names; empty when it is ready,
// and when `op` is unset.
StatusOr<std::optional<std::string>> NotReady(const ClientSession& session, const Output& op);

#pragma GCC visibility pop

}  // namespace millrace
