// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "io/input_stream.h"
#include "millrace/status.h"

// TFRecord files: of each record the length (8 bytes, little-endian), the masked CRC-32C of those, the data,
// and the masked CRC-32C of the data; one after the other, the whole perhaps compressed.
namespace millrace::io {

// Reads one from start to end. One thread at a time.
class RecordReader {
 public:
  static StatusOr<std::unique_ptr<RecordReader>> Open(Env& env, const std::string& path,
                                                      Compression compression);

  // Of a file that is not compressed, from the record at `offset` on.
  static StatusOr<std::unique_ptr<RecordReader>> OpenAt(Env& env, const std::string& path, uint64_t offset);

  // Where the next record begins, in the data before compression.
  uint64_t offset() const { return offset_; }
  // OutOfRange "eof" after the last record. DataLoss "truncated record at …" or "corrupted record at …" with
  // the offset and the file; then, and after other errors, later calls give the same.
  Status Read(std::string* record);
  // The same, with the bytes where they are until the next call.
  Status ReadView(std::string_view* record);
  // The same without the data, whose checksum is not checked. Their size.
  StatusOr<uint64_t> Skip();
  // After an error of Read: when only the data of the record were broken, and not its length, the next Read
  // goes on behind it; false otherwise.
  bool SkipBroken();
  // Goes to a place that offset() once gave.
  Status SkipTo(uint64_t offset);
  // From now on a record of more bytes is ResourceExhausted, before memory is taken for it.
  void LimitRecords(uint64_t most_bytes) { most_bytes_ = most_bytes; }

 private:
  RecordReader(std::string path, std::unique_ptr<ByteSource> source, uint64_t offset, bool compressed)
      : path_(std::move(path)),
        stream_(std::move(source)),
        begin_(offset),
        // Few compressed bytes may unpack to very many; a record of a plain file is bounded by the file.
        most_bytes_(compressed ? uint64_t{1} << 30 : UINT64_MAX),
        offset_(offset) {}
  uint64_t position() const { return begin_ + stream_.position(); }
  Status ReadNext(std::string* room, std::string_view* record);
  Status ReadLength(uint64_t* length);
  Status Truncated(const Status& status) const;
  Status ReadChecked(uint64_t n, std::string* room, std::string_view* out);

  const std::string path_;
  InputStream stream_;
  const uint64_t begin_;  // where `stream_` does
  uint64_t most_bytes_;
  uint64_t offset_;
  bool only_data_broken_ = false;  // in the record that error_ is about
  Status error_;
  std::string room_;  // for what is not in one piece
};

// Appends records to a file. The file is whole after Close. One thread at a time.
class RecordWriter {
 public:
  // `file` is borrowed.
  RecordWriter(WritableFile& file, Compression compression);
  ~RecordWriter();  // closes, and loses the error
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  Status Write(std::string_view record);
  // Writes what compression holds back. The file stays open.
  Status Close();

 private:
  class Deflater;
  Status Append(std::string_view bytes);

  WritableFile& file_;
  std::unique_ptr<Deflater> deflater_;  // null: not compressed
  bool closed_ = false;
};

}  // namespace millrace::io
