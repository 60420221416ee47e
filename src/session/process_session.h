// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "millrace/session.h"

namespace millrace {

// `session` as long as this is the process that made it. In a process forked from it every call gives
// FailedPrecondition, as threads and locks of the session may be in any state; Close and the destructor do
// nothing.
std::unique_ptr<Session> MakeProcessSession(std::unique_ptr<Session> session);

}  // namespace millrace
