// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// Enables servers with the protocol "grpc", and sessions with targets "grpc://host:port". Further calls have
// no effect.
Status RegisterGrpc();

}  // namespace millrace
