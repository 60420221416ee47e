// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/input_stream.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace millrace::io {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

class FileSource : public ByteSource {
 public:
  FileSource(std::unique_ptr<RandomAccessFile> file, uint64_t offset, uint64_t length)
      : file_(std::move(file)), offset_(offset), length_(length) {}

  Status Next(std::string* piece) override {
    // At the end of a file of known length only a short piece is looked for.
    constexpr uint64_t kEndBytes = 4 << 10;
    const uint64_t left = length_ == 0 ? kPieceBytes : MostLeft();
    const uint64_t want = std::clamp<uint64_t>(left, kEndBytes, kPieceBytes);
    piece->resize(static_cast<size_t>(want));
    MR_ASSIGN_OR_RETURN(const size_t got, file_->ReadInto(offset_, piece->size(), piece->data()));
    piece->resize(got);
    offset_ += got;
    return Status();
  }
  uint64_t MostLeft() const override { return length_ > offset_ ? length_ - offset_ : 0; }

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  uint64_t offset_;
  const uint64_t length_;  // when it was opened; 0 for files made on the fly
};

class InflateSource : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> compressed, Compression compression, std::string name)
      : compressed_(std::move(compressed)), compression_(compression), name_(std::move(name)) {}
  ~InflateSource() override {
    if (started_) inflateEnd(&stream_);
  }

  Status Next(std::string* piece) override {
    if (ended_) {
      piece->clear();
      return Status();
    }
    piece->resize(kPieceBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(piece->data());
    stream_.avail_out = kPieceBytes;
    while (stream_.avail_out == kPieceBytes && !ended_) MR_RETURN_IF_ERROR(Step());
    piece->resize(kPieceBytes - stream_.avail_out);
    return Status();
  }
  // A byte may unpack to a thousand, so the size is unknown.
  uint64_t MostLeft() const override { return ended_ ? 0 : kPieceBytes; }

 private:
  Status Step() {
    if (stream_.avail_in == 0) {
      MR_RETURN_IF_ERROR(compressed_->Next(&input_));
      if (input_.empty()) {
        ended_ = true;
        // An empty input is an empty file; the end may also follow a complete stream.
        return started_ ? errors::DataLoss(name_, "; the compressed data ends early") : Status();
      }
      stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_.avail_in = static_cast<uInt>(input_.size());
    }
    if (!started_) {
      const int window = compression_ == Compression::kGzip ? MAX_WBITS + 16 : MAX_WBITS;
      if (inflateInit2(&stream_, window) != Z_OK) return errors::ResourceExhausted("no memory for zlib");
      started_ = true;
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      inflateEnd(&stream_);
      started_ = false;
      ended_ = compression_ == Compression::kZlib;  // gzip: another stream may follow
      return Status();
    }
    if (result == Z_OK || result == Z_BUF_ERROR) return Status();
    if (result == Z_MEM_ERROR) return errors::ResourceExhausted("no memory for zlib");
    ended_ = true;
    return errors::DataLoss(
        name_, "; malformed compressed data: ", stream_.msg != nullptr ? stream_.msg : "unknown error");
  }

  const std::unique_ptr<ByteSource> compressed_;
  const Compression compression_;
  const std::string name_;
  std::string input_;
  z_stream stream_ = {};
  bool started_ = false;  // stream_ has memory
  bool ended_ = false;
};

}  // namespace

StatusOr<Compression> ParseCompression(std::string_view name) {
  if (name.empty()) return Compression::kNone;
  if (name == "ZLIB") return Compression::kZlib;
  if (name == "GZIP") return Compression::kGzip;
  return errors::InvalidArgument("Unsupported compression_type: ", name);
}

StatusOr<std::unique_ptr<ByteSource>> OpenFile(Env& env, const std::string& path, uint64_t offset) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (stat.is_directory) return errors::FailedPrecondition(path, "; is a directory");
  MR_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, env.NewRandomAccessFile(path));
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(std::move(file), offset, stat.length));
}

std::unique_ptr<ByteSource> Inflate(std::unique_ptr<ByteSource> compressed, Compression compression,
                                    std::string name) {
  return std::make_unique<InflateSource>(std::move(compressed), compression, std::move(name));
}

StatusOr<std::unique_ptr<ByteSource>> OpenFile(Env& env, const std::string& path, Compression compression) {
  MR_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenFile(env, path, uint64_t{0}));
  if (compression != Compression::kNone) source = Inflate(std::move(source), compression, path);
  return source;
}

Status InputStream::Fill(bool* at_end) {
  if (used_ == piece_.size()) {
    used_ = 0;
    const Status status = source_->Next(&piece_);
    if (!status.ok()) piece_.clear();
    MR_RETURN_IF_ERROR(status);
  }
  *at_end = piece_.empty();
  return Status();
}

Status InputStream::Read(uint64_t n, std::string* out) {
  out->clear();
  // Reserves at most the possible size at once; beyond that the string grows with the data.
  out->reserve(static_cast<size_t>(std::min<uint64_t>(n, rest().size() + source_->MostLeft())));
  while (out->size() < n) {
    bool at_end = false;
    MR_RETURN_IF_ERROR(Fill(&at_end));
    if (at_end) return errors::OutOfRange("eof");
    const std::string_view part = rest().substr(0, static_cast<size_t>(n - out->size()));
    out->append(part);
    Take(part.size());
  }
  return Status();
}

Status InputStream::Skip(uint64_t n) {
  while (n > 0) {
    bool at_end = false;
    MR_RETURN_IF_ERROR(Fill(&at_end));
    if (at_end) return errors::OutOfRange("eof");
    const auto part = static_cast<size_t>(std::min<uint64_t>(n, rest().size()));
    Take(part);
    n -= part;
  }
  return Status();
}

Status InputStream::ReadLine(std::string* out) {
  out->clear();
  bool any = false;
  for (;;) {
    bool at_end = false;
    MR_RETURN_IF_ERROR(Fill(&at_end));
    if (at_end) return any ? Status() : errors::OutOfRange("eof");
    any = true;
    const std::string_view part = rest();
    const size_t newline = part.find('\n');
    std::string_view line = part.substr(0, newline);
    while (!line.empty()) {
      const size_t cr = std::min(line.find('\r'), line.size());
      out->append(line.substr(0, cr));
      line.remove_prefix(std::min(cr + 1, line.size()));
    }
    Take(newline == std::string_view::npos ? part.size() : newline + 1);
    if (newline != std::string_view::npos) return Status();
  }
}

}  // namespace millrace::io
