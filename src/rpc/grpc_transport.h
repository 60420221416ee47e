// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "distributed/protocol.h"

namespace millrace {

// Calls tasks at these addresses. A task with calls in progress gets heartbeats; if it is silent for longer
// than a call's patience, the call ends with Unavailable.
StatusOr<std::shared_ptr<Transport>> ConnectWithGrpc(const std::map<std::string, std::string>& addresses,
                                                     const TransportOptions& options);

}  // namespace millrace
