// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernel/rendezvous.h"

#include <charconv>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "device/device_name.h"

namespace millrace {
namespace {

// At most 16 hexadecimal digits and nothing else.
bool ParseHex(std::string_view text, uint64_t* value) {
  if (text.empty() || text.size() > 16) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, 16);
  return error == std::errc() && end == text.data() + text.size();
}

bool IsFullDeviceName(std::string_view text) {
  const StatusOr<DeviceName> name = DeviceName::Parse(text);
  return name.ok() && name->IsFullySpecified();
}

bool ParseParts(std::string_view text, Rendezvous::Key::Parts* parts) {
  const std::vector<std::string_view> fields = StrSplit(text, ';');
  if (fields.size() != 5 || !IsFullDeviceName(fields[0]) || !IsFullDeviceName(fields[2]) ||
      fields[3].empty()) {
    return false;
  }
  if (!ParseHex(fields[1], &parts->src_incarnation)) return false;
  const std::vector<std::string_view> position = StrSplit(fields[4], ':');
  if (position.size() != 2) return false;
  const auto frame = SafeStringToUint64(position[0]);
  const auto iteration = SafeStringToInt64(position[1]);
  if (!frame || !iteration) return false;
  parts->frame = *frame;
  parts->iteration = *iteration;
  parts->src_device = fields[0];
  parts->dst_device = fields[2];
  parts->tensor_name = fields[3];
  return true;
}

}  // namespace

Rendezvous::Key Rendezvous::Key::Make(std::string_view src_device, uint64_t src_incarnation,
                                      std::string_view dst_device, std::string_view tensor_name,
                                      uint64_t frame, int64_t iteration) {
  char hex[16];
  for (int i = 15; i >= 0; --i, src_incarnation >>= 4) hex[i] = "0123456789abcdef"[src_incarnation & 15];
  const std::string position = std::to_string(frame) + ":" + std::to_string(iteration);
  Key key;
  key.text = StrCat(src_device, ";", std::string_view(hex, sizeof(hex)), ";", dst_device, ";", tensor_name,
                    ";", position);
  key.hash = Hash64(key.text);
  return key;
}

StatusOr<Rendezvous::Key::Parts> Rendezvous::Key::Parse(std::string_view text) {
  Parts parts;
  if (!ParseParts(text, &parts)) return errors::InvalidArgument("Invalid rendezvous key: ", text);
  return parts;
}

}  // namespace millrace
