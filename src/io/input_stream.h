// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "millrace/status.h"

namespace millrace::io {

enum class Compression { kNone, kZlib, kGzip };

// "", "ZLIB" or "GZIP"; InvalidArgument for others.
StatusOr<Compression> ParseCompression(std::string_view name);

// Bytes from start to end, a piece at a time. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Replaces `piece` by the next bytes; empty at the end, and from then on. What it had costs nothing when it
  // comes back as it was left.
  virtual Status Next(std::string* piece) = 0;
  // No more bytes than this are left, as far as is known.
  virtual uint64_t MostLeft() const = 0;
};

// A file from `offset` on.
StatusOr<std::unique_ptr<ByteSource>> OpenFile(Env& env, const std::string& path, uint64_t offset = 0);
// What `compressed`, in the format of zlib or gzip, unpacks to. DataLoss, with `name`, when it is malformed
// or ends early. Streams of gzip may follow one another, as the program gzip has it.
std::unique_ptr<ByteSource> Inflate(std::unique_ptr<ByteSource> compressed, Compression compression,
                                    std::string name);
// The two together.
StatusOr<std::unique_ptr<ByteSource>> OpenFile(Env& env, const std::string& path, Compression compression);

// Reads a source by numbers of bytes and by lines. Memory follows the bytes that are there, not those that
// are asked for. One thread at a time.
class InputStream {
 public:
  explicit InputStream(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // Bytes read or skipped so far.
  uint64_t position() const { return position_; }
  // Replaces `out` by n bytes; OutOfRange, with the bytes there are, when the source ends before.
  Status Read(uint64_t n, std::string* out);
  // Reads n bytes that stay where they are until the next call. False: they are not there in one piece, and
  // nothing has happened.
  bool View(uint64_t n, std::string_view* out) {
    if (piece_.size() - used_ < n) return false;
    *out = rest().substr(0, static_cast<size_t>(n));
    Take(out->size());
    return true;
  }
  // OutOfRange when the source ends before.
  Status Skip(uint64_t n);
  // Replaces `out` by the bytes up to the next '\n', which is taken too, without any '\r'. The last line
  // needs no '\n'. OutOfRange when nothing is left.
  Status ReadLine(std::string* out);

 private:
  // Makes at least one byte be there, or `at_end`.
  Status Fill(bool* at_end);
  std::string_view rest() const { return std::string_view(piece_).substr(used_); }
  void Take(size_t n) { used_ += n, position_ += n; }

  const std::unique_ptr<ByteSource> source_;
  std::string piece_;
  size_t used_ = 0;  // of piece_
  uint64_t position_ = 0;
};

}  // namespace millrace::io
