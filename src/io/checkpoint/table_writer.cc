// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "io/checkpoint/coding.h"
#include "io/checkpoint/table.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kFooterSize = 48;
constexpr size_t kBlockSize = 256 << 10;  // TensorFlow's
constexpr int kRestartInterval = 16;

void PutHandle(const BlockHandle& handle, std::string* out) {
  PutVarint(handle.offset, out);
  PutVarint(handle.size, out);
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin());
}

// A short key that is not less than `a` and less than `b`. REQUIRES: a < b.
std::string Separator(std::string_view a, std::string_view b) {
  const size_t same = CommonPrefix(a, b);
  if (same == a.size()) return std::string(a);
  const auto x = static_cast<unsigned char>(a[same]), y = static_cast<unsigned char>(b[same]);
  if (x == 0xff || x + 1 >= y) return std::string(a);
  return std::string(a.substr(0, same)) + static_cast<char>(x + 1);
}

// A short key that is not less than `a`.
std::string Successor(std::string_view a) {
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<unsigned char>(a[i]);
    if (x != 0xff) return std::string(a.substr(0, i)) + static_cast<char>(x + 1);
  }
  return std::string(a);
}

}  // namespace

void TableWriter::Block::Add(std::string_view key, std::string_view value, int restart_interval) {
  size_t shared = 0;
  if (num_restarts > 0 && since_restart < restart_interval) {
    shared = CommonPrefix(last_key, key);
  } else {
    PutFixed32(static_cast<uint32_t>(bytes.size()), &restarts);
    ++num_restarts;
    since_restart = 0;
  }
  PutVarint(shared, &bytes);
  PutVarint(key.size() - shared, &bytes);
  PutVarint(value.size(), &bytes);
  bytes.append(key.substr(shared));
  bytes.append(value);
  last_key = key;
  ++since_restart;
}

std::string TableWriter::Block::Finish() {
  if (num_restarts == 0) {  // the format requires one
    PutFixed32(0, &restarts);
    ++num_restarts;
  }
  bytes.append(restarts);
  PutFixed32(num_restarts, &bytes);
  std::string done = std::move(bytes);
  *this = {};
  return done;
}

Status TableWriter::WriteBlock(Block& block, BlockHandle* handle) {
  std::string bytes = block.Finish();
  *handle = {.offset = offset_, .size = bytes.size()};
  bytes.push_back(0);  // not compressed
  PutFixed32(MaskCrc(Crc32c(bytes)), &bytes);
  offset_ += bytes.size();
  return file_.Append(bytes);
}

void TableWriter::IndexPending(std::string_view separator) {
  std::string handle;
  PutHandle(*pending_, &handle);
  index_.Add(separator, handle, 1);
  pending_.reset();
}

Status TableWriter::FlushData() {
  BlockHandle handle;
  MR_RETURN_IF_ERROR(WriteBlock(data_, &handle));
  pending_ = handle;
  return Status::Ok();
}

Status TableWriter::Add(std::string_view key, std::string_view value) {
  if (num_entries_ > 0 && key <= last_key_) {
    return errors::FailedPrecondition("keys of a table must be in ascending order");
  }
  if (key.size() > kMaxTableKey) {
    return errors::InvalidArgument("a key of ", key.size(), " bytes is too long for a table");
  }
  // Offsets within a block, and the lengths in it, have 32 bits.
  if (value.size() > UINT32_MAX - kBlockSize - key.size() - 64) {
    return errors::InvalidArgument("an entry of ", value.size(), " bytes is too large for a table");
  }
  if (pending_.has_value()) IndexPending(Separator(last_key_, key));
  data_.Add(key, value, kRestartInterval);
  last_key_ = key;
  ++num_entries_;
  return data_.bytes.size() >= kBlockSize ? FlushData() : Status::Ok();
}

Status TableWriter::Finish() {
  if (!data_.bytes.empty()) MR_RETURN_IF_ERROR(FlushData());
  if (pending_.has_value()) IndexPending(Successor(last_key_));
  Block meta;
  BlockHandle meta_handle, index_handle;
  MR_RETURN_IF_ERROR(WriteBlock(meta, &meta_handle));
  MR_RETURN_IF_ERROR(WriteBlock(index_, &index_handle));
  std::string footer;
  PutHandle(meta_handle, &footer);
  PutHandle(index_handle, &footer);
  footer.resize(kFooterSize - 8);
  PutFixed64(kMagic, &footer);
  return file_.Append(footer);
}

}  // namespace millrace::io
