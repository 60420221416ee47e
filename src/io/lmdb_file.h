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

// Reads the entries of the main table of an LMDB database in the order of their keys, in the format of
// versions 0.9 on 64-bit little-endian machines. Takes no lock: the file must not be written meanwhile. One
// thread at a time. DataLoss for an invalid file; each page is read at most once, so that reading always
// ends.
class LmdbFile {
 public:
  // A database file, or a folder with a "data.mdb".
  static StatusOr<std::unique_ptr<LmdbFile>> Open(Env& env, const std::string& path);
  // False at the end. A key with several values is returned once with each.
  StatusOr<bool> Next(std::string* key, std::string* value);

 private:
  // A page, or a part of one with the same layout, and the index of its next node.
  struct Level {
    std::string page;
    int next = 0;
  };
  // A node of a page: views into it.
  struct Node {
    std::string_view key, data;  // data: of a leaf
    uint64_t child = 0;          // of a branch
    uint16_t flags = 0;          // of a leaf
    uint32_t size = 0;           // of a leaf: the size of its data, which may be elsewhere
  };

  LmdbFile(std::string path, std::unique_ptr<RandomAccessFile> file, uint64_t length)
      : path_(std::move(path)), file_(std::move(file)), length_(length) {}
  Status ReadMeta();
  Status ReadBytes(uint64_t offset, size_t n, std::string* out) const;
  StatusOr<std::string> ReadPage(uint64_t number, uint16_t kinds);
  Status Push(std::vector<Level>* levels, uint64_t page);
  // The next leaf node below `levels`; false at the end.
  StatusOr<bool> NextNode(std::vector<Level>* levels, Node* node);
  StatusOr<Node> NodeAt(const Level& level) const;
  Status StartValues(const Node& node);
  Status ReadValue(const Node& node, std::string* value);
  Status Broken(std::string_view what) const;

  const std::string path_;
  const std::unique_ptr<RandomAccessFile> file_;
  const uint64_t length_;
  uint64_t page_size_ = 0;
  uint64_t pages_left_ = 0;  // still to be read; a valid tree has no more
  std::vector<Level> levels_;
  std::vector<Level> values_;  // of the current key, when it has several
  std::string key_;
};

}  // namespace millrace::io
