// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "io/record_file.h"
#include "millrace/status.h"

namespace millrace::io {

// The offset of each record of a TFRecord file, so that the n-th is found without reading those before it.
//
// Its file: "MRRECIX1", then as varints the compression (0, 1 zlib, 2 gzip), the bytes of the record file,
// the number of records and the length of each one's data, and the masked CRC-32C of all these (4 bytes,
// little-endian).
class RecordIndex {
 public:
  // Reads the file; verifies the checksums of lengths, not of data. DataLoss with the offset for a corrupt
  // file. `progress`, unless empty, is called with the offset periodically. ResourceExhausted when few
  // compressed bytes hold so many records that the index would need more than 10 times the file and 64 MB.
  static StatusOr<RecordIndex> Build(Env& env, const std::string& path, Compression compression,
                                     const std::function<void(uint64_t)>& progress = {});

  // `what` names the bytes in errors: InvalidArgument for other contents, DataLoss for corrupt ones.
  static StatusOr<RecordIndex> Parse(std::string_view bytes, const std::string& what);
  std::string Bytes() const;
  static StatusOr<RecordIndex> Load(Env& env, const std::string& path);
  Status Save(Env& env, const std::string& path) const;

  Compression compression() const { return compression_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of the record file, on disk
  uint64_t size() const { return offsets_.size() - 1; }
  // In the data before compression. REQUIRES: i < size().
  uint64_t offset(uint64_t i) const { return offsets_[i]; }
  uint64_t length(uint64_t i) const { return offsets_[i + 1] - offsets_[i] - kOverhead; }
  // The sum of the lengths.
  uint64_t data_bytes() const { return offsets_.back() - size() * kOverhead; }

 private:
  static constexpr uint64_t kOverhead = 16;  // of a record: its length and two checksums

  Compression compression_ = Compression::kNone;
  uint64_t file_bytes_ = 0;
  std::vector<uint64_t> offsets_ = {0};  // of each record, and of the end
};

// Reads records in any order. One thread at a time.
class IndexedRecordReader {
 public:
  // FailedPrecondition if the file has another size than that of the index.
  static StatusOr<std::unique_ptr<IndexedRecordReader>> Open(Env& env, const std::string& path,
                                                             RecordIndex index);

  const RecordIndex& index() const { return index_; }
  // Record i, verified. OutOfRange beyond the last; DataLoss when it is corrupt or not at its offset in the
  // index. In a compressed file everything up to it is decompressed, from the end of the last Read or from
  // the start.
  Status Read(uint64_t i, std::string* record);

 private:
  IndexedRecordReader(Env& env, std::string path, RecordIndex index)
      : env_(env), path_(std::move(path)), index_(std::move(index)) {}
  Status ReadPlain(uint64_t i, std::string* record) const;
  Status ReadUnpacked(uint64_t i, std::string* record);

  Env& env_;
  const std::string path_;
  const RecordIndex index_;
  std::unique_ptr<RandomAccessFile> file_;  // null: compressed
  std::unique_ptr<RecordReader> reader_;  // of a compressed file; null before the first Read and after errors
};

}  // namespace millrace::io
