// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "distributed/protocol.h"

namespace millrace {

// Binds the address. Calls wait there until the listener is started. Unavailable when that fails.
StatusOr<std::unique_ptr<Listener>> ListenWithGrpc(const std::string& address,
                                                   const ChannelSecurity& security);

}  // namespace millrace
