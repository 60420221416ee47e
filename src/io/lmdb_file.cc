// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/lmdb_file.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace millrace::io {
namespace {

// The header of a page: its number, two bytes that LEAF2 pages use, its kind, and the ends of its list of
// nodes and of its free space, or the number of pages of a long value.
constexpr size_t kHeader = 16;
constexpr size_t kAtPad = 8, kAtKind = 10, kAtLower = 12, kAtPages = 12;
constexpr uint16_t kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08, kLeaf2 = 0x20,
                   kSubPage = 0x40;
// A meta page: a magic number, the version, the records of two tables (48 bytes each) and the transaction.
constexpr size_t kAtMagic = 16, kAtVersion = 20, kAtTables = 40, kTable = 48, kAtTransaction = 144;
constexpr size_t kMetaBytes = 152;
constexpr uint32_t kMagic = 0xBEEFC0DE;
constexpr uint32_t kVersion = 1;
// The record of a table. The first table's starts with the size of pages.
constexpr size_t kAtRoot = 40;
constexpr uint64_t kNoPage = ~uint64_t{0};
// A node: its length or its child, its flags, the length of its key; then its key and data.
constexpr size_t kNodeHeader = 8;
constexpr uint16_t kBigData = 0x01, kSubTable = 0x02, kDuplicates = 0x04;
// LMDB's own limit on the depth of a tree.
constexpr size_t kMaxDepth = 32;

template <typename T>
T Load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

Status LmdbFile::Broken(std::string_view what) const {
  return errors::DataLoss("'", path_, "' is not a valid LMDB database: ", what);
}

StatusOr<std::unique_ptr<LmdbFile>> LmdbFile::Open(Env& env, const std::string& path) {
  std::string file_path = path;
  MR_ASSIGN_OR_RETURN(FileStat stat, env.Stat(path));
  if (stat.is_directory) {
    file_path += "/data.mdb";
    MR_ASSIGN_OR_RETURN(stat, env.Stat(file_path));
  }
  MR_ASSIGN_OR_RETURN(auto file, env.NewRandomAccessFile(file_path));
  std::unique_ptr<LmdbFile> made(new LmdbFile(file_path, std::move(file), stat.length));
  MR_RETURN_IF_ERROR(made->ReadMeta());
  return made;
}

Status LmdbFile::ReadBytes(uint64_t offset, size_t n, std::string* out) const {
  if (offset > length_ || n > length_ - offset) return Broken("it ends too early");
  out->resize(n);
  MR_ASSIGN_OR_RETURN(const size_t got, file_->ReadInto(offset, n, out->data()));
  return got == n ? Status() : Broken("it ends too early");
}

// The meta page of the later transaction is valid.
Status LmdbFile::ReadMeta() {
  std::string best;
  for (uint64_t offset = 0; offset == 0 || offset == page_size_; offset += page_size_) {
    std::string meta;
    MR_RETURN_IF_ERROR(ReadBytes(offset, kMetaBytes, &meta));
    if (Load<uint32_t>(meta, kAtMagic) != kMagic || (Load<uint16_t>(meta, kAtKind) & kMeta) == 0)
      return Broken("a meta page has no mark");
    if (Load<uint32_t>(meta, kAtVersion) != kVersion)
      return Broken(StrCat("its version is ", Load<uint32_t>(meta, kAtVersion), ", not 1"));
    const uint32_t size = Load<uint32_t>(meta, kAtTables);
    if (size < 256 || size > 32768 || (size & (size - 1)) != 0 || (offset > 0 && size != page_size_))
      return Broken(StrCat("pages of ", size, " bytes"));
    page_size_ = size;
    if (best.empty() || Load<uint64_t>(meta, kAtTransaction) > Load<uint64_t>(best, kAtTransaction))
      best = std::move(meta);
  }
  pages_left_ = length_ / page_size_;
  const uint64_t root = Load<uint64_t>(best, kAtTables + kTable + kAtRoot);
  return root == kNoPage ? Status() : Push(&levels_, root);
}

StatusOr<std::string> LmdbFile::ReadPage(uint64_t number, uint16_t kinds) {
  if (pages_left_ == 0) return Broken("its pages form no tree");
  --pages_left_;
  if (number >= length_ / page_size_) return Broken(StrCat("it has no page ", number));
  std::string page;
  MR_RETURN_IF_ERROR(ReadBytes(number * page_size_, page_size_, &page));
  if (Load<uint64_t>(page, 0) != number || (Load<uint16_t>(page, kAtKind) & kinds) == 0)
    return Broken(StrCat("page ", number, " is of another kind"));
  return page;
}

Status LmdbFile::Push(std::vector<Level>* levels, uint64_t page) {
  if (levels->size() >= kMaxDepth) return Broken("its tree is too deep");
  MR_ASSIGN_OR_RETURN(std::string bytes, ReadPage(page, kBranch | kLeaf));
  levels->push_back({std::move(bytes), 0});
  return Status();
}

// REQUIRES: the page has a node `next`.
StatusOr<LmdbFile::Node> LmdbFile::NodeAt(const Level& level) const {
  const std::string_view page = level.page;
  const auto kind = Load<uint16_t>(page, kAtKind);
  const auto i = static_cast<size_t>(level.next);
  Node node;
  if ((kind & kLeaf2) != 0) {
    const size_t size = Load<uint16_t>(page, kAtPad), at = kHeader + i * size;
    if (size == 0 || at + size > page.size()) return Broken("a key is outside of its page");
    node.key = page.substr(at, size);
    return node;
  }
  const size_t at = Load<uint16_t>(page, kHeader + 2 * i);
  if (at < kHeader || at + kNodeHeader > page.size()) return Broken("a node is outside of its page");
  const uint32_t low = Load<uint16_t>(page, at) | static_cast<uint32_t>(Load<uint16_t>(page, at + 2)) << 16;
  const auto flags = Load<uint16_t>(page, at + 4);
  const size_t key = Load<uint16_t>(page, at + 6), data = at + kNodeHeader + key;
  if (data > page.size()) return Broken("a key is outside of its page");
  node.key = page.substr(at + kNodeHeader, key);
  if ((kind & kBranch) != 0) {
    node.child = low | static_cast<uint64_t>(flags) << 32;
    return node;
  }
  node.flags = flags;
  node.size = low;
  const size_t here = (flags & kBigData) != 0 ? sizeof(uint64_t) : low;
  if (here > page.size() - data) return Broken("a value is outside of its page");
  node.data = page.substr(data, here);
  return node;
}

StatusOr<bool> LmdbFile::NextNode(std::vector<Level>* levels, Node* node) {
  while (!levels->empty()) {
    Level& level = levels->back();
    const size_t lower = Load<uint16_t>(level.page, kAtLower);
    const bool fixed = (Load<uint16_t>(level.page, kAtKind) & kLeaf2) != 0;
    if (lower < kHeader || (!fixed && lower > level.page.size()))
      return Broken("a list of nodes is too long");
    if (static_cast<size_t>(level.next) >= (lower - kHeader) / 2) {
      levels->pop_back();
      continue;
    }
    MR_ASSIGN_OR_RETURN(*node, NodeAt(level));
    ++level.next;
    if ((Load<uint16_t>(level.page, kAtKind) & kBranch) == 0) return true;
    MR_RETURN_IF_ERROR(Push(levels, node->child));
  }
  return false;
}

// The values of a key that has several: keys of a table of their own, or of a page within the node.
Status LmdbFile::StartValues(const Node& node) {
  values_.clear();
  if ((node.flags & kSubTable) != 0) {
    if (node.data.size() < kTable) return Broken("the record of a table is too short");
    const auto root = Load<uint64_t>(node.data, kAtRoot);
    return root == kNoPage ? Status() : Push(&values_, root);
  }
  if (node.data.size() < kHeader) return Broken("a page within a page is too short");
  if ((Load<uint16_t>(node.data, kAtKind) & kSubPage) == 0 ||
      (Load<uint16_t>(node.data, kAtKind) & kLeaf) == 0)
    return Broken("a page within a page has no mark");
  values_.push_back({std::string(node.data), 0});
  return Status();
}

Status LmdbFile::ReadValue(const Node& node, std::string* value) {
  if ((node.flags & kBigData) == 0) {
    value->assign(node.data);
    return Status();
  }
  const auto first = Load<uint64_t>(node.data, 0);
  MR_ASSIGN_OR_RETURN(const std::string page, ReadPage(first, kOverflow));
  const uint64_t pages = Load<uint32_t>(page, kAtPages);
  if (pages == 0 || node.size > pages * page_size_ - kHeader) return Broken("a long value has too few pages");
  return ReadBytes(first * page_size_ + kHeader, node.size, value);
}

StatusOr<bool> LmdbFile::Next(std::string* key, std::string* value) {
  while (true) {
    Node node;
    if (!values_.empty()) {
      MR_ASSIGN_OR_RETURN(const bool more, NextNode(&values_, &node));
      if (more) {
        *key = key_;
        value->assign(node.key);
        return true;
      }
    }
    MR_ASSIGN_OR_RETURN(const bool more, NextNode(&levels_, &node));
    if (!more) return false;
    if ((node.flags & kDuplicates) == 0) {
      key->assign(node.key);
      MR_RETURN_IF_ERROR(ReadValue(node, value));
      return true;
    }
    key_.assign(node.key);
    MR_RETURN_IF_ERROR(StartValues(node));
  }
}

}  // namespace millrace::io
