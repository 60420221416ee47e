// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/status.h"

namespace google::protobuf {
class Message;
namespace io {
class ZeroCopyInputStream;
}
}  // namespace google::protobuf

namespace millrace {

// The memory limit of a parsed message: this and ten times its bytes. Two bytes can make a message of a few
// hundred, so the bytes are counted before they are parsed, unless there are so few that it does not
// matter.
inline constexpr int64_t kMessageMemoryBase = int64_t{256} << 20;
inline constexpr int64_t kMessageMemoryFactor = 10;

// Whether `size` bytes can be parsed without counting.
inline bool IsSmallMessage(uint64_t size) { return size <= kMessageMemoryBase / 128; }

// ResourceExhausted when `size` bytes, a message of the type of `message`, would need more. Malformed bytes
// are left to the parser. `base` is for tests.
Status CheckBinaryMemory(google::protobuf::io::ZeroCopyInputStream* bytes, uint64_t size,
                         const google::protobuf::Message& message, int64_t base = kMessageMemoryBase);
Status CheckTextMemory(std::string_view text, int64_t base = kMessageMemoryBase);

}  // namespace millrace
