// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::wire {

// The encoding of messages, made from field numbers.

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
inline std::string Int(int field, uint64_t value) {
  return Varint(static_cast<uint64_t>(field) << 3) + Varint(value);
}
inline std::string Bytes(int field, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(bytes.size()) + bytes;
}
inline std::string Fixed64(int field, uint64_t value) {
  std::string out = Varint(static_cast<uint64_t>(field) << 3 | 1);
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
inline std::string FloatBytes(float value) { return std::string(reinterpret_cast<const char*>(&value), 4); }

// TensorProto: dtype 1, shape 2, elements 4 (bytes) or 5 (packed floats).
inline std::string FedFloat(float value) { return Int(1, 1) + Bytes(2, "") + Bytes(5, FloatBytes(value)); }
inline std::string SentFloat(float value) { return Int(1, 1) + Bytes(2, "") + Bytes(4, FloatBytes(value)); }
// An entry of NodeDef's map of attributes: s 2, i 3, b 5, type 6.
inline std::string Attr(const std::string& name, const std::string& value) {
  return Bytes(5, Bytes(1, name) + Bytes(2, value));
}
// NodeDef: name 1, op 2, input 3, device 4, attr 5; it is field 1 of GraphDef.
inline std::string Node(const std::string& name, const std::string& op,
                        const std::vector<std::string>& inputs, const std::string& device,
                        const std::string& attrs) {
  std::string node = Bytes(1, name) + Bytes(2, op);
  for (const std::string& input : inputs) node += Bytes(3, input);
  return Bytes(1, node + Bytes(4, device) + attrs);
}

}  // namespace millrace::wire
