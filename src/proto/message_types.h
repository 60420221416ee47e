// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class FileDescriptor;
class Message;
}  // namespace google::protobuf

namespace millrace {

// Find the messages of TensorFlow, which are not in protobuf's generated pool. Thread-safe.

// By full name ("tensorflow.GraphDef"); null when there is none.
const google::protobuf::Descriptor* FindMessageType(const std::string& name);
std::vector<const google::protobuf::FileDescriptor*> MessageFiles();

// The first error in a text; line and column count from 1.
struct TextError {
  int line = 0;
  int column = 0;
  std::string message;
  std::string ToString() const;  // "line 2, column 3: ..."
};

enum class UnknownFields { kRefused, kSkipped };

// Parses protobuf's text format; accepts "[type.googleapis.com/tensorflow.X] {...}" within an Any, and
// refuses messages that are nested more than 100 deep, as in the binary format.
bool ParseMessageText(std::string_view text, UnknownFields unknown, google::protobuf::Message* message,
                      TextError* error);

}  // namespace millrace
