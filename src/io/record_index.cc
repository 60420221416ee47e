// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/record_index.h"

#include <utility>

#include "io/checkpoint/coding.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

constexpr std::string_view kMagic = "MRRECIX1";
constexpr size_t kSumBytes = 4;
constexpr uint64_t kMostIndexBytes = uint64_t{64} << 20;  // beyond 10 times the file
constexpr uint64_t kProgressEvery = 1024;                 // records

}  // namespace

StatusOr<RecordIndex> RecordIndex::Build(Env& env, const std::string& path, Compression compression,
                                         const std::function<void(uint64_t)>& progress) {
  RecordIndex index;
  index.compression_ = compression;
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  index.file_bytes_ = stat.length;
  const uint64_t most = (kMostIndexBytes + 10 * stat.length) / sizeof(uint64_t);
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(env, path, compression));
  for (;;) {
    const auto length = reader->Skip();
    if (errors::IsOutOfRange(length.status())) break;
    MR_RETURN_IF_ERROR(length.status());
    if (index.offsets_.size() >= most) {
      return errors::ResourceExhausted(path, "; more than ", most, " records in ", stat.length, " bytes");
    }
    index.offsets_.push_back(reader->offset());
    if (progress && index.size() % kProgressEvery == 0) progress(reader->offset());
  }
  return index;
}

std::string RecordIndex::Bytes() const {
  std::string out(kMagic);
  PutVarint(static_cast<uint64_t>(compression_), &out);
  PutVarint(file_bytes_, &out);
  PutVarint(size(), &out);
  for (uint64_t i = 0; i < size(); ++i) PutVarint(length(i), &out);
  PutFixed32(MaskCrc(Crc32c(out)), &out);
  return out;
}

StatusOr<RecordIndex> RecordIndex::Parse(std::string_view bytes, const std::string& what) {
  if (!bytes.starts_with(kMagic)) return errors::InvalidArgument(what, "; is not an index of records");
  const auto broken = [&what](std::string_view how) {
    return errors::DataLoss(what, "; broken index of records: ", how);
  };
  if (bytes.size() < kMagic.size() + kSumBytes) return broken("it ends early");
  std::string_view rest = bytes.substr(0, bytes.size() - kSumBytes);
  if (GetFixed32(rest.data() + rest.size()) != MaskCrc(Crc32c(rest))) return broken("its checksum is wrong");
  rest.remove_prefix(kMagic.size());
  RecordIndex index;
  uint64_t compression = 0, count = 0;
  if (!TakeVarint64(&rest, &compression) || !TakeVarint64(&rest, &index.file_bytes_) ||
      !TakeVarint64(&rest, &count)) {
    return broken("it ends early");
  }
  if (compression > static_cast<uint64_t>(Compression::kGzip)) return broken("unknown compression");
  index.compression_ = static_cast<Compression>(compression);
  if (count > rest.size()) return broken("it ends early");
  index.offsets_.reserve(count + 1);
  uint64_t end = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (!TakeVarint64(&rest, &length)) return broken("it ends early");
    if (__builtin_add_overflow(end, length, &end) || __builtin_add_overflow(end, kOverhead, &end)) {
      return broken("the records are too long");
    }
    index.offsets_.push_back(end);
  }
  if (!rest.empty()) return broken("bytes after its end");
  if (index.compression_ == Compression::kNone && end != index.file_bytes_) {
    return broken("the records do not fill the file");
  }
  return index;
}

StatusOr<RecordIndex> RecordIndex::Load(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string bytes, ReadFileToString(env, path));
  return Parse(bytes, path);
}

Status RecordIndex::Save(Env& env, const std::string& path) const {
  return WriteFileAtomically(env, path, Bytes());
}

StatusOr<std::unique_ptr<IndexedRecordReader>> IndexedRecordReader::Open(Env& env, const std::string& path,
                                                                         RecordIndex index) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (stat.length != index.file_bytes()) {
    return errors::FailedPrecondition(path, "; has ", stat.length, " bytes, its index was made of ",
                                      index.file_bytes());
  }
  const bool plain = index.compression() == Compression::kNone;
  auto reader = std::unique_ptr<IndexedRecordReader>(new IndexedRecordReader(env, path, std::move(index)));
  if (plain) {
    MR_ASSIGN_OR_RETURN(reader->file_, env.NewRandomAccessFile(path));
  }
  return reader;
}

Status IndexedRecordReader::Read(uint64_t i, std::string* record) {
  record->clear();
  if (i >= index_.size()) {
    return errors::OutOfRange(path_, "; has ", index_.size(), " records, there is no number ", i);
  }
  Status status = file_ == nullptr ? ReadUnpacked(i, record) : ReadPlain(i, record);
  if (!status.ok()) record->clear();
  return status;
}

Status IndexedRecordReader::ReadPlain(uint64_t i, std::string* record) const {
  const uint64_t offset = index_.offset(i), length = index_.length(i);
  const auto corrupted = [&] {
    return errors::DataLoss("corrupted record at ", offset, " (in file ", path_, ")");
  };
  // The records of the index are within the file, which bounds `length`.
  std::string bytes;
  const Status read = file_->Read(offset, static_cast<size_t>(length + 16), &bytes);
  if (errors::IsOutOfRange(read)) {
    return errors::DataLoss("truncated record at ", offset, " (in file ", path_, ")");
  }
  MR_RETURN_IF_ERROR(read);
  const std::string_view view = bytes;
  if (GetFixed32(view.data() + 8) != MaskCrc(Crc32c(view.substr(0, 8)))) return corrupted();
  if (GetFixed64(view.data()) != length) {
    return errors::DataLoss(path_, "; the record at ", offset, " has ", GetFixed64(view.data()),
                            " bytes, its index says ", length);
  }
  if (GetFixed32(view.data() + 12 + length) != MaskCrc(Crc32c(view.substr(12, length)))) return corrupted();
  *record = std::move(bytes);
  record->resize(static_cast<size_t>(12 + length));
  record->erase(0, 12);
  return Status();
}

Status IndexedRecordReader::ReadUnpacked(uint64_t i, std::string* record) {
  const uint64_t offset = index_.offset(i);
  if (reader_ == nullptr || reader_->offset() > offset) {
    MR_ASSIGN_OR_RETURN(reader_, RecordReader::Open(env_, path_, index_.compression()));
  }
  Status status = reader_->SkipTo(offset);
  if (status.ok()) status = reader_->Read(record);
  if (errors::IsOutOfRange(status)) {
    status = errors::DataLoss("truncated record at ", offset, " (in file ", path_, ")");
  }
  if (status.ok() && record->size() != index_.length(i)) {
    status = errors::DataLoss(path_, "; the record at ", offset, " has ", record->size(),
                              " bytes, its index says ", index_.length(i));
  }
  if (!status.ok()) reader_ = nullptr;
  return status;
}

}  // namespace millrace::io
