// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <vector>

namespace google::protobuf {
class Message;
}

namespace millrace {

// Changes one or a few fields anywhere in a message, so that the result still parses. Mutated bytes rarely
// do, and hardly ever name another op or another node; `words` are such names, in addition to those in the
// message.
void MutateMessage(const std::vector<std::string>& words, std::mt19937& rng,
                   google::protobuf::Message* message);

}  // namespace millrace
