// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "base/strings.h"
#include "io/checkpoint/bundle_format.h"
#include "io/checkpoint/table.h"
#include "io/match_files.h"

namespace millrace::io {
namespace {

struct Merged {
  std::optional<bool> big_endian;
  BundleEntries entries;
  std::map<std::string, int> shards;  // by the path of a data file
  std::vector<std::string> data_files;
};

// Merges the entry of one checkpoint into the merged entries.
Status AddEntry(const std::string& prefix, std::string_view key, BundleEntry entry, int num_shards,
                Merged* merged) {
  const auto there = merged->entries.find(key);
  if (there != merged->entries.end()) {
    BundleEntry& known = there->second;
    if (known.slices.empty() || entry.slices.empty()) {
      return errors::InvalidArgument("Duplicate tensor keyed by ", CEscape(key),
                                     " encountered, when merging prefix: ", prefix);
    }
    if (known.dtype != entry.dtype || known.shape != entry.shape) {
      return errors::InvalidArgument(
          "Slices of tensor ", CEscape(key), " belong to a ", DataTypeName(known.dtype), known.shape,
          " and to a ", DataTypeName(entry.dtype), entry.shape, ", when merging prefix: ", prefix);
    }
    for (TensorSlice& slice : entry.slices) known.slices.push_back(std::move(slice));
    return Status::Ok();
  }
  // The list of slices has no data.
  if (entry.slices.empty()) {
    const std::string path = BundleDataPath(prefix, entry.shard, num_shards);
    const auto [shard, is_new] = merged->shards.emplace(path, static_cast<int>(merged->shards.size()));
    if (is_new) merged->data_files.push_back(path);
    entry.shard = shard->second;
  }
  merged->entries.emplace(key, std::move(entry));
  return Status::Ok();
}

Status AddBundle(Env& env, const std::string& prefix, Merged* merged) {
  const std::string path = BundleIndexPath(prefix);
  auto table = TableReader::Open(env, path);
  if (!table.ok()) return CorruptFileError(table.status(), path, "failed to open the table");
  MR_RETURN_IF_ERROR((*table)->Start());
  MR_ASSIGN_OR_RETURN(bool there, (*table)->Next());
  if (!there || !(*table)->key().empty()) {
    return CorruptFileError(Status::Ok(), path, "failed to seek to header entry");
  }
  const auto header = ParseBundleHeader((*table)->value());
  if (!header.ok()) return CorruptFileError(header.status(), path, "unable to parse header");
  if (merged->big_endian.value_or(header->big_endian) != header->big_endian) {
    return errors::InvalidArgument("Merging bundles with conflicting endianness; inputs corrupted?");
  }
  merged->big_endian = header->big_endian;
  while (true) {
    MR_ASSIGN_OR_RETURN(there, (*table)->Next());
    if (!there) return Status::Ok();
    MR_ASSIGN_OR_RETURN(BundleEntry entry, ParseBundleEntry((*table)->key(), (*table)->value()));
    MR_RETURN_IF_ERROR(AddEntry(prefix, (*table)->key(), std::move(entry), header->num_shards, merged));
  }
}

}  // namespace

Status MergeBundles(Env& env, const std::vector<std::string>& prefixes, const std::string& merged_prefix) {
  Merged merged;
  for (const std::string& prefix : prefixes) MR_RETURN_IF_ERROR(AddBundle(env, prefix, &merged));
  if (const std::string folder = FolderOf(merged_prefix); !folder.empty()) {
    MR_RETURN_IF_ERROR(MakeFolders(env, folder));
  }
  MR_RETURN_IF_ERROR(
      CommitBundle(env, merged_prefix, merged.data_files, merged.entries, merged.big_endian.value_or(false)));
  for (const std::string& prefix : prefixes) {
    if (prefix == merged_prefix) continue;
    env.DeleteFile(BundleIndexPath(prefix)).IgnoreError("its data are in the merged checkpoint");
  }
  return Status::Ok();
}

}  // namespace millrace::io
