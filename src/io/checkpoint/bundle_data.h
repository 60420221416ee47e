// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/cancellation.h"
#include "base/env.h"
#include "base/thread_pool.h"
#include "io/checkpoint/bundle_format.h"
#include "millrace/status.h"
#include "millrace/tensor.h"

// The data files of bundles. Elements of fixed-size types are as in memory. Strings: lengths as varints, the
// masked checksum of these, the bytes. Variants: for each length, message, masked checksum so far.
namespace millrace::io {

// True for the types that a checkpoint can hold: all except handles of resources.
bool IsSavedType(DataType dtype);

// Appends tensors to a file. One thread at a time.
class BundleDataWriter {
 public:
  // Stops with Cancelled soon after `cancellation`, which may be null.
  BundleDataWriter(WritableFile& file, CancellationManager* cancellation)
      : file_(file), cancellation_(cancellation) {}

  // Sets the position of the elements and their checksum.
  Status Write(const Tensor& tensor, BundleEntry* entry);

 private:
  Status WriteStrings(const Tensor& tensor);
  Status WriteVariants(const Tensor& tensor);
  // Writes and computes checksums, in pieces that stay in the processor's cache in between.
  Status Append(std::string_view bytes);
  Status AppendUnsummed(std::string_view bytes);
  Status AppendSum();
  void Sum(std::string_view bytes);

  WritableFile& file_;
  CancellationManager* const cancellation_;
  uint64_t offset_ = 0;
  uint32_t crc_ = 0;
};

// ThreadPool::ParallelFor of any pool.
using ParallelFor = std::function<void(int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn)>;

// Reads tensors from a file. Memory is bounded by the bytes in the file. One thread at a time.
class BundleDataReader {
 public:
  // `name` begins the text of errors about the contents. Large tensors are read by the threads that
  // `parallel` has, if there is one.
  static StatusOr<std::unique_ptr<BundleDataReader>> Open(Env& env, const std::string& path, std::string name,
                                                          bool big_endian, CancellationManager* cancellation,
                                                          ParallelFor parallel);

  uint64_t size() const { return size_; }
  // DataLoss when the file is too short for what the entry says, or the entry contradicts itself. After OK
  // the tensor takes at most 40 times the bytes that the file has for it (strings of no length), others as
  // many.
  Status Check(const BundleEntry& entry) const;
  // Reads the elements directly into `to`, which has their type and number, and checks their checksum.
  // REQUIRES: Check.
  Status Read(const BundleEntry& entry, Tensor* to) const;
  // The same into memory for fixed-size elements.
  Status ReadPlain(const BundleEntry& entry, char* to) const;

 private:
  class Piece;
  BundleDataReader(std::unique_ptr<RandomAccessFile> file, uint64_t size, std::string name, bool big_endian,
                   CancellationManager* cancellation, ParallelFor parallel)
      : file_(std::move(file)),
        size_(size),
        name_(std::move(name)),
        big_endian_(big_endian),
        cancellation_(cancellation),
        parallel_(std::move(parallel)) {}
  // Copies the bytes to `to` and returns their checksum.
  StatusOr<uint32_t> ReadAndSum(uint64_t offset, uint64_t n, char* to) const;
  StatusOr<uint32_t> ReadAndSumInParallel(uint64_t offset, uint64_t n, char* to) const;
  Status ReadStrings(const BundleEntry& entry, Tensor* to) const;
  Status ReadVariants(const BundleEntry& entry, Tensor* to) const;
  Status CheckSum(const BundleEntry& entry, uint32_t crc) const;
  Status Malformed(const char* what) const;

  const std::unique_ptr<RandomAccessFile> file_;
  const uint64_t size_;
  const std::string name_;
  const bool big_endian_;
  CancellationManager* const cancellation_;
  const ParallelFor parallel_;
};

}  // namespace millrace::io
