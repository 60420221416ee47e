// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/status.h"

namespace millrace {

// Makes servers with the protocol "grpc" possible, and sessions with targets "grpc://host:port". Again:
// nothing.
Status RegisterGrpc();

}  // namespace millrace
