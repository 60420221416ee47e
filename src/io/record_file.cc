// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/record_file.h"

#include <zlib.h>

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "io/crc32c.h"

namespace millrace::io {
namespace {

constexpr uint64_t kLengthBytes = 8, kCrcBytes = 4;

template <typename Int>
Int DecodeFixed(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little, "files have the lowest byte first");
  Int value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

void AppendFixed(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) *out += static_cast<char>(value >> (8 * i));
}

}  // namespace

StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(Env& env, const std::string& path,
                                                           Compression compression) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenFile(env, path, compression));
  return std::unique_ptr<RecordReader>(
      new RecordReader(path, std::move(source), 0, compression != Compression::kNone));
}

StatusOr<std::unique_ptr<RecordReader>> RecordReader::OpenAt(Env& env, const std::string& path,
                                                             uint64_t offset) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenFile(env, path, offset));
  return std::unique_ptr<RecordReader>(new RecordReader(path, std::move(source), offset, false));
}

Status RecordReader::Read(std::string* record) {
  std::string_view view;
  if (error_.ok()) error_ = ReadNext(record, &view);
  if (!error_.ok()) {
    record->clear();
  } else if (view.data() == record->data()) {
    record->resize(view.size());
  } else {
    record->assign(view);
  }
  return error_;
}

Status RecordReader::ReadView(std::string_view* record) {
  *record = {};
  if (error_.ok()) error_ = ReadNext(&room_, record);
  return error_;
}

bool RecordReader::SkipBroken() {
  if (error_.ok() || !only_data_broken_) return false;
  only_data_broken_ = false;
  error_ = Status();
  offset_ = position();
  return true;
}

Status RecordReader::SkipTo(uint64_t offset) {
  if (offset < offset_) return errors::InvalidArgument(path_, "; cannot go back to offset ", offset);
  if (error_.ok()) error_ = stream_.Skip(offset - offset_);
  offset_ = offset;
  return error_;
}

StatusOr<uint64_t> RecordReader::Skip() {
  uint64_t length = 0;
  if (error_.ok()) error_ = ReadLength(&length);
  // Skipped in two steps, since a corrupt length may be so large that the sum would overflow.
  if (error_.ok()) error_ = Truncated(stream_.Skip(length));
  if (error_.ok()) error_ = Truncated(stream_.Skip(kCrcBytes));
  MR_RETURN_IF_ERROR(error_);
  offset_ = position();
  return length;
}

Status RecordReader::Truncated(const Status& status) const {
  if (!errors::IsOutOfRange(status)) return status;
  return errors::DataLoss("truncated record at ", offset_, " (in file ", path_, ")");
}

Status RecordReader::ReadLength(uint64_t* length) {
  std::string room;
  std::string_view header;
  Status status = ReadChecked(kLengthBytes, &room, &header);
  // An end between two records is the end of the file.
  if (errors::IsOutOfRange(status) && position() == offset_) return status;
  MR_RETURN_IF_ERROR(Truncated(status));
  *length = DecodeFixed<uint64_t>(header);
  return Status();
}

Status RecordReader::ReadNext(std::string* room, std::string_view* record) {
  uint64_t length = 0;
  MR_RETURN_IF_ERROR(ReadLength(&length));
  const uint64_t begin = position();
  const Status status = Truncated(ReadChecked(length, room, record));
  only_data_broken_ = !status.ok() && length <= most_bytes_ && position() - begin == length + kCrcBytes;
  MR_RETURN_IF_ERROR(status);
  offset_ = position();
  return Status();
}

// n bytes and the checksum that follows them. Bytes that are not contiguous are copied to `room`.
Status RecordReader::ReadChecked(uint64_t n, std::string* room, std::string_view* out) {
  const uint64_t begin = position();
  if (n > most_bytes_) {
    return errors::ResourceExhausted(path_, "; the record at ", offset_, " has ", n, " bytes");
  }
  // A corrupt length may be so large that the sum would overflow; no source has so many bytes.
  const uint64_t bytes = n > UINT64_MAX - kCrcBytes ? n : n + kCrcBytes;
  std::string_view all;
  if (!stream_.View(bytes, &all)) {
    MR_RETURN_IF_ERROR(stream_.Read(bytes, room));
    all = *room;
  }
  *out = all.substr(0, static_cast<size_t>(n));
  if (DecodeFixed<uint32_t>(all.substr(out->size())) != MaskCrc(Crc32c(*out))) {
    return errors::DataLoss("corrupted record at ", begin, " (in file ", path_, ")");
  }
  return Status();
}

class RecordWriter::Deflater {
 public:
  explicit Deflater(Compression compression) {
    const int window = compression == Compression::kGzip ? MAX_WBITS + 16 : MAX_WBITS;
    ready_ = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, kMemoryLevel,
                          Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Deflater() {
    if (ready_) deflateEnd(&stream_);
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  // With `finish` also the buffered rest.
  Status Deflate(std::string_view bytes, bool finish, WritableFile& file) {
    if (!ready_) return errors::ResourceExhausted("no memory for zlib");
    constexpr size_t kMostAtOnce = std::numeric_limits<uInt>::max() / 2;
    do {
      const std::string_view part = bytes.substr(0, kMostAtOnce);
      bytes.remove_prefix(part.size());
      MR_RETURN_IF_ERROR(DeflatePart(part, finish && bytes.empty(), file));
    } while (!bytes.empty());
    return Status();
  }

 private:
  static constexpr int kMemoryLevel = 9;

  Status DeflatePart(std::string_view part, bool finish, WritableFile& file) {
    char out[64 << 10];
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream_.avail_in = static_cast<uInt>(part.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out);
      stream_.avail_out = sizeof(out);
      if (deflate(&stream_, finish ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR) {
        return errors::Internal("zlib: inconsistent state");
      }
      MR_RETURN_IF_ERROR(file.Append({out, sizeof(out) - stream_.avail_out}));
    } while (stream_.avail_out == 0);
    return Status();
  }

  z_stream stream_ = {};
  bool ready_ = false;
};

RecordWriter::RecordWriter(WritableFile& file, Compression compression) : file_(file) {
  if (compression != Compression::kNone) deflater_ = std::make_unique<Deflater>(compression);
}

RecordWriter::~RecordWriter() { Close().IgnoreError("a caller that needs the status calls Close itself"); }

Status RecordWriter::Append(std::string_view bytes) {
  return deflater_ == nullptr ? file_.Append(bytes) : deflater_->Deflate(bytes, false, file_);
}

Status RecordWriter::Write(std::string_view record) {
  if (closed_) return errors::FailedPrecondition("the writer of records has been closed");
  std::string header, footer;
  AppendFixed(record.size(), kLengthBytes, &header);
  AppendFixed(MaskCrc(Crc32c(header)), kCrcBytes, &header);
  AppendFixed(MaskCrc(Crc32c(record)), kCrcBytes, &footer);
  MR_RETURN_IF_ERROR(Append(header));
  MR_RETURN_IF_ERROR(Append(record));
  return Append(footer);
}

Status RecordWriter::Close() {
  if (closed_) return Status();
  closed_ = true;
  return deflater_ == nullptr ? Status() : deflater_->Deflate("", true, file_);
}

}  // namespace millrace::io
