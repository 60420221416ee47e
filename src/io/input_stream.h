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

// A sequence of bytes, read in pieces. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Replaces `piece` by the next bytes; empty at the end, and from then on. Passing the last piece back
  // unchanged reuses its memory.
  virtual Status Next(std::string* piece) = 0;
  // An upper bound for the remaining bytes, as far as known.
  virtual uint64_t MostLeft() const = 0;
};

// A file from `offset` on.
StatusOr<std::unique_ptr<ByteSource>> OpenFile(Env& env, const std::string& path, uint64_t offset = 0);
// The decompressed bytes of `compressed`, in the format of zlib or gzip. DataLoss, with `name`, if it is
// malformed or truncated. Streams of gzip may be concatenated, as for the program gzip.
std::unique_ptr<ByteSource> Inflate(std::unique_ptr<ByteSource> compressed, Compression compression,
                                    std::string name);
// Both together.
StatusOr<std::unique_ptr<ByteSource>> OpenFile(Env& env, const std::string& path, Compression compression);

// Reads a source by numbers of bytes and by lines. Memory is bounded by the bytes that exist, not by those
// requested. One thread at a time.
class InputStream {
 public:
  explicit InputStream(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}

  // Bytes read or skipped so far.
  uint64_t position() const { return position_; }
  // Replaces `out` by n bytes; OutOfRange, with fewer bytes, when the source ends first.
  Status Read(uint64_t n, std::string* out);
  // Reads n bytes, which stay valid until the next call. False: they are not contiguous, and nothing has
  // happened.
  bool View(uint64_t n, std::string_view* out) {
    if (piece_.size() - used_ < n) return false;
    *out = rest().substr(0, static_cast<size_t>(n));
    Take(out->size());
    return true;
  }
  // OutOfRange when the source ends first.
  Status Skip(uint64_t n);
  // Replaces `out` by the bytes up to the next '\n', which is consumed, without any '\r'. The last line needs
  // no '\n'. OutOfRange at the end.
  Status ReadLine(std::string* out);

 private:
  // Reads until there is at least one byte, or `at_end`.
  Status Fill(bool* at_end);
  std::string_view rest() const { return std::string_view(piece_).substr(used_); }
  void Take(size_t n) { used_ += n, position_ += n; }

  const std::unique_ptr<ByteSource> source_;
  std::string piece_;
  size_t used_ = 0;  // of piece_
  uint64_t position_ = 0;
};

}  // namespace millrace::io
