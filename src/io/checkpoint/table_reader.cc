// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "io/checkpoint/coding.h"
#include "io/checkpoint/snappy.h"
#include "io/checkpoint/table.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr uint64_t kFooterSize = 48;
constexpr uint64_t kTrailerSize = 5;
constexpr uint64_t kKeyBytesLimit = uint64_t{64} << 20;
constexpr uint64_t kCompressedLimit = uint64_t{256} << 20;

Status BadBlock() { return errors::DataLoss("bad entry in block"); }

bool TakeHandle(std::string_view* in, BlockHandle* handle) {
  return TakeVarint64(in, &handle->offset) && TakeVarint64(in, &handle->size);
}

struct Entry {
  uint32_t shared = 0;
  std::string_view rest_of_key;
  std::string_view value;
  size_t size = 0;
};

// The entry at the front of `in`; false when it does not lie within.
bool ParseEntry(std::string_view in, Entry* entry) {
  const size_t before = in.size();
  uint32_t rest, value;
  if (!TakeVarint32(&in, &entry->shared) || !TakeVarint32(&in, &rest) || !TakeVarint32(&in, &value) ||
      uint64_t{rest} + value > in.size() || uint64_t{entry->shared} + rest > kMaxTableKey) {
    return false;
  }
  entry->rest_of_key = in.substr(0, rest);
  entry->value = in.substr(rest, value);
  entry->size = before - in.size() + rest + value;
  return true;
}

}  // namespace

StatusOr<BlockCursor> BlockCursor::Make(std::string_view block) {
  if (block.size() < 4) return errors::DataLoss("bad block contents");
  const uint64_t num_restarts = GetFixed32(block.data() + block.size() - 4);
  if (num_restarts > (block.size() - 4) / 4) return errors::DataLoss("bad block contents");
  BlockCursor cursor;
  const size_t entries = block.size() - 4 - 4 * num_restarts;
  cursor.entries_ = block.substr(0, entries);
  cursor.restarts_ = block.substr(entries, 4 * num_restarts);
  return cursor;
}

uint32_t BlockCursor::Restart(uint32_t i) const { return GetFixed32(restarts_.data() + 4 * size_t{i}); }

void BlockCursor::GoToRestart(uint32_t i) {
  next_ = restarts_.empty() ? 0 : Restart(i);
  at_start_ = true;
  key_.clear();
}

StatusOr<bool> BlockCursor::Next() {
  if (next_ >= entries_.size()) return false;
  Entry entry;
  if (!ParseEntry(entries_.substr(next_), &entry) || entry.shared > key_.size()) return BadBlock();
  // The shared part is equal, so the rest decides whether the keys rise.
  if (!at_start_ && entry.rest_of_key <= std::string_view(key_).substr(entry.shared)) return BadBlock();
  key_.resize(entry.shared);
  key_.append(entry.rest_of_key);
  value_ = entry.value;
  next_ += entry.size;
  at_start_ = false;
  return true;
}

StatusOr<std::string_view> BlockCursor::KeyAtRestart(uint32_t i) const {
  const uint32_t at = Restart(i);
  Entry entry;
  if (at >= entries_.size() || !ParseEntry(entries_.substr(at), &entry) || entry.shared != 0) {
    return BadBlock();
  }
  return entry.rest_of_key;
}

StatusOr<bool> BlockCursor::Seek(std::string_view target) {
  // The last restart point whose key is less than the target, or the first.
  uint32_t low = 0;
  auto high = static_cast<uint32_t>(restarts_.size() / 4);
  while (low + 1 < high) {
    const uint32_t middle = low + (high - low) / 2;
    MR_ASSIGN_OR_RETURN(const std::string_view key, KeyAtRestart(middle));
    (key < target ? low : high) = middle;
  }
  GoToRestart(low);
  while (true) {
    MR_ASSIGN_OR_RETURN(const bool there, Next());
    if (!there || key_ >= target) return there;
  }
}

