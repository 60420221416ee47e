// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// Reports the services of a task, and the reflection service itself: answers one request of gRPC's
// reflection service (grpc.reflection.v1 and v1alpha, whose messages are the same) with a response, for any
// bytes.
std::string AnswerReflection(std::string_view request);

}  // namespace millrace
