// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "io/input_stream.h"
#include "millrace/status.h"

// TFRecord files: for each record its length (8 bytes, little-endian), the masked CRC-32C of the length, the
// data, and the masked CRC-32C of the data. The whole file may be compressed.
namespace millrace::io {

// Reads one from start to end. One thread at a time.
class RecordReader {
 public:
  static StatusOr<std::unique_ptr<RecordReader>> Open(Env& env, const std::string& path,
                                                      Compression compression);

  // Of a file that is not compressed, from the record at `offset` on.
  static StatusOr<std::unique_ptr<RecordReader>> OpenAt(Env& env, const std::string& path, uint64_t offset);

  // The offset of the next record, in the data before compression.
  uint64_t offset() const { return offset_; }
  // OutOfRange "eof" after the last record. DataLoss "truncated record at …" or "corrupted record at …" with
  // the offset and the file; then, and after other errors, later calls return the same.
  Status Read(std::string* record);
  // The same, with a view of the bytes that is valid until the next call.
  Status ReadView(std::string_view* record);
  // The same without the data, whose checksum is not checked. Returns its size.
  StatusOr<uint64_t> Skip();
  // After an error of Read: if only the data of the record is corrupt, and not its length, the next Read
  // continues after it; false otherwise.
  bool SkipBroken();
  // Goes to an offset that offset() once returned.
  Status SkipTo(uint64_t offset);
  // From now on a larger record is ResourceExhausted, before memory is allocated for it.
  void LimitRecords(uint64_t most_bytes) { most_bytes_ = most_bytes; }

 private:
  RecordReader(std::string path, std::unique_ptr<ByteSource> source, uint64_t offset, bool compressed)
      : path_(std::move(path)),
        stream_(std::move(source)),
        begin_(offset),
        // Few compressed bytes may unpack to very many; an uncompressed file bounds its records.
        most_bytes_(compressed ? uint64_t{1} << 30 : UINT64_MAX),
        offset_(offset) {}
  uint64_t position() const { return begin_ + stream_.position(); }
  Status ReadNext(std::string* room, std::string_view* record);
  Status ReadLength(uint64_t* length);
  Status Truncated(const Status& status) const;
  Status ReadChecked(uint64_t n, std::string* room, std::string_view* out);

  const std::string path_;
  InputStream stream_;
  const uint64_t begin_;  // the start of `stream_`
  uint64_t most_bytes_;
  uint64_t offset_;
  bool only_data_broken_ = false;  // in the record of error_
  Status error_;
  std::string room_;  // for data that is not contiguous
};

// Appends records to a file. The file is complete after Close. One thread at a time.
class RecordWriter {
 public:
  // `file` must outlive this.
  RecordWriter(WritableFile& file, Compression compression);
  ~RecordWriter();  // closes, and drops the error
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  Status Write(std::string_view record);
  // Writes data that is buffered for compression. The file stays open.
  Status Close();

 private:
  class Deflater;
  Status Append(std::string_view bytes);

  WritableFile& file_;
  std::unique_ptr<Deflater> deflater_;  // null: not compressed
  bool closed_ = false;
};

}  // namespace millrace::io