StatusOr<std::unique_ptr<TableReader>> TableReader::Open(Env& env, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  if (stat.is_directory) return errors::FailedPrecondition(path, "; is a directory");
  if (stat.length < kFooterSize) return errors::DataLoss("file is too short to be an sstable");
  MR_ASSIGN_OR_RETURN(auto file, env.NewRandomAccessFile(path));
  std::unique_ptr<TableReader> reader(new TableReader(std::move(file), stat.length));
  std::string footer;
  MR_RETURN_IF_ERROR(reader->file_->Read(stat.length - kFooterSize, kFooterSize, &footer));
  if (GetFixed64(footer.data() + kFooterSize - 8) != kMagic) {
    return errors::DataLoss("not an sstable (bad magic number)");
  }
  std::string_view handles(footer.data(), kFooterSize - 8);
  BlockHandle meta, index;
  if (!TakeHandle(&handles, &meta) || !TakeHandle(&handles, &index)) {
    return errors::DataLoss("bad block handle");
  }
  MR_ASSIGN_OR_RETURN(reader->index_, reader->ReadBlock(index));
  MR_ASSIGN_OR_RETURN(reader->index_cursor_, BlockCursor::Make(reader->index_));
  return reader;
}

StatusOr<std::string> TableReader::ReadBlock(const BlockHandle& handle) const {
  if (handle.size > size_ || size_ - handle.size < kTrailerSize ||
      handle.offset > size_ - handle.size - kTrailerSize) {
    return errors::DataLoss("truncated block read");
  }
  std::string block;
  MR_RETURN_IF_ERROR(file_->Read(handle.offset, handle.size + kTrailerSize, &block));
  const std::string_view covered(block.data(), handle.size + 1);
  if (MaskCrc(Crc32c(covered)) != GetFixed32(block.data() + handle.size + 1)) {
    return errors::DataLoss("block checksum mismatch");
  }
  const char kind = block[handle.size];
  block.resize(handle.size);
  if (kind == 0) return block;
  if (kind == 1) return UnpackSnappy(block, 10 * block.size() + kCompressedLimit);
  return errors::DataLoss("bad block type");
}

Status TableReader::LoadBlock(bool must_follow) {
  std::string_view text = index_cursor_.value();
  BlockHandle handle;
  if (!TakeHandle(&text, &handle)) return errors::DataLoss("bad block handle");
  if (must_follow && handle_.size > 0 && handle.offset < handle_.offset + handle_.size + kTrailerSize) {
    return errors::DataLoss("blocks of the table overlap");
  }
  if (handle.size == 0 || handle.offset != handle_.offset || handle.size != handle_.size) {
    handle_ = {};
    MR_ASSIGN_OR_RETURN(block_, ReadBlock(handle));
    handle_ = handle;
  }
  MR_ASSIGN_OR_RETURN(cursor_, BlockCursor::Make(block_));
  return Status::Ok();
}

StatusOr<std::optional<std::string_view>> TableReader::Get(std::string_view key) {
  walking_ = false;
  // Keys of the index are not less than any key of their block.
  MR_ASSIGN_OR_RETURN(const bool in_index, index_cursor_.Seek(key));
  if (!in_index) return std::optional<std::string_view>();
  MR_RETURN_IF_ERROR(LoadBlock(/*must_follow=*/false));
  MR_ASSIGN_OR_RETURN(const bool there, cursor_.Seek(key));
  if (!there || cursor_.key() != key) return std::optional<std::string_view>();
  return std::optional<std::string_view>(cursor_.value());
}

Status TableReader::Start() {
  MR_ASSIGN_OR_RETURN(index_cursor_, BlockCursor::Make(index_));
  handle_ = {};
  last_key_.clear();
  walking_ = true;
  in_block_ = false;
  key_bytes_ = 0;
  return Status::Ok();
}

StatusOr<bool> TableReader::Next() {
  if (!walking_) return errors::FailedPrecondition("the iterator of the table is not at an entry");
  if (in_block_) {
    MR_ASSIGN_OR_RETURN(const bool there, cursor_.Next());
    if (there) return CountKey();
    last_key_ = cursor_.key();
    in_block_ = false;
  }
  const bool first = handle_.size == 0;
  MR_ASSIGN_OR_RETURN(const bool more, index_cursor_.Next());
  if (!more) return false;
  MR_RETURN_IF_ERROR(LoadBlock(/*must_follow=*/true));
  MR_ASSIGN_OR_RETURN(const bool there, cursor_.Next());
  // Writers make no empty blocks, and many of them would make a walk long.
  if (!there || (!first && cursor_.key() <= last_key_)) return BadBlock();
  in_block_ = true;
  return CountKey();
}

StatusOr<bool> TableReader::CountKey() {
  key_bytes_ += cursor_.key().size();
  if (key_bytes_ <= 10 * size_ + kKeyBytesLimit) return true;
  return errors::ResourceExhausted("the keys of a table of ", size_, " bytes take more than ", key_bytes_);
}

}  // namespace millrace::io
