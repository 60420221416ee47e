// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf
namespace tensorflow {
class MemmappedFileSystemDirectory;
}  // namespace tensorflow

// Packages of TensorFlow's MemmappedFileSystem: one file with elements of tensors, aligned for use in a
// mapping of the file, and messages; then a directory of their names, and its offset in 8 bytes.
namespace millrace::io {

// Names in a package consist of this and letters, digits, '_' and '.'.
inline constexpr char kMemmappedPrefix[] = "memmapped_package://";
// Where converted graphs are.
inline constexpr char kMemmappedGraphDef[] = "memmapped_package://.";

bool IsMemmappedName(std::string_view name);

// Writes a package, which appears under its name when it is complete. One thread at a time.
class MemmappedPackageWriter {
 public:
  static StatusOr<std::unique_ptr<MemmappedPackageWriter>> Open(Env& env, const std::string& path);
  ~MemmappedPackageWriter();

  // InvalidArgument for a name that is malformed or in use, and for types without a fixed size.
  Status AddTensor(const std::string& name, const Tensor& tensor);
  Status AddMessage(const std::string& name, const google::protobuf::MessageLite& message);
  // Makes everything durable, then visible. Once.
  Status Finish();

 private:
  MemmappedPackageWriter(Env& env, std::string path, std::string temporary,
                         std::unique_ptr<WritableFile> file);
  Status Add(const std::string& name, std::string_view bytes, uint64_t alignment);
  Status Append(std::string_view bytes);

  Env& env_;
  const std::string path_;
  const std::string temporary_;
  std::unique_ptr<WritableFile> file_;
  std::unique_ptr<tensorflow::MemmappedFileSystemDirectory> directory_;
  uint64_t offset_ = 0;
  bool finished_ = false;
};

// A region with its package, "path#memmapped_package://name", which ImmutableConst finds in all sessions.
std::string QualifiedName(const std::string& package, const std::string& name);
// The two parts of such a name; nothing for others.
std::optional<std::pair<std::string, std::string>> SplitQualifiedName(const std::string& name);

// An Env with the regions of a package in addition to the files of another Env. The package stays mapped as
// long as this or one of its regions lives.
class MemmappedEnv : public EnvWrapper {
 public:
  // DataLoss "Corrupted memmapped model file: …" if it is not a package.
  static StatusOr<std::unique_ptr<MemmappedEnv>> Open(Env& base, const std::string& path);
  // The package that is open in this process already, if the file did not change since.
  static StatusOr<std::shared_ptr<MemmappedEnv>> OpenShared(Env& base, const std::string& path);

  // NotFound "Region … is not found" for a name that is not in the package.
  StatusOr<std::unique_ptr<ReadOnlyMemoryRegion>> NewReadOnlyMemoryRegion(const std::string& path) override;
  StatusOr<std::unique_ptr<RandomAccessFile>> NewRandomAccessFile(const std::string& path) override;
  StatusOr<FileStat> Stat(const std::string& path) override;
  // The names, in order.
  std::vector<std::string> Names() const;

 private:
  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  MemmappedEnv(Env& base, std::shared_ptr<const ReadOnlyMemoryRegion> file,
               std::map<std::string, Range> ranges)
      : EnvWrapper(base), file_(std::move(file)), ranges_(std::move(ranges)) {}
  StatusOr<std::string_view> Find(const std::string& name) const;

  const std::shared_ptr<const ReadOnlyMemoryRegion> file_;
  const std::map<std::string, Range> ranges_;
};

// The elements at the start of a file, or of a region that QualifiedName names. The tensor holds the mapping
// and must not be written to; elements at unaligned addresses and bools are copied. InvalidArgument when
// there are too few bytes.
StatusOr<Tensor> MapTensor(Env& env, const std::string& name, DataType dtype, const TensorShape& shape);

}  // namespace millrace::io
