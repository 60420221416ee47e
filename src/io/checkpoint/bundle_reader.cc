// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "base/strings.h"
#include "io/checkpoint/bundle.h"
#include "tensor/dtype_table.h"

namespace millrace::io {

StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(Env& env, const std::string& prefix,
                                                           CancellationManager* cancellation,
                                                           ParallelFor parallel) {
  const std::string path = BundleIndexPath(prefix);
  std::unique_ptr<BundleReader> reader(new BundleReader(env, prefix, cancellation, std::move(parallel)));
  auto table = TableReader::Open(env, path);
  if (!table.ok()) {
    if (!errors::IsDataLoss(table.status())) return table.status();
    return CorruptFileError(table.status(), path, "failed to open the table");
  }
  reader->table_ = *std::move(table);
  const auto bytes = reader->table_->Get("");
  if (!bytes.ok() || !bytes->has_value()) {
    return CorruptFileError(bytes.status(), path, "failed to seek to header entry");
  }
  auto header = ParseBundleHeader(**bytes);
  if (!header.ok()) {
    if (!errors::IsDataLoss(header.status())) return header.status();
    return CorruptFileError(header.status(), path, "unable to parse header");
  }
  reader->header_ = *header;
  return reader;
}

Status BundleReader::Start() {
  MR_RETURN_IF_ERROR(table_->Start());
  return table_->Next().status();  // the header
}

StatusOr<bool> BundleReader::Has(std::string_view key) {
  if (key.empty()) return false;
  MR_ASSIGN_OR_RETURN(const auto bytes, table_->Get(key));
  return bytes.has_value();
}

StatusOr<BundleEntry> BundleReader::Find(std::string_view key) {
  if (!key.empty()) {
    const auto bytes = table_->Get(key);
    if (!bytes.ok())
      return CorruptFileError(bytes.status(), BundleIndexPath(prefix_), "failed to read an entry");
    if (bytes->has_value()) return ParseBundleEntry(key, **bytes);
  }
  return errors::NotFound("Key ", CEscape(key), " not found in checkpoint");
}

StatusOr<BundleDataReader*> BundleReader::Shard(int i) {
  if (i >= header_.num_shards) {
    return errors::DataLoss("TensorBundle at ", prefix_, ": an entry is in shard ", i, " of ",
                            header_.num_shards);
  }
  auto& shard = shards_[i];
  if (shard == nullptr) {
    MR_ASSIGN_OR_RETURN(shard, BundleDataReader::Open(env_, BundleDataPath(prefix_, i, header_.num_shards),
                                                      StrCat("TensorBundle at ", prefix_, " shard ", i),
                                                      header_.big_endian, cancellation_, parallel_));
  }
  return shard.get();
}

StatusOr<Tensor> BundleReader::ReadEntry(const BundleEntry& entry, Allocator& allocator) {
  MR_ASSIGN_OR_RETURN(const BundleDataReader* const shard, Shard(entry.shard));
  MR_RETURN_IF_ERROR(shard->Check(entry));
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry.dtype, entry.shape, allocator));
  MR_RETURN_IF_ERROR(shard->Read(entry, &tensor));
  return tensor;
}

StatusOr<Tensor> BundleReader::Read(std::string_view name, Allocator& allocator) {
  MR_ASSIGN_OR_RETURN(const BundleEntry entry, Find(name));
  auto tensor = entry.slices.empty()
                    ? ReadEntry(entry, allocator)
                    : ReadParts(name, entry, TensorSlice::Full(entry.shape.rank()), allocator);
  if (tensor.ok()) return tensor;
  return tensor.status().WithContext(StrCat(" (reading ", CEscape(name), ")"));
}

StatusOr<Tensor> BundleReader::ReadSlice(std::string_view name, const TensorSlice& slice,
                                         Allocator& allocator) {
  MR_ASSIGN_OR_RETURN(const BundleEntry entry, Find(name));
  MR_RETURN_IF_ERROR(slice.ShapeIn(entry.shape).status());
  if (entry.slices.empty() && slice.IsAllOf(entry.shape)) return Read(name, allocator);
  auto tensor = ReadParts(name, entry, slice, allocator);
  if (tensor.ok()) return tensor;
  return tensor.status().WithContext(StrCat(" (reading ", CEscape(name), ")"));
}

struct BundleReader::Part {
  Region region;
  BundleEntry entry;
};

StatusOr<std::vector<BundleReader::Part>> BundleReader::PartsOf(std::string_view name,
                                                                const BundleEntry& full,
                                                                const Region& wanted) {
  std::vector<Part> parts;
  if (full.slices.empty()) {
    parts.push_back({.region = Region(TensorSlice::Full(full.shape.rank()), full.shape), .entry = full});
    return parts;
  }
  std::vector<Region> regions;
  for (const TensorSlice& slice : full.slices) regions.emplace_back(slice, full.shape);
  MR_ASSIGN_OR_RETURN(const bool covers, Covers(regions, wanted));
  if (!covers) {
    return errors::InvalidArgument("Does not have sufficient slices for partitioned tensor ", CEscape(name),
                                   " to restore");
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].CommonElements(wanted) == 0) continue;
    MR_ASSIGN_OR_RETURN(BundleEntry entry, Find(SliceKey(name, full.slices[i])));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, full.slices[i].ShapeIn(full.shape));
    if (entry.dtype != full.dtype || entry.shape != shape || !entry.slices.empty()) {
      return errors::DataLoss("the entry of slice ", full.slices[i].ToString(), " does not fit its tensor");
    }
    parts.push_back({.region = regions[i], .entry = std::move(entry)});
  }
  return parts;
}

Status BundleReader::ReadPart(const Part& part, const Region& wanted, Tensor* to, Allocator& allocator) {
  const auto offset = OffsetIfContiguous(part.region, wanted);
  if (offset.has_value() && !OwnsMemory(part.entry.dtype)) {
    MR_ASSIGN_OR_RETURN(const BundleDataReader* const shard, Shard(part.entry.shard));
    const size_t at = static_cast<size_t>(*offset) * DataTypeSize(part.entry.dtype);
    return shard->ReadPlain(part.entry, static_cast<char*>(to->raw_data()) + at);
  }
  MR_ASSIGN_OR_RETURN(const Tensor tensor, ReadEntry(part.entry, allocator));
  CopyCommon(part.region, tensor, wanted, to);
  return Status::Ok();
}

StatusOr<Tensor> BundleReader::ReadParts(std::string_view name, const BundleEntry& full,
                                         const TensorSlice& slice, Allocator& allocator) {
  const Region wanted(slice, full.shape);
  MR_ASSIGN_OR_RETURN(const TensorShape shape, slice.ShapeIn(full.shape));
  MR_ASSIGN_OR_RETURN(const std::vector<Part> parts, PartsOf(name, full, wanted));
  // Checks before anything is allocated that the file has the bytes, and that slices do not share bytes.
  uint64_t needed = 0, there = 0;
  std::unordered_map<int, bool> counted;
  for (const Part& part : parts) {
    MR_ASSIGN_OR_RETURN(const BundleDataReader* const shard, Shard(part.entry.shard));
    MR_RETURN_IF_ERROR(shard->Check(part.entry));
    needed += part.entry.size;
    if (!std::exchange(counted[part.entry.shard], true)) there += shard->size();
  }
  if (needed > there) return errors::DataLoss("slices of a tensor overlap in the data files");
  MR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(full.dtype, shape, allocator));
  for (const Part& part : parts) MR_RETURN_IF_ERROR(ReadPart(part, wanted, &tensor, allocator));
  return tensor;
}

}  // namespace millrace::io
