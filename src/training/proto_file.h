// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/env.h"
#include "millrace/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace millrace {

// Messages in files. Messages that need much more memory than the file has bytes are ResourceExhausted, see
// message_memory.h.

// Parses a file of up to 2 GiB without loading it as a whole. DataLoss "Can't parse … as binary
// proto".
Status ReadBinaryProto(Env& env, const std::string& path, google::protobuf::Message* message);
// DataLoss "Can't parse … as text proto", and where. Unknown fields are ignored.
Status ReadTextProto(Env& env, const std::string& path, google::protobuf::Message* message);
// A file in either form, the binary one tried first. NotFound "File … does not exist.".
Status ReadProto(Env& env, const std::string& path, google::protobuf::Message* message);

Status ParseBinaryProto(std::string_view bytes, google::protobuf::Message* message);
Status ParseTextProto(std::string_view text, google::protobuf::Message* message);

// The same bytes for equal messages. InvalidArgument for more than 2 GiB.
StatusOr<std::string> SerializeBinaryProto(const google::protobuf::Message& message);
// Writes these bytes. Replaces the file atomically.
Status WriteBinaryProto(Env& env, const std::string& path, const google::protobuf::Message& message);
Status WriteTextProto(Env& env, const std::string& path, const google::protobuf::Message& message);

// "a/b" for ("a", "b") and for ("a/", "b"); "b" for ("", "b").
std::string JoinPath(std::string_view folder, std::string_view name);

}  // namespace millrace
