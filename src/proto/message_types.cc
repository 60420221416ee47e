// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "proto/message_types.h"

#include <climits>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

namespace millrace {
namespace {

namespace pb = google::protobuf;

constexpr int kMostNested = 100;

// Keeps the first error, which would otherwise be written to standard error.
class FirstError final : public pb::io::ErrorCollector {
 public:
  explicit FirstError(TextError* error) : error_(error) {}
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (error_->message.empty()) *error_ = {line + 1, column + 1, message};
  }
  void AddWarning(int /*line*/, pb::io::ColumnNumber /*column*/, const std::string& /*message*/) override {}

 private:
  TextError* const error_;
};

class Finder final : public pb::TextFormat::Finder {
 public:
  const pb::Descriptor* FindAnyType(const pb::Message& message, const std::string& prefix,
                                    const std::string& name) const override {
    const pb::Descriptor* found = pb::TextFormat::Finder::FindAnyType(message, prefix, name);
    return found != nullptr || prefix != "type.googleapis.com/" ? found : FindMessageType(name);
  }
};

}  // namespace

std::string TextError::ToString() const {
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message;
}

bool ParseMessageText(std::string_view text, UnknownFields unknown, pb::Message* message, TextError* error) {
  *error = TextError();
  if (text.size() > INT_MAX) {
    error->message = "the text is longer than 2 GiB";
    return false;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // the mark that editors write before UTF-8
  FirstError first(error);
  const Finder finder;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&first);
  parser.SetFinder(&finder);
  parser.SetRecursionLimit(kMostNested);
  parser.AllowUnknownField(unknown == UnknownFields::kSkipped);
  parser.AllowUnknownExtension(unknown == UnknownFields::kSkipped);
  pb::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  return parser.Parse(&input, message);
}

}  // namespace millrace
