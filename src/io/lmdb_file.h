// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"

namespace millrace::io {

// Reads the entries of the main table of an LMDB database in the order of their keys, in the format of its
// versions 0.9 on 64-bit machines with little-endian numbers. Takes no lock: nobody may write to the file
// meanwhile. One thread at a time. DataLoss for a file that no LMDB has written; each page is read at most
// once, so that no file keeps a reader for ever.
class LmdbFile {
 public:
  // A database file, or a folder with a "data.mdb".
  static StatusOr<std::unique_ptr<LmdbFile>> Open(Env& env, const std::string& path);
  // False when there are no more. A key with several values comes once with each.
  StatusOr<bool> Next(std::string* key, std::string* value);

 private:
  // A page, or a part of one that is like a page, and the next of its nodes.
  struct Level {
    std::string page;
    int next = 0;
  };
  // A node of a page: views into it.
  struct Node {
    std::string_view key, data;  // data: of a leaf
    uint64_t child = 0;          // of a branch
    uint16_t flags = 0;          // of a leaf
    uint32_t size = 0;           // of a leaf: what it says of its data, which may be elsewhere
  };

  LmdbFile(std::string path, std::unique_ptr<RandomAccessFile> file, uint64_t length)
      : path_(std::move(path)), file_(std::move(file)), length_(length) {}
  Status ReadMeta();
  Status ReadBytes(uint64_t offset, size_t n, std::string* out) const;
  StatusOr<std::string> ReadPage(uint64_t number, uint16_t kinds);
  Status Push(std::vector<Level>* levels, uint64_t page);
  // The next leaf node below `levels`; false at their end.
  StatusOr<bool> NextNode(std::vector<Level>* levels, Node* node);
  StatusOr<Node> NodeAt(const Level& level) const;
  Status StartValues(const Node& node);
  Status ReadValue(const Node& node, std::string* value);
  Status Broken(std::string_view what) const;

  const std::string path_;
  const std::unique_ptr<RandomAccessFile> file_;
  const uint64_t length_;
  uint64_t page_size_ = 0;
  uint64_t pages_left_ = 0;  // to be read; more are in no tree
  std::vector<Level> levels_;
  std::vector<Level> values_;  // of the key at hand, when it has several
  std::string key_;
};

}  // namespace millrace::io
