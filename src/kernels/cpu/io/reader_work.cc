// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/io/reader_work.h"

#include <algorithm>
#include <utility>

#include "io/lmdb_file.h"
#include "io/record_file.h"

namespace millrace {
namespace {

// One record, which exists from the start.
class SingleRecord : public WorkUnit {
 public:
  SingleRecord(std::string key, std::string value) : key_(std::move(key)), value_(std::move(value)) {}
  StatusOr<bool> Next(std::string* key, std::string* value) override {
    if (taken_) return false;
    taken_ = true;
    *key = std::move(key_);
    *value = std::move(value_);
    return true;
  }
  bool finished() const override { return taken_; }

 private:
  std::string key_, value_;
  bool taken_ = false;
};

class Lines : public WorkUnit {
 public:
  Lines(const std::string& path, std::unique_ptr<io::ByteSource> source, const ReaderPosition& from)
      : path_(path), stream_(std::move(source)), begin_(from.offset), line_(from.index) {}

  // A file that ends within the header has no lines.
  Status SkipHeader(int64_t lines) {
    std::string ignored;
    for (int64_t i = 0; i < lines; ++i) {
      const Status status = stream_.ReadLine(&ignored);
      if (errors::IsOutOfRange(status)) return Status();
      MR_RETURN_IF_ERROR(status);
      ++line_;
    }
    return Status();
  }
  StatusOr<bool> Next(std::string* key, std::string* value) override {
    const Status status = stream_.ReadLine(value);
    if (errors::IsOutOfRange(status)) return false;
    MR_RETURN_IF_ERROR(status);
    *key = StrCat(path_, ":", ++line_);
    return true;
  }
  ReaderPosition position() const override { return {begin_ + stream_.position(), line_}; }

 private:
  const std::string path_;
  io::InputStream stream_;
  const uint64_t begin_;  // where the stream begins in the file
  uint64_t line_;         // lines read
};

class Records : public WorkUnit {
 public:
  Records(const std::string& path, std::unique_ptr<io::RecordReader> reader)
      : path_(path), reader_(std::move(reader)) {}
  StatusOr<bool> Next(std::string* key, std::string* value) override {
    *key = StrCat(path_, ":", reader_->offset());
    const Status status = reader_->Read(value);
    if (errors::IsOutOfRange(status)) return false;
    MR_RETURN_IF_ERROR(status);
    return true;
  }
  ReaderPosition position() const override { return {reader_->offset(), 0}; }

 private:
  const std::string path_;
  const std::unique_ptr<io::RecordReader> reader_;
};

class FixedLengthRecords : public WorkUnit {
 public:
  FixedLengthRecords(const std::string& path, std::unique_ptr<io::ByteSource> source,
                     const FixedLength& format, uint64_t file_bytes, const ReaderPosition& from)
      : path_(path),
        stream_(std::move(source)),
        record_bytes_(format.record_bytes),
        hop_bytes_(format.hop_bytes > 0 ? format.hop_bytes : format.record_bytes),
        limit_(file_bytes - std::min(file_bytes, format.footer_bytes)),
        next_(from) {}

  StatusOr<bool> Next(std::string* key, std::string* value) override {
    if (next_.offset > limit_ || record_bytes_ > limit_ - next_.offset) return false;
    std::string rest;
    Status status = stream_.Skip(to_skip_);
    if (status.ok()) status = stream_.Read(record_bytes_ - overlap_.size(), &rest);
    if (errors::IsOutOfRange(status)) {
      status = errors::DataLoss(path_, "; became shorter while it was read, at record ", next_.index);
    }
    MR_RETURN_IF_ERROR(status);
    *value = overlap_.empty() ? std::move(rest) : overlap_ + rest;
    overlap_ = hop_bytes_ < record_bytes_ ? value->substr(hop_bytes_) : std::string();
    to_skip_ = hop_bytes_ - std::min(hop_bytes_, record_bytes_);
    *key = StrCat(path_, ":", next_.index++);
    next_.offset += hop_bytes_;  // no overflow: a file and an attribute are each below 2^63
    return true;
  }
  ReaderPosition position() const override { return next_; }

 private:
  const std::string path_;
  io::InputStream stream_;
  const uint64_t record_bytes_, hop_bytes_;
  const uint64_t limit_;  // where the footer begins
  ReaderPosition next_;
  std::string overlap_;   // the first bytes of the next record, if records overlap
  uint64_t to_skip_ = 0;  // between the last record and the next
};

// A source without its first bytes.
class SkippedSource final : public io::ByteSource {
 public:
  SkippedSource(std::unique_ptr<io::ByteSource> source, uint64_t bytes)
      : source_(std::move(source)), to_skip_(bytes) {}
  Status Next(std::string* piece) override {
    while (true) {
      MR_RETURN_IF_ERROR(source_->Next(piece));
      if (to_skip_ == 0 || piece->empty()) return Status();
      const auto skipped = static_cast<size_t>(std::min<uint64_t>(to_skip_, piece->size()));
      to_skip_ -= skipped;
      piece->erase(0, skipped);
      if (!piece->empty()) return Status();
    }
  }
  uint64_t MostLeft() const override { return source_->MostLeft(); }

