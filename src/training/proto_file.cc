// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "training/proto_file.h"

#include <climits>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "proto/message_types.h"
#include "training/message_memory.h"

namespace millrace {
namespace {

namespace pb = google::protobuf;

// Parts of a file are read into one block that stays in the cache, from which the parser copies
// strings.
constexpr int kBlockBytes = 256 << 10;

class FileInput final : public pb::io::CopyingInputStream {
 public:
  explicit FileInput(const RandomAccessFile& file) : file_(file) {}
  int Read(void* buffer, int size) override {
    const StatusOr<size_t> got =
        file_.ReadInto(offset_, static_cast<size_t>(size), static_cast<char*>(buffer));
    if (!got.ok()) {
      status_ = got.status();
      return -1;
    }
    offset_ += *got;
    return static_cast<int>(*got);
  }
  // The next Read detects the end of the file.
  int Skip(int count) override {
    offset_ += static_cast<uint64_t>(count);
    return count;
  }
  const Status& status() const { return status_; }

 private:
  const RandomAccessFile& file_;
  uint64_t offset_ = 0;
  Status status_;
};

bool ParseFrom(pb::io::ZeroCopyInputStream* input, pb::Message* message) {
  pb::io::CodedInputStream stream(input);
  stream.SetTotalBytesLimit(INT_MAX);
  return message->ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

Status NotParsed(const std::string& path, const char* form, const std::string& why) {
  return errors::DataLoss("Can't parse ", path, " as ", form, " proto", why.empty() ? "" : ": ", why);
}

}  // namespace

Status ParseBinaryProto(std::string_view bytes, pb::Message* message) {
  if (bytes.size() > INT_MAX) return errors::InvalidArgument(bytes.size(), " bytes are too many");
  if (!IsSmallMessage(bytes.size())) {
    pb::io::ArrayInputStream counted(bytes.data(), static_cast<int>(bytes.size()));
    MR_RETURN_IF_ERROR(CheckBinaryMemory(&counted, bytes.size(), *message));
  }
  pb::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  if (!ParseFrom(&array, message)) return errors::InvalidArgument("the bytes are not such a message");
  return Status::Ok();
}

Status ParseTextProto(std::string_view text, pb::Message* message) {
  if (text.size() > INT_MAX) return errors::InvalidArgument(text.size(), " bytes are too many");
  MR_RETURN_IF_ERROR(CheckTextMemory(text));
  TextError error;
  if (!ParseMessageText(text, UnknownFields::kSkipped, message, &error)) {
    return errors::InvalidArgument(error.ToString());
  }
  return Status::Ok();
}

Status ReadBinaryProto(Env& env, const std::string& path, pb::Message* message) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (stat.length > INT_MAX) {
    return NotParsed(path, "binary", StrCat(stat.length, " bytes are more than a message can have"));
  }
  MR_ASSIGN_OR_RETURN(const auto file, env.NewRandomAccessFile(path));
  if (!IsSmallMessage(stat.length)) {
    FileInput counted(*file);
    pb::io::CopyingInputStreamAdaptor blocks(&counted, kBlockBytes);
    MR_RETURN_IF_ERROR(CheckBinaryMemory(&blocks, stat.length, *message).WithContext(StrCat("; in ", path)));
  }
  FileInput input(*file);
  pb::io::CopyingInputStreamAdaptor blocks(&input, kBlockBytes);
  const bool parsed = ParseFrom(&blocks, message);
  MR_RETURN_IF_ERROR(input.status());
  return parsed ? Status::Ok() : NotParsed(path, "binary", "");
}

Status ReadTextProto(Env& env, const std::string& path, pb::Message* message) {
  MR_ASSIGN_OR_RETURN(const std::string text, ReadFileToString(env, path, INT_MAX));
  const Status parsed = ParseTextProto(text, message);
  if (parsed.code() != ErrorCode::kInvalidArgument) return parsed.WithContext(StrCat("; in ", path));
  return NotParsed(path, "text", std::string(parsed.message()));
}

Status ReadProto(Env& env, const std::string& path, pb::Message* message) {
  if (!env.FileExists(path)) return errors::NotFound("File ", path, " does not exist.");
  Status binary = ReadBinaryProto(env, path, message);
  if (binary.code() != ErrorCode::kDataLoss) return binary;
  message->Clear();
  return ReadTextProto(env, path, message);
}

StatusOr<std::string> SerializeBinaryProto(const pb::Message& message) {
  const size_t size = message.ByteSizeLong();
  if (size > INT_MAX)
    return errors::InvalidArgument("a message of ", size, " bytes is more than protobuf can hold");
  std::string bytes;
  bytes.reserve(size);
  {
    pb::io::StringOutputStream sink(&bytes);
    pb::io::CodedOutputStream stream(&sink);
    stream.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&stream);
  }
  return bytes;
}

Status WriteBinaryProto(Env& env, const std::string& path, const pb::Message& message) {
  auto bytes = SerializeBinaryProto(message);
  if (!bytes.ok()) return errors::InvalidArgument(path, "; ", bytes.status().message());
  return WriteFileAtomically(env, path, *bytes);
}

Status WriteTextProto(Env& env, const std::string& path, const pb::Message& message) {
  std::string text;
  if (!pb::TextFormat::PrintToString(message, &text)) {
    return errors::InvalidArgument(path, "; the message can't be written as text");
  }
  return WriteFileAtomically(env, path, text);
}

std::string JoinPath(std::string_view folder, std::string_view name) {
  while (name.starts_with('/')) name.remove_prefix(1);
  if (folder.empty()) return std::string(name);
  return folder.ends_with('/') ? StrCat(folder, name) : StrCat(folder, "/", name);
}

}  // namespace millrace
