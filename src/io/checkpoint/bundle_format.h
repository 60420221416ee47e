// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "millrace/dtype.h"
#include "millrace/shape.h"
#include "millrace/status.h"
#include "tensor/tensor_slice.h"

namespace tensorflow {
class VersionDef;
}  // namespace tensorflow

// The tensor bundle: the second format of TensorFlow's checkpoints. `prefix.index` is a table from names to
// the position of the tensor in `prefix.data-00000-of-00001` or another shard; its empty key has the header.
namespace millrace::io {

std::string BundleIndexPath(const std::string& prefix);
std::string BundleDataPath(const std::string& prefix, int64_t shard, int64_t num_shards);
// The folder of a path, "" without one.
std::string FolderOf(const std::string& path);

struct BundleHeader {
  int num_shards = 1;
  bool big_endian = false;
};
// InvalidArgument, with TensorFlow's message, for versions that are too new; DataLoss for an invalid header.
StatusOr<BundleHeader> ParseBundleHeader(std::string_view bytes);
std::string SerializeBundleHeader(const BundleHeader& header);

// Whether a checkpoint may be read by this program.
Status CheckCheckpointVersion(const tensorflow::VersionDef& versions);

// The position of a tensor. A tensor that was saved in slices has their list, and these have separate entries
// under SliceKey.
struct BundleEntry {
  DataType dtype = DataType::kInvalid;
  TensorShape shape;
  int shard = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t masked_crc = 0;
  std::vector<TensorSlice> slices;
};
// DataLoss, with the key, when malformed.
StatusOr<BundleEntry> ParseBundleEntry(std::string_view key, std::string_view bytes);
std::string SerializeBundleEntry(const BundleEntry& entry);

using BundleEntries = std::map<std::string, BundleEntry, std::less<>>;

// "Unable to read file …" in TensorFlow's words, for an invalid index.
Status CorruptFileError(const Status& status, const std::string& path, std::string_view detail);

// Commits finished data files and their entries as the checkpoint `prefix`, atomically: a reader, or a
// process killed meanwhile, finds the previous checkpoint or the new one. The files are renamed. If there is
// a checkpoint of that name already, the new one has a different number of shards, so that no old file is
// changed before the new index is in place; after that the old data, and files of killed writers in the
// folder, are deleted.
Status CommitBundle(Env& env, const std::string& prefix, const std::vector<std::string>& data_files,
                    const BundleEntries& entries, bool big_endian);

// Merges the checkpoints of `prefixes` under one name: the data files are renamed, the tables merged. The
// parts of a tensor may be in several of them; a duplicate tensor is InvalidArgument.
Status MergeBundles(Env& env, const std::vector<std::string>& prefixes, const std::string& merged_prefix);

}  // namespace millrace::io