 private:
  const std::unique_ptr<io::ByteSource> source_;
  uint64_t to_skip_;
};

StatusOr<uint64_t> UnpackedLength(Env& env, const std::string& path, io::Compression compression) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<io::ByteSource> source, io::OpenFile(env, path, compression));
  uint64_t length = 0;
  for (std::string piece;;) {
    MR_RETURN_IF_ERROR(source->Next(&piece));
    if (piece.empty()) return length;
    length += piece.size();
  }
}

}  // namespace

WorkOpener IdentityWork() {
  return [](const std::string& work, const ReaderPosition& /*from*/) -> StatusOr<std::unique_ptr<WorkUnit>> {
    return std::unique_ptr<WorkUnit>(std::make_unique<SingleRecord>(work, work));
  };
}

WorkOpener WholeFileWork(Env& env) {
  return
      [&env](const std::string& work, const ReaderPosition& /*from*/) -> StatusOr<std::unique_ptr<WorkUnit>> {
        MR_ASSIGN_OR_RETURN(std::string contents, ReadFileToString(env, work));
        return std::unique_ptr<WorkUnit>(std::make_unique<SingleRecord>(work, std::move(contents)));
      };
}

WorkOpener TextLineWork(Env& env, int64_t skip_header_lines) {
  return [&env, skip_header_lines](const std::string& work,
                                   const ReaderPosition& from) -> StatusOr<std::unique_ptr<WorkUnit>> {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<io::ByteSource> source, io::OpenFile(env, work, from.offset));
    auto lines = std::make_unique<Lines>(work, std::move(source), from);
    if (from.offset == 0) MR_RETURN_IF_ERROR(lines->SkipHeader(skip_header_lines));
    return std::unique_ptr<WorkUnit>(std::move(lines));
  };
}

WorkOpener RecordWork(Env& env, io::Compression compression) {
  return [&env, compression](const std::string& work,
                             const ReaderPosition& from) -> StatusOr<std::unique_ptr<WorkUnit>> {
    MR_ASSIGN_OR_RETURN(std::unique_ptr<io::RecordReader> reader,
                        io::RecordReader::Open(env, work, compression));
    const Status status = reader->SkipTo(from.offset);
    if (errors::IsOutOfRange(status)) return errors::DataLoss(work, "; ends before offset ", from.offset);
    MR_RETURN_IF_ERROR(status);
    return std::unique_ptr<WorkUnit>(std::make_unique<Records>(work, std::move(reader)));
  };
}

WorkOpener FixedLengthWork(Env& env, const FixedLength& format) {
  return [&env, format](const std::string& work,
                        const ReaderPosition& from) -> StatusOr<std::unique_ptr<WorkUnit>> {
    const ReaderPosition begin = {std::max(from.offset, format.header_bytes), from.index};
    if (format.compression != io::Compression::kNone) {
      // Reads the file twice: the position of the footer is only known at the end.
      MR_ASSIGN_OR_RETURN(const uint64_t length, UnpackedLength(env, work, format.compression));
      MR_ASSIGN_OR_RETURN(std::unique_ptr<io::ByteSource> source,
                          io::OpenFile(env, work, format.compression));
      return std::unique_ptr<WorkUnit>(std::make_unique<FixedLengthRecords>(
          work, std::make_unique<SkippedSource>(std::move(source), begin.offset), format, length, begin));
    }
    MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(work));
    MR_ASSIGN_OR_RETURN(std::unique_ptr<io::ByteSource> source, io::OpenFile(env, work, begin.offset));
    return std::unique_ptr<WorkUnit>(
        std::make_unique<FixedLengthRecords>(work, std::move(source), format, stat.length, begin));
  };
}

WorkOpener LmdbWork(Env& env) {
  class Entries final : public WorkUnit {
   public:
    explicit Entries(std::unique_ptr<io::LmdbFile> file) : file_(std::move(file)) {}
    StatusOr<bool> Next(std::string* key, std::string* value) override {
      MR_ASSIGN_OR_RETURN(const bool more, file_->Next(key, value));
      if (more) ++index_;
      return more;
    }
    ReaderPosition position() const override { return {0, index_}; }

   private:
    const std::unique_ptr<io::LmdbFile> file_;
    uint64_t index_ = 0;
  };
  return [&env](const std::string& path, const ReaderPosition& from) -> StatusOr<std::unique_ptr<WorkUnit>> {
    MR_ASSIGN_OR_RETURN(auto file, io::LmdbFile::Open(env, path));
    auto unit = std::make_unique<Entries>(std::move(file));
    std::string key, value;
    while (unit->position().index < from.index) {
      MR_ASSIGN_OR_RETURN(const bool more, unit->Next(&key, &value));
      if (!more) return errors::DataLoss("'", path, "' has no entry ", from.index);
    }
    return std::unique_ptr<WorkUnit>(std::move(unit));
  };
}

}  // namespace millrace
