// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/records.h"

#include <climits>
#include <utility>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "base/env.h"
#include "io/record_file.h"
#include "tensorflow/core/example/example.pb.h"

namespace millrace {
namespace {

StatusOr<io::Compression> CompressionOf(const char* function, RecordCompression compression) {
  switch (compression) {
    case RecordCompression::kZlib:
      return io::Compression::kZlib;
    case RecordCompression::kGzip:
      return io::Compression::kGzip;
    case RecordCompression::kNone:
      return io::Compression::kNone;
  }
  return errors::InvalidArgument(function, ": there is no RecordCompression ", static_cast<int>(compression));
}

template <typename T>
StatusOr<std::vector<T>> ValuesOf(const std::map<std::string, Feature>& features, const std::string& name) {
  const auto found = features.find(name);
  if (found == features.end()) return errors::NotFound("The Example has no feature '", name, "'");
  if (std::holds_alternative<std::monostate>(found->second)) return std::vector<T>();
  if (const auto* values = std::get_if<std::vector<T>>(&found->second)) return *values;
  return errors::InvalidArgument("Feature '", name, "' has values of another type");
}

}  // namespace

struct RecordWriter::State {
  State(std::unique_ptr<WritableFile> f, io::Compression compression)
      : file(std::move(f)), records(*file, compression) {}
  std::unique_ptr<WritableFile> file;
  io::RecordWriter records;
  bool closed = false;
};

RecordWriter::RecordWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordWriter::~RecordWriter() { Close().IgnoreError("a destructor cannot return errors"); }

StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Open(const std::string& path,
                                                           RecordCompression compression) {
  MR_ASSIGN_OR_RETURN(const io::Compression how, CompressionOf("RecordWriter::Open", compression));
  MR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, Env::Posix().NewWritableFile(path));
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::make_unique<State>(std::move(file), how)));
}

Status RecordWriter::Write(std::string_view record) {
  if (state_->closed) return errors::FailedPrecondition("The writer of records is closed");
  return state_->records.Write(record);
}

Status RecordWriter::Flush() {
  if (state_->closed) return errors::FailedPrecondition("The writer of records is closed");
  return state_->file->Flush();
}

Status RecordWriter::Close() {
  if (std::exchange(state_->closed, true)) return Status();
  Status status = state_->records.Close();
  status.Update(state_->file->Sync());
  status.Update(state_->file->Close());
  return status;
}

struct RecordReader::State {
  std::unique_ptr<io::RecordReader> records;
};

RecordReader::RecordReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordReader::~RecordReader() = default;

StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path,
                                                           RecordCompression compression) {
  MR_ASSIGN_OR_RETURN(const io::Compression how, CompressionOf("RecordReader::Open", compression));
  MR_ASSIGN_OR_RETURN(auto records, io::RecordReader::Open(Env::Posix(), path, how));
  return std::unique_ptr<RecordReader>(new RecordReader(std::make_unique<State>(State{std::move(records)})));
}

Status RecordReader::Read(std::string* record) {
  if (record == nullptr) return errors::InvalidArgument("RecordReader::Read has no string to read into");
  return state_->records->Read(record);
}
uint64_t RecordReader::offset() const { return state_->records->offset(); }
Status RecordReader::SkipTo(uint64_t offset) { return state_->records->SkipTo(offset); }

Example& Example::Set(const std::string& name, std::vector<int64_t> values) {
  features_[name] = std::move(values);
  return *this;
}
Example& Example::Set(const std::string& name, std::vector<float> values) {
  features_[name] = std::move(values);
  return *this;
}
Example& Example::Set(const std::string& name, const char* value) {
  if (value == nullptr) internal::EndWithMessage("Example::Set: a text is a null pointer");
  return Set(name, std::string(value));
}
Example& Example::Set(const std::string& name, std::initializer_list<const char*> values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const char* value : values) {
    if (value == nullptr) internal::EndWithMessage("Example::Set: a text is a null pointer");
    texts.emplace_back(value);
  }
  return Set(name, std::move(texts));
}
Example& Example::Set(const std::string& name, std::vector<std::string> values) {
  features_[name] = std::move(values);
  return *this;
}

StatusOr<std::vector<int64_t>> Example::Ints(const std::string& name) const {
  return ValuesOf<int64_t>(features_, name);
}
StatusOr<std::vector<float>> Example::Floats(const std::string& name) const {
  return ValuesOf<float>(features_, name);
}
StatusOr<std::vector<std::string>> Example::Strings(const std::string& name) const {
  return ValuesOf<std::string>(features_, name);
}

std::string Example::Serialize() const {
  tensorflow::Example message;
  auto& features = *message.mutable_features()->mutable_feature();
  for (const auto& [name, feature] : features_) {
    tensorflow::Feature& to = features[name];
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&feature)) {
      to.mutable_int64_list()->mutable_value()->Add(ints->begin(), ints->end());
    } else if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
      to.mutable_float_list()->mutable_value()->Add(floats->begin(), floats->end());
    } else if (const auto* strings = std::get_if<std::vector<std::string>>(&feature)) {
      to.mutable_bytes_list()->mutable_value()->Assign(strings->begin(), strings->end());
    }
  }
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);  // equal Examples give equal bytes
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

StatusOr<Example> Example::Parse(std::string_view bytes) {
  tensorflow::Example message;
  if (bytes.size() > INT_MAX || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return errors::DataLoss("Could not parse ", bytes.size(), " bytes as an Example");
  Example example;
  for (const auto& [name, feature] : message.features().feature()) {
    Feature& to = example.features_[name];
    switch (feature.kind_case()) {
      case tensorflow::Feature::kInt64List:
        to = std::vector<int64_t>(feature.int64_list().value().begin(), feature.int64_list().value().end());
        break;
      case tensorflow::Feature::kFloatList:
        to = std::vector<float>(feature.float_list().value().begin(), feature.float_list().value().end());
        break;
      case tensorflow::Feature::kBytesList:
        to = std::vector<std::string>(feature.bytes_list().value().begin(),
                                      feature.bytes_list().value().end());
        break;
      case tensorflow::Feature::KIND_NOT_SET:
        to = std::monostate();
        break;
    }
  }
  return example;
}

}  // namespace millrace
