// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "millrace/session.h"

namespace millrace {

// `session` while this is the process that created it. In a forked process every call returns
// FailedPrecondition, as threads and locks of the session may be in any state; Close and the destructor have
// no effect.
std::unique_ptr<Session> MakeProcessSession(std::unique_ptr<Session> session);

}  // namespace millrace
