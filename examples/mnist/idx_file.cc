// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace millrace::mnist {
namespace {

constexpr size_t kChunk = 1 << 20;
constexpr uint8_t kUnsignedByte = 0x08;

// Reads the bytes of an IDX file sequentially, decompressing them if they are gzip.
class ByteSource {
 public:
  explicit ByteSource(std::span<const uint8_t> file) : file_(file) {}
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource() {
    if (gzip_) inflateEnd(&stream_);
  }

  Status Open() {
    if (file_.size() < 2 || file_[0] != 0x1f || file_[1] != 0x8b) return Status::Ok();
    constexpr int kGzipOnly = 16;
    const int code = inflateInit2(&stream_, 15 + kGzipOnly);
    if (code != Z_OK) return errors::ResourceExhausted("zlib cannot start (code ", code, ")");
    gzip_ = true;
    // Files are at most 256 MiB (ReadSmallFile); longer spans are cut and then found to be truncated.
    stream_.next_in = const_cast<Bytef*>(file_.data());
    stream_.avail_in = static_cast<uInt>(std::min<size_t>(file_.size(), UINT32_MAX));
    return Status::Ok();
  }

  // Fills `out` and returns how many bytes came; fewer than asked only at the end of the data.
  StatusOr<size_t> Read(std::span<uint8_t> out) {
    if (!gzip_) {
      const size_t n = std::min(out.size(), file_.size() - at_);
      std::copy_n(file_.begin() + static_cast<ptrdiff_t>(at_), n, out.begin());
      at_ += n;
      return n;
    }
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out > 0 && !ended_) {
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {
        ended_ = true;
        if (stream_.avail_in > 0) return errors::DataLoss("bytes after the end of the gzip data");
      } else if (code == Z_BUF_ERROR) {
        return errors::DataLoss("the gzip data ends in the middle");
      } else if (code != Z_OK) {
        return errors::DataLoss("damaged gzip data: ",
                                stream_.msg != nullptr ? stream_.msg : "no reason given");
      }
    }
    return out.size() - stream_.avail_out;
  }

 private:
  std::span<const uint8_t> file_;
  size_t at_ = 0;
  z_stream stream_{};
  bool gzip_ = false;
  bool ended_ = false;
};

int64_t BigEndian(const uint8_t* p) {
  return int64_t{p[0]} << 24 | int64_t{p[1]} << 16 | int64_t{p[2]} << 8 | int64_t{p[3]};
}

Status ReadHeader(ByteSource& source, int rank, int64_t max_elements, IdxArray& array, int64_t& elements) {
  std::vector<uint8_t> header(4 + 4 * static_cast<size_t>(rank));
  MR_ASSIGN_OR_RETURN(const size_t got, source.Read(header));
  if (got < 4) return errors::DataLoss("only ", got, " bytes, no IDX header");
  if (header[0] != 0 || header[1] != 0)
    return errors::InvalidArgument("not an IDX file: it begins with other bytes");
  if (header[2] != kUnsignedByte) {
    return errors::InvalidArgument("IDX element type ", int{header[2]}, ", expected 8 (unsigned byte)");
  }
  if (header[3] != rank) return errors::InvalidArgument("IDX rank ", int{header[3]}, ", expected ", rank);
  if (got < header.size()) return errors::DataLoss("the IDX header ends in the middle");
  elements = 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t dim = BigEndian(&header[4 + 4 * static_cast<size_t>(d)]);
    // Both factors are below 2^32 times max_elements, so no overflow before the test.
    if (dim > max_elements || elements * dim > max_elements) {
      return errors::InvalidArgument("IDX dimensions claim more than ", max_elements, " elements");
    }
    elements *= dim;
    array.dims.push_back(dim);
  }
  return Status::Ok();
}

Status Parse(std::span<const uint8_t> file, int rank, int64_t max_elements, IdxArray& array) {
  ByteSource source(file);
  MR_RETURN_IF_ERROR(source.Open());
  int64_t elements = 0;
  MR_RETURN_IF_ERROR(ReadHeader(source, rank, max_elements, array, elements));
  const size_t wanted = static_cast<size_t>(elements);
  while (array.bytes.size() < wanted) {
    const size_t have = array.bytes.size();
    array.bytes.resize(std::min(wanted, have + kChunk));
    MR_ASSIGN_OR_RETURN(const size_t got, source.Read(std::span(array.bytes).subspan(have)));
    if (have + got < array.bytes.size()) {
      return errors::DataLoss("truncated: ", have + got, " of ", wanted, " elements");
    }
  }
  uint8_t extra = 0;
  MR_ASSIGN_OR_RETURN(const size_t more, source.Read(std::span(&extra, 1)));
  if (more != 0) return errors::DataLoss("bytes after the ", wanted, " elements that the header names");
  return Status::Ok();
}

}  // namespace

StatusOr<IdxArray> ParseIdx(std::span<const uint8_t> file, int rank, int64_t max_elements,
                            const std::string& what) {
  IdxArray array;
  const Status status = Parse(file, rank, max_elements, array);
  if (!status.ok()) return errors::Make(status.code(), what, ": ", status.message());
  return array;
}

StatusOr<std::vector<uint8_t>> ReadSmallFile(const std::string& path) {
  constexpr size_t kMaxFile = size_t{256} << 20;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return errors::NotFound(path, ": cannot be opened");
  std::vector<uint8_t> bytes;
  while (true) {
    const size_t have = bytes.size();
    if (have > kMaxFile) return errors::InvalidArgument(path, ": more than 256 MiB, not an MNIST file");
    bytes.resize(have + kChunk);
    const size_t got = std::fread(bytes.data() + have, 1, kChunk, file.get());
    bytes.resize(have + got);
    if (got < kChunk) break;
  }
  if (std::ferror(file.get()) != 0) return errors::DataLoss(path, ": read error");
  return bytes;
}

}  // namespace millrace::mnist
