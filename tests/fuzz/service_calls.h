// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distributed/transport.h"

namespace millrace {

// Calls of a task's services, encoded in the bytes of a fuzzer: for each the method in one byte, the size of
// the request in two, the lower one first, and the request.
struct ServiceCall {
  Method method;
  std::string request;
};
// Any bytes are calls.
std::vector<ServiceCall> ReadServiceCalls(std::string_view bytes);
std::string WriteServiceCalls(const std::vector<ServiceCall>& calls);

// Represents, in requests, the handle of the session that was created last.
inline constexpr char kAnySession[] = "any_session_here";

}  // namespace millrace
