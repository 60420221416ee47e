// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/bundle_format.h"

#include <cstdio>

#include "base/strings.h"
#include "base/temporary_file.h"
#include "io/checkpoint/table.h"
#include "io/match_files.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor_shape.pb.h"
#include "tensorflow/core/framework/versions.pb.h"
#include "tensorflow/core/protobuf/tensor_bundle.pb.h"

namespace millrace::io {
namespace {

// The version that TensorFlow 1.x writes and reads.
constexpr int kVersion = 1;

Status CheckVersion(const tensorflow::VersionDef& versions, int version) {
  if (version < versions.min_consumer()) {
    return errors::InvalidArgument("Checkpoint min consumer version ", versions.min_consumer(),
                                   " above current version ", version,
                                   " for TensorFlow 1.15.5.  Please upgrade TensorFlow.");
  }
  for (const int bad : versions.bad_consumers()) {
    if (bad != version) continue;
    return errors::InvalidArgument("Checkpoint disallows consumer version ", bad,
                                   ".  Please upgrade TensorFlow: this version is likely buggy.");
  }
  if (versions.producer() < 0) {
    return errors::InvalidArgument("Checkpoint producer version ", versions.producer(),
                                   " below min producer 0 supported by TensorFlow 1.15.5.  Please regenerate "
                                   "your checkpoint.");
  }
  return Status::Ok();
}

// True for `base`.data-<5 or more digits>-of-<5 or more digits>; gives the last number.
bool IsDataFile(std::string_view name, std::string_view base, int64_t* num_shards) {
  if (!ConsumePrefix(&name, base) || !ConsumePrefix(&name, ".data-")) return false;
  const size_t of = name.find("-of-");
  if (of == std::string_view::npos) return false;
  const std::string_view shard = name.substr(0, of), total = name.substr(of + 4);
  const auto n = SafeStringToUint64(total);
  if (shard.size() < 5 || total.size() < 5 || !SafeStringToUint64(shard).has_value() || !n.has_value()) {
    return false;
  }
  *num_shards = static_cast<int64_t>(*n);
  return true;
}

std::string BaseOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The number of data files of an existing checkpoint; 0 if there is none that can be read.
int64_t NumShardsThere(Env& env, const std::string& prefix) {
  auto table = TableReader::Open(env, BundleIndexPath(prefix));
  if (!table.ok()) return 0;
  const auto bytes = (*table)->Get("");
  if (!bytes.ok() || !bytes->has_value()) return 0;
  const auto header = ParseBundleHeader(**bytes);
  return header.ok() ? header->num_shards : 0;
}

void DeleteOldData(Env& env, const std::string& prefix, int64_t num_shards) {
  const std::string folder = FolderOf(prefix), base = BaseOf(prefix);
  const auto names = env.GetChildren(folder.empty() ? "." : folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    int64_t n;
    if (!IsDataFile(name, base, &n) || n == num_shards) continue;
    const std::string path = prefix.substr(0, prefix.size() - base.size()) + name;
    env.DeleteFile(path).IgnoreError("only disk space is lost");
  }
}

Status WriteIndex(Env& env, const std::string& path, const BundleEntries& entries,
                  const BundleHeader& header) {
  MR_ASSIGN_OR_RETURN(const auto file, env.NewWritableFile(path));
  TableWriter table(*file);
  MR_RETURN_IF_ERROR(table.Add("", SerializeBundleHeader(header)));
  for (const auto& [key, entry] : entries) MR_RETURN_IF_ERROR(table.Add(key, SerializeBundleEntry(entry)));
  MR_RETURN_IF_ERROR(table.Finish());
  MR_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

std::string BundleIndexPath(const std::string& prefix) { return prefix + ".index"; }

std::string BundleDataPath(const std::string& prefix, int64_t shard, int64_t num_shards) {
  char suffix[64];
  std::snprintf(suffix, sizeof(suffix), ".data-%05lld-of-%05lld", static_cast<long long>(shard),
                static_cast<long long>(num_shards));
  return prefix + suffix;
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : slash == 0 ? "/" : path.substr(0, slash);
}

Status CorruptFileError(const Status& status, const std::string& path, std::string_view detail) {
  const std::string text = StrCat("Unable to read file (", path,
                                  "). Perhaps the file is corrupt or was produced by a newer version of "
                                  "TensorFlow with format changes (",
                                  detail, ")");
  if (status.ok()) return errors::Internal(text);
  return errors::Make(status.code(), text, ": ", status.message());
}

Status CheckCheckpointVersion(const tensorflow::VersionDef& versions) {
  return CheckVersion(versions, kVersion);
}

StatusOr<BundleHeader> ParseBundleHeader(std::string_view bytes) {
  tensorflow::BundleHeaderProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return errors::DataLoss("the header of the checkpoint is malformed");
  }
  MR_RETURN_IF_ERROR(CheckVersion(proto.version(), kVersion));
  if (proto.num_shards() < 0) {
    return errors::DataLoss("the header of the checkpoint has ", proto.num_shards(), " shards");
  }
  return BundleHeader{.num_shards = proto.num_shards(),
                      .big_endian = proto.endianness() == tensorflow::BundleHeaderProto::BIG};
}

std::string SerializeBundleHeader(const BundleHeader& header) {
  tensorflow::BundleHeaderProto proto;
  proto.set_num_shards(header.num_shards);
  if (header.big_endian) proto.set_endianness(tensorflow::BundleHeaderProto::BIG);
  proto.mutable_version()->set_producer(kVersion);
  return proto.SerializeAsString();
}

StatusOr<BundleEntry> ParseBundleEntry(std::string_view key, std::string_view bytes) {
  tensorflow::BundleEntryProto proto;
  if (bytes.size() > INT32_MAX || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return errors::DataLoss("Entry for key ", CEscape(key), " not parseable.");
  }
  const auto dtype = DataTypeFromProto(proto.dtype());
  const auto shape = ShapeFromProto(proto.shape());
  if (!dtype.ok() || IsRefType(*dtype))
    return errors::DataLoss("Invalid dtype: ", CEscape(key), " ", proto.dtype());
  if (!shape.ok()) {
    return errors::DataLoss("Invalid tensor shape: ", CEscape(key), " ", proto.shape().ShortDebugString());
  }
  if (proto.offset() < 0 || proto.size() < 0 || proto.shard_id() < 0) {
    return errors::DataLoss("Invalid place in bundle entry: key ", CEscape(key));
  }
  BundleEntry entry{.dtype = *dtype,
                    .shape = *shape,
                    .shard = proto.shard_id(),
                    .offset = static_cast<uint64_t>(proto.offset()),
                    .size = static_cast<uint64_t>(proto.size()),
                    .masked_crc = proto.crc32c(),
                    .slices = {}};
  for (const auto& slice : proto.slices()) {
    auto parsed = TensorSlice::FromProto(slice);
    const Status status = parsed.ok() ? parsed->ShapeIn(entry.shape).status() : parsed.status();
    if (!status.ok()) {
      return errors::DataLoss("Invalid slice: ", CEscape(key), " ", status.message());
    }
    entry.slices.push_back(*std::move(parsed));
  }
  return entry;
}

std::string SerializeBundleEntry(const BundleEntry& entry) {
  tensorflow::BundleEntryProto proto;
  proto.set_dtype(DataTypeToProto(entry.dtype));
  ShapeToProto(entry.shape, proto.mutable_shape());
  proto.set_shard_id(entry.shard);
  proto.set_offset(static_cast<int64_t>(entry.offset));
  proto.set_size(static_cast<int64_t>(entry.size));
  proto.set_crc32c(entry.masked_crc);
  for (const TensorSlice& slice : entry.slices) slice.ToProto(proto.add_slices());
  return proto.SerializeAsString();
}

Status CommitBundle(Env& env, const std::string& prefix, const std::vector<std::string>& data_files,
                    const BundleEntries& entries, bool big_endian) {
  const std::string index = BundleIndexPath(prefix);
  const bool replaces = env.FileExists(index);
  auto num_shards = static_cast<int64_t>(data_files.size());
  if (replaces && NumShardsThere(env, prefix) == num_shards) ++num_shards;
  for (size_t i = 0; i < data_files.size(); ++i) {
    const std::string path = BundleDataPath(prefix, static_cast<int64_t>(i), num_shards);
    if (path != data_files[i]) MR_RETURN_IF_ERROR(env.RenameFile(data_files[i], path));
  }
  // Writes a shard without tensors, so that all files exist that the names count.
  for (auto i = static_cast<int64_t>(data_files.size()); i < num_shards; ++i) {
    MR_RETURN_IF_ERROR(WriteFileAtomically(env, BundleDataPath(prefix, i, num_shards), ""));
  }
  const std::string temporary = TemporaryName(index);
  const BundleHeader header{.num_shards = static_cast<int>(num_shards), .big_endian = big_endian};
  Status status = WriteIndex(env, temporary, entries, header);
  if (status.ok()) status = env.RenameFile(temporary, index);
  if (!status.ok()) {
    env.DeleteFile(temporary).IgnoreError("the first error is the one to report");
    return status;
  }
  if (replaces) DeleteOldData(env, prefix, num_shards);
  DeleteStaleTemporaries(env, prefix);
  return Status::Ok();
}

}  // namespace millrace::io
