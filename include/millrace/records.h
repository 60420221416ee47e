// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "millrace/status.h"

// TFRecord files and the Examples in them: as TensorFlow's tf.io.TFRecordWriter and tf.train.Example.
namespace millrace {

enum class RecordCompression { kNone, kZlib, kGzip };

// Writes records, strings of any bytes, to a file. One thread at a time.
class RecordWriter {
 public:
  // Replaces an existing file.
  static StatusOr<std::unique_ptr<RecordWriter>> Open(
      const std::string& path, RecordCompression compression = RecordCompression::kNone);
  ~RecordWriter();  // closes, ignoring errors
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // FailedPrecondition after Close.
  Status Write(std::string_view record);
  // Passes written records to the operating system; data buffered by compression is kept.
  Status Flush();
  // The file is complete and on disk afterwards. Further calls have no effect.
  Status Close();

 private:
  struct State;
  explicit RecordWriter(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

// Reads the records of a file. One thread at a time.
class RecordReader {
 public:
  static StatusOr<std::unique_ptr<RecordReader>> Open(
      const std::string& path, RecordCompression compression = RecordCompression::kNone);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // OutOfRange after the last record. DataLoss, with the offset and the file, for corrupted data.
  Status Read(std::string* record);
  // The offset of the next record, in the uncompressed data. SkipTo skips forward to an offset, and after an
  // error there is nothing more to read; InvalidArgument for an offset before the current one.
  uint64_t offset() const;
  Status SkipTo(uint64_t offset);

 private:
  struct State;
  explicit RecordReader(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

// A list of values of one kind; of no kind if it is empty.
using Feature =
    std::variant<std::vector<int64_t>, std::vector<float>, std::vector<std::string>, std::monostate>;

// Named lists of values: a tensorflow.Example. A value.
class Example {
 public:
  Example& Set(const std::string& name, std::vector<int64_t> values);
  Example& Set(const std::string& name, std::vector<float> values);
  Example& Set(const std::string& name, std::vector<std::string> values);
  // Braced lists: Set("b", {1.5f, 2.5f}).
  Example& Set(const std::string& name, std::initializer_list<int> values) {
    return Set(name, std::vector<int64_t>(values.begin(), values.end()));
  }
  Example& Set(const std::string& name, std::initializer_list<int64_t> values) {
    return Set(name, std::vector<int64_t>(values));
  }
  Example& Set(const std::string& name, std::initializer_list<float> values) {
    return Set(name, std::vector<float>(values));
  }
  Example& Set(const std::string& name, std::initializer_list<double> values) {
    std::vector<float> floats;
    for (const double value : values) floats.push_back(static_cast<float>(value));
    return Set(name, std::move(floats));
  }
  Example& Set(const std::string& name, std::initializer_list<const char*> values);
  Example& Set(const std::string& name, int64_t value) { return Set(name, std::vector<int64_t>{value}); }
  Example& Set(const std::string& name, int value) { return Set(name, static_cast<int64_t>(value)); }
  Example& Set(const std::string& name, float value) { return Set(name, std::vector<float>{value}); }
  Example& Set(const std::string& name, double value) { return Set(name, static_cast<float>(value)); }
  Example& Set(const std::string& name, const char* value);
  Example& Set(const std::string& name, std::string value) {
    return Set(name, std::vector<std::string>{std::move(value)});
  }

  const std::map<std::string, Feature>& features() const { return features_; }
  // NotFound if there is no such feature; InvalidArgument if it is of another kind.
  StatusOr<std::vector<int64_t>> Ints(const std::string& name) const;
  StatusOr<std::vector<float>> Floats(const std::string& name) const;
  StatusOr<std::vector<std::string>> Strings(const std::string& name) const;

  // The bytes of the message, features in the order of their names.
  std::string Serialize() const;
  // DataLoss for bytes that are no Example.
  static StatusOr<Example> Parse(std::string_view bytes);

  friend bool operator==(const Example&, const Example&) = default;

 private:
  std::map<std::string, Feature> features_;
};

}  // namespace millrace
