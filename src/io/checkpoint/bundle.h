// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/cancellation.h"
#include "base/env.h"
#include "io/checkpoint/bundle_data.h"
#include "io/checkpoint/bundle_format.h"
#include "io/checkpoint/region.h"
#include "io/checkpoint/table.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "tensor/allocator.h"

namespace millrace::io {

// Writes a checkpoint in TensorFlow's second format, of one data file. It is not visible under its name
// before Finish; without Finish nothing is left. One thread at a time.
class BundleWriter {
 public:
  // Creates the folder if it does not exist. `cancellation` may be null: it ends a Write soon.
  static StatusOr<std::unique_ptr<BundleWriter>> Open(Env& env, std::string prefix,
                                                      CancellationManager* cancellation = nullptr);
  ~BundleWriter();

  // InvalidArgument for a name that is empty or in use.
  Status Add(const std::string& name, const Tensor& tensor);
  // `tensor` is the part `slice` of a tensor of shape `full_shape`.
  Status AddSlice(const std::string& name, const TensorShape& full_shape, const TensorSlice& slice,
                  const Tensor& tensor);
  // Makes everything durable, then visible. Once.
  Status Finish();

 private:
  BundleWriter(Env& env, std::string prefix, std::string data_path, std::unique_ptr<WritableFile> file,
               CancellationManager* cancellation)
      : env_(env),
        prefix_(std::move(prefix)),
        data_path_(std::move(data_path)),
        file_(std::move(file)),
        data_(*file_, cancellation) {}
  Status AddEntry(std::string key, const Tensor& tensor);

  Env& env_;
  const std::string prefix_;
  const std::string data_path_;
  const std::unique_ptr<WritableFile> file_;
  BundleDataWriter data_;
  BundleEntries entries_;
  Status status_;  // the first error of a Write: later parts of the file are invalid
  bool finished_ = false;
};

// Reads a checkpoint in TensorFlow's second format. One thread at a time; large tensors are read with all
// threads of `parallel`.
class BundleReader {
 public:
  static StatusOr<std::unique_ptr<BundleReader>> Open(Env& env, const std::string& prefix,
                                                      CancellationManager* cancellation = nullptr,
                                                      ParallelFor parallel = nullptr);

  // The entry of a tensor or of a slice; NotFound "Key … not found in checkpoint".
  StatusOr<BundleEntry> Find(std::string_view key);
  StatusOr<bool> Has(std::string_view key);

  // A whole tensor, assembled from its slices if it was saved in slices. Every checksum is checked; see
  // BundleDataReader::Check for the memory that a malicious file can make this allocate.
  StatusOr<Tensor> Read(std::string_view name, Allocator& allocator = CpuAllocator());
  // A part of it. InvalidArgument when the existing slices do not cover it.
  StatusOr<Tensor> ReadSlice(std::string_view name, const TensorSlice& slice,
                             Allocator& allocator = CpuAllocator());

  // From the first key on, including the keys of slices; see TableReader.
  Status Start();
  StatusOr<bool> Next() { return table_->Next(); }
  std::string_view key() const { return table_->key(); }
  StatusOr<BundleEntry> entry() const { return ParseBundleEntry(table_->key(), table_->value()); }

  const std::string& prefix() const { return prefix_; }
  const BundleHeader& header() const { return header_; }

 private:
  struct Part;
  BundleReader(Env& env, std::string prefix, CancellationManager* cancellation, ParallelFor parallel)
      : env_(env), prefix_(std::move(prefix)), cancellation_(cancellation), parallel_(std::move(parallel)) {}
  StatusOr<BundleDataReader*> Shard(int i);
  StatusOr<Tensor> ReadEntry(const BundleEntry& entry, Allocator& allocator);
  // The stored slices of the tensor that intersect `wanted`.
  StatusOr<std::vector<Part>> PartsOf(std::string_view name, const BundleEntry& full, const Region& wanted);
  StatusOr<Tensor> ReadParts(std::string_view name, const BundleEntry& full, const TensorSlice& slice,
                             Allocator& allocator);
  Status ReadPart(const Part& part, const Region& wanted, Tensor* to, Allocator& allocator);

  Env& env_;
  const std::string prefix_;
  CancellationManager* const cancellation_;
  const ParallelFor parallel_;
  std::unique_ptr<TableReader> table_;
  BundleHeader header_;
  std::unordered_map<int, std::unique_ptr<BundleDataReader>> shards_;  // opened so far
};

}  // namespace millrace::io
