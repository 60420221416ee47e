// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// The services that a task has, and those by which tools ask for them: answers one request of gRPC's
// reflection service (grpc.reflection.v1 and v1alpha, whose messages are the same) with a response. Any bytes
// get one.
std::string AnswerReflection(std::string_view request);

}  // namespace millrace
