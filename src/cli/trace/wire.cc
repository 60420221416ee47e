// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/wire.h"

#include <optional>

namespace millrace::cli {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 10 && i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= uint64_t{byte & 0x7fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

bool Skip(std::string_view& bytes, uint64_t n) {
  if (n > bytes.size()) return false;
  bytes.remove_prefix(n);
  return true;
}

}  // namespace

Status ForEachField(std::string_view message,
                    FunctionRef<Status(uint32_t number, std::string_view bytes)> visit) {
  std::string_view rest = message;
  const auto malformed = [&](const char* what) {
    return errors::DataLoss("malformed message: ", what, " at byte ", message.size() - rest.size());
  };
  while (!rest.empty()) {
    const auto tag = TakeVarint(rest);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1fffffff) return malformed("bad field number");
    switch (*tag & 7) {
      case kVarint:
        if (!TakeVarint(rest)) return malformed("bad varint");
        break;
      case kFixed64:
        if (!Skip(rest, 8)) return malformed("ends within a field");
        break;
      case kFixed32:
        if (!Skip(rest, 4)) return malformed("ends within a field");
        break;
      case kLengthDelimited: {
        const auto length = TakeVarint(rest);
        if (!length || *length > rest.size()) return malformed("ends within a field");
        MR_RETURN_IF_ERROR(visit(static_cast<uint32_t>(*tag >> 3), rest.substr(0, *length)));
        rest.remove_prefix(*length);
        break;
      }
      default:
        return malformed("unknown wire type");
    }
  }
  return Status();
}

}  // namespace millrace::cli
