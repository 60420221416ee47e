// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "millrace/status.h"

// Sorted tables in the format of LevelDB: blocks of entries in bytewise order of their keys, each
// followed by its kind (1 byte; plain or Snappy) and a masked CRC-32C; an index block; a footer of 48
// bytes with the position of the index. docs/decisions explains why they are not read with LevelDB's
// library.
namespace millrace::io {

// Without this limit a small file with very long shared key prefixes would take very long to read.
inline constexpr size_t kMaxTableKey = 64 << 10;

// Part of a file: the place of a block, without its 5 bytes of kind and checksum.
struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Walks the entries of one block, whose bytes must outlive it. Every step is checked.
class BlockCursor {
 public:
  BlockCursor() = default;
  // Before the first entry.
  static StatusOr<BlockCursor> Make(std::string_view block);

  // False at the end. DataLoss for a malformed entry or one out of order.
  StatusOr<bool> Next();
  // Seeks to the first entry whose key is not less than `target`; false if there is none.
  StatusOr<bool> Seek(std::string_view target);
  std::string_view key() const { return key_; }
  std::string_view value() const { return value_; }

 private:
  // The key at restart point i, which is stored in full.
  StatusOr<std::string_view> KeyAtRestart(uint32_t i) const;
  void GoToRestart(uint32_t i);
  uint32_t Restart(uint32_t i) const;

  std::string_view entries_;
  std::string_view restarts_;  // 4 bytes each
  size_t next_ = 0;            // where the next entry begins
  bool at_start_ = true;
  std::string key_;
  std::string_view value_;
};

// Reads a table. Memory is bounded by the file: one block at a time, at most 10 times its bytes and 256 MB if
// it is compressed. Not thread-safe.
class TableReader {
 public:
  // DataLoss if the file is no table. The message lacks the path if the contents are invalid.
  static StatusOr<std::unique_ptr<TableReader>> Open(Env& env, const std::string& path);

  // The value of `key`, valid until the next call; empty if there is none.
  StatusOr<std::optional<std::string_view>> Get(std::string_view key);

  // From the first entry to the last: Start, then Next until it returns false. DataLoss when keys do not rise
  // or blocks do not follow one another, so that the work is bounded by the file; ResourceExhausted when the
  // keys together are longer than 10 times the file and 64 MB, so that they may be kept. Get ends a walk.
  Status Start();
  StatusOr<bool> Next();
  std::string_view key() const { return cursor_.key(); }
  std::string_view value() const { return cursor_.value(); }

  uint64_t file_size() const { return size_; }

 private:
  TableReader(std::unique_ptr<RandomAccessFile> file, uint64_t size) : file_(std::move(file)), size_(size) {}
  StatusOr<std::string> ReadBlock(const BlockHandle& handle) const;
  // Loads the block that the index cursor points to.
  Status LoadBlock(bool must_follow);
  StatusOr<bool> CountKey();  // true, or the error

  const std::unique_ptr<RandomAccessFile> file_;
  const uint64_t size_;
  std::string index_;
  BlockCursor index_cursor_;
  std::string block_;
  BlockHandle handle_;  // of block_; its size is 0 before there is one
  BlockCursor cursor_;
  bool walking_ = false;
  bool in_block_ = false;  // the walk has entries left in block_
  std::string last_key_;   // of the block before
  uint64_t key_bytes_ = 0;
};

// Writes a table, uncompressed. One thread at a time.
class TableWriter {
 public:
  explicit TableWriter(WritableFile& file) : file_(file) {}
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;

  // Keys must be increasing (else FailedPrecondition). InvalidArgument for one longer than kMaxTableKey.
  Status Add(std::string_view key, std::string_view value);
  // Writes the remaining data. The file stays open, and not synced.
  Status Finish();

 private:
  // A block under construction. Every 16th key is stored in full, the others without the prefix shared with
  // the previous one.
  struct Block {
    std::string bytes;
    std::string restarts;
    std::string last_key;
    uint32_t num_restarts = 0;
    int since_restart = 0;
    void Add(std::string_view key, std::string_view value, int restart_interval);
    std::string Finish();
  };
  Status WriteBlock(Block& block, BlockHandle* handle);
  Status FlushData();
  void IndexPending(std::string_view separator);

  WritableFile& file_;
  uint64_t offset_ = 0;
  uint64_t num_entries_ = 0;
  Block data_;
  Block index_;
  std::string last_key_;
  // A block that is written but not in the index yet: its key there depends on the next key.
  std::optional<BlockHandle> pending_;
};

}  // namespace millrace::io
