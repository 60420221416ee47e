// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/bundle_data.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/mutex.h"
#include "io/checkpoint/coding.h"
#include "io/crc32c.h"
#include "tensor/dtype_table.h"
#include "tensor/tensor_codec.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace::io {
namespace {

// Fits the second cache of a core together with its surroundings.
constexpr size_t kPiece = 256 << 10;
// The part of a large tensor that a thread takes at a time, and the estimated time for it.
constexpr uint64_t kShare = 2 << 20;
constexpr int64_t kShareNs = 200'000;

Status CheckCancelled(const CancellationManager* cancellation) {
  if (cancellation == nullptr || !cancellation->IsCancelled()) return Status::Ok();
  return errors::Cancelled("the checkpoint was not finished");
}

std::string EightDigits(uint32_t n) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08u", n);
  return text;
}

// A length as it enters the checksum: as in TensorFlow, 4 bytes if it fits.
std::string LengthForSum(uint64_t length, bool always_wide, bool big_endian) {
  std::string bytes;
  if (always_wide || length > UINT32_MAX) {
    PutFixed64(length, &bytes);
  } else {
    PutFixed32(static_cast<uint32_t>(length), &bytes);
  }
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

// The size of what a byte order applies to: complex numbers are pairs.
size_t WordSize(DataType dtype) { return DataTypeSize(dtype) / (IsComplexType(dtype) ? 2 : 1); }

void ReverseWords(char* data, size_t bytes, size_t word) {
  if (word <= 1) return;
  for (size_t i = 0; i + word <= bytes; i += word) std::reverse(data + i, data + i + word);
}

// The system provides new memory page by page, which takes as long as copying into it. If there are pages of
// 2 MiB, large tensors use them.
void PreferLargePages(char* data, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = 2 << 20;
  const auto start = (reinterpret_cast<uintptr_t>(data) + kPage - 1) & ~(kPage - 1);
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(kPage - 1);
  // A failure only makes it slower.
  if (start < end) (void)::madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#endif
}

}  // namespace

bool IsSavedType(DataType dtype) {
  return dtype == DataType::kString || dtype == DataType::kVariant || DataTypeSize(dtype) > 0;
}

void BundleDataWriter::Sum(std::string_view bytes) { crc_ = ExtendCrc32c(crc_, bytes); }

Status BundleDataWriter::AppendUnsummed(std::string_view bytes) {
  MR_RETURN_IF_ERROR(CheckCancelled(cancellation_));
  offset_ += bytes.size();
  return file_.Append(bytes);
}

Status BundleDataWriter::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    Sum(piece);
    MR_RETURN_IF_ERROR(AppendUnsummed(piece));
    bytes.remove_prefix(piece.size());
  }
  return Status::Ok();
}

Status BundleDataWriter::AppendSum() {
  std::string masked;
  PutFixed32(MaskCrc(crc_), &masked);
  return Append(masked);
}

Status BundleDataWriter::WriteStrings(const Tensor& tensor) {
  std::string lengths;
  for (const std::string& value : tensor.flat<std::string>()) {
    PutVarint(value.size(), &lengths);
    Sum(LengthForSum(value.size(), /*always_wide=*/false, /*big_endian=*/false));
    if (lengths.size() < kPiece) continue;
    MR_RETURN_IF_ERROR(AppendUnsummed(lengths));
    lengths.clear();
  }
  MR_RETURN_IF_ERROR(AppendUnsummed(lengths));
  MR_RETURN_IF_ERROR(AppendSum());
  for (const std::string& value : tensor.flat<std::string>()) MR_RETURN_IF_ERROR(Append(value));
  return Status::Ok();
}

Status BundleDataWriter::WriteVariants(const Tensor& tensor) {
  tensorflow::TensorProto proto;
  TensorToProto(tensor, &proto);
  for (const auto& variant : proto.variant_val()) {
    const std::string bytes = variant.SerializeAsString();
    std::string length;
    PutVarint(bytes.size(), &length);
    MR_RETURN_IF_ERROR(AppendUnsummed(length));
    Sum(LengthForSum(bytes.size(), /*always_wide=*/true, /*big_endian=*/false));
    MR_RETURN_IF_ERROR(Append(bytes));
    MR_RETURN_IF_ERROR(AppendSum());
  }
  return Status::Ok();
}

Status BundleDataWriter::Write(const Tensor& tensor, BundleEntry* entry) {
  if (!IsSavedType(tensor.dtype())) {
    return errors::Unimplemented("Saving data type ", DataTypeName(tensor.dtype()), " not yet supported");
  }
  if (!tensor.IsInitialized()) return errors::FailedPrecondition("the tensor has no value");
  crc_ = 0;
  entry->offset = offset_;
  if (tensor.dtype() == DataType::kString) {
    MR_RETURN_IF_ERROR(WriteStrings(tensor));
  } else if (tensor.dtype() == DataType::kVariant) {
    MR_RETURN_IF_ERROR(WriteVariants(tensor));
  } else {
    MR_RETURN_IF_ERROR(Append({static_cast<const char*>(tensor.raw_data()), tensor.num_bytes()}));
  }
  entry->size = offset_ - entry->offset;
  entry->masked_crc = MaskCrc(crc_);
  return Status::Ok();
}

StatusOr<std::unique_ptr<BundleDataReader>> BundleDataReader::Open(Env& env, const std::string& path,
                                                                   std::string name, bool big_endian,
                                                                   CancellationManager* cancellation,
                                                                   ParallelFor parallel) {
  MR_ASSIGN_OR_RETURN(const FileStat stat, env.Stat(path));
  MR_ASSIGN_OR_RETURN(auto file, env.NewRandomAccessFile(path));
  return std::unique_ptr<BundleDataReader>(new BundleDataReader(
      std::move(file), stat.length, std::move(name), big_endian, cancellation, std::move(parallel)));
}

Status BundleDataReader::Check(const BundleEntry& entry) const {
  if (!IsSavedType(entry.dtype)) {
    return errors::Unimplemented("Restoring data type ", DataTypeName(entry.dtype), " not yet supported");
  }
  if (entry.size > size_ || entry.offset > size_ - entry.size) {
    return errors::DataLoss(name_, ": truncated: the file has ", size_, " bytes, the tensor needs ",
                            entry.size, " at ", entry.offset);
  }
  const auto n = static_cast<uint64_t>(entry.shape.num_elements());
  if (entry.dtype == DataType::kString || entry.dtype == DataType::kVariant) {
    // Each string has a byte of length, each variant also a checksum.
    const uint64_t least = entry.dtype == DataType::kString ? 1 : 5;
    if (n > entry.size / least) {
      return errors::DataLoss(name_, ": ", entry.size, " bytes are too few for ", n, " elements");
    }
    return Status::Ok();
  }
  uint64_t expected;
  if (__builtin_mul_overflow(n, DataTypeSize(entry.dtype), &expected) || expected != entry.size) {
    return errors::DataLoss("Invalid size in bundle entry: stored size ", entry.size, "; expected size of ",
                            DataTypeName(entry.dtype), entry.shape);
  }
  return Status::Ok();
}

Status BundleDataReader::CheckSum(const BundleEntry& entry, uint32_t crc) const {
  if (MaskCrc(crc) == entry.masked_crc) return Status::Ok();
  return errors::DataLoss(name_, " (", entry.size, " bytes): Checksum does not match: stored ",
                          EightDigits(UnmaskCrc(entry.masked_crc)), " vs. calculated on the restored bytes ",
                          crc);
}

StatusOr<uint32_t> BundleDataReader::ReadAndSum(uint64_t offset, uint64_t n, char* to) const {
  uint32_t crc = 0;
  for (uint64_t done = 0; done < n;) {
    MR_RETURN_IF_ERROR(CheckCancelled(cancellation_));
    const size_t piece = std::min<uint64_t>(n - done, kPiece);
    MR_ASSIGN_OR_RETURN(const size_t got, file_->ReadInto(offset + done, piece, to + done));
    if (got < piece) return errors::DataLoss(name_, ": the file became shorter while it was read");
    crc = ExtendCrc32c(crc, {to + done, piece});
    done += piece;
  }
  return crc;
}

StatusOr<uint32_t> BundleDataReader::ReadAndSumInParallel(uint64_t offset, uint64_t n, char* to) const {
  const uint64_t shares = (n + kShare - 1) / kShare;
  const auto size_of = [&](uint64_t share) { return std::min(kShare, n - share * kShare); };
  std::vector<uint32_t> sums(shares);
  Mutex mu;
  Status status;
  parallel_(static_cast<int64_t>(shares), kShareNs, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<uint64_t>(begin); i < static_cast<uint64_t>(end); ++i) {
      const auto sum = ReadAndSum(offset + i * kShare, size_of(i), to + i * kShare);
      if (sum.ok()) {
        sums[i] = *sum;
        continue;
      }
      MutexLock lock(mu);
      if (status.ok()) status = sum.status();
      return;
    }
  });
  MR_RETURN_IF_ERROR(status);
  uint32_t crc = 0;
  for (uint64_t i = 0; i < shares; ++i) crc = ConcatCrc32c(crc, sums[i], size_of(i));
  return crc;
}

Status BundleDataReader::ReadPlain(const BundleEntry& entry, char* to) const {
  PreferLargePages(to, entry.size);
  const bool in_parallel = parallel_ != nullptr && entry.size >= 4 * kShare;
  MR_ASSIGN_OR_RETURN(const uint32_t crc, in_parallel ? ReadAndSumInParallel(entry.offset, entry.size, to)
                                                      : ReadAndSum(entry.offset, entry.size, to));
  MR_RETURN_IF_ERROR(CheckSum(entry, crc));
  if (big_endian_) ReverseWords(to, entry.size, WordSize(entry.dtype));
  return Status::Ok();
}

// The bytes of one tensor in order, with their checksum on demand.
class BundleDataReader::Piece {
 public:
  Piece(const BundleDataReader& reader, const BundleEntry& entry)
      : reader_(reader), next_(entry.offset), left_(entry.size) {}

  uint64_t left() const { return left_ + buffer_.size() - used_; }
  uint32_t crc() const { return crc_; }
  void Sum(std::string_view bytes) { crc_ = ExtendCrc32c(crc_, bytes); }

  StatusOr<uint64_t> TakeLength() {
    uint64_t length = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      char byte;
      MR_RETURN_IF_ERROR(TakeUnsummed(&byte, 1));
      if (shift == 63 && (byte & 0x7e) != 0) break;
      length |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return length;
    }
    return reader_.Malformed("a length of more than 64 bits");
  }
  Status Take(char* to, size_t n) {
    MR_RETURN_IF_ERROR(TakeUnsummed(to, n));
    Sum({to, n});
    return Status::Ok();
  }
  // The masked checksum so far; false when it differs. It is part of the checksum itself.
  Status TakeSum() {
    const uint32_t before = crc_;
    char bytes[4];
    MR_RETURN_IF_ERROR(Take(bytes, sizeof(bytes)));
    if (reader_.big_endian_) std::reverse(bytes, bytes + 4);
    const uint32_t stored = UnmaskCrc(GetFixed32(bytes));
    if (stored == before) return Status::Ok();
    return errors::DataLoss("The length checksum does not match: expected ", EightDigits(stored),
                            " but actual is ", EightDigits(before));
  }

 private:
  Status TakeUnsummed(char* to, size_t n) {
    if (n > left()) return reader_.Malformed("its elements end too late");
    while (n > 0) {
      if (used_ == buffer_.size()) {
        MR_RETURN_IF_ERROR(CheckCancelled(reader_.cancellation_));
        used_ = 0;
        const uint64_t want = std::min<uint64_t>(left_, kPiece);
        MR_RETURN_IF_ERROR(reader_.file_->Read(next_, want, &buffer_));
        next_ += want;
        left_ -= want;
      }
      const size_t copied = buffer_.copy(to, n, used_);
      used_ += copied;
      to += copied;
      n -= copied;
    }
    return Status::Ok();
  }

  const BundleDataReader& reader_;
  uint64_t next_;
  uint64_t left_;
  std::string buffer_;
  size_t used_ = 0;
  uint32_t crc_ = 0;
};

Status BundleDataReader::Malformed(const char* what) const {
  return errors::DataLoss(name_, ": a tensor of strings or variants is malformed: ", what);
}

Status BundleDataReader::ReadStrings(const BundleEntry& entry, Tensor* to) const {
  Piece piece(*this, entry);
  uint64_t total = 0;
  for (std::string& value : to->flat<std::string>()) {
    MR_ASSIGN_OR_RETURN(const uint64_t length, piece.TakeLength());
    piece.Sum(LengthForSum(length, /*always_wide=*/false, big_endian_));
    if (length > entry.size - total) return Malformed("a string is longer than the tensor");
    total += length;
    value.resize(length);
  }
  MR_RETURN_IF_ERROR(piece.TakeSum());
  if (piece.left() != total) return Malformed("its size is not the sum of its lengths");
  for (std::string& value : to->flat<std::string>()) {
    MR_RETURN_IF_ERROR(piece.Take(value.data(), value.size()));
  }
  return CheckSum(entry, piece.crc());
}

Status BundleDataReader::ReadVariants(const BundleEntry& entry, Tensor* to) const {
  Piece piece(*this, entry);
  tensorflow::TensorProto proto;
  proto.set_dtype(tensorflow::DT_VARIANT);
  ShapeToProto(to->shape(), proto.mutable_tensor_shape());
  for (int64_t i = 0; i < to->num_elements(); ++i) {
    MR_ASSIGN_OR_RETURN(const uint64_t length, piece.TakeLength());
    piece.Sum(LengthForSum(length, /*always_wide=*/true, big_endian_));
    if (length > piece.left()) return Malformed("a variant is longer than the tensor");
    std::string bytes(length, '\0');
    MR_RETURN_IF_ERROR(piece.Take(bytes.data(), length));
    if (!proto.add_variant_val()->ParseFromString(bytes)) return Malformed("not a message");
    MR_RETURN_IF_ERROR(piece.TakeSum());
  }
  if (piece.left() != 0) return Malformed("bytes after the last element");
  MR_RETURN_IF_ERROR(CheckSum(entry, piece.crc()));
  // The memory that messages of this size may take, nested tensors included.
  const int64_t limit = 10 * static_cast<int64_t>(entry.size) + (int64_t{16} << 20);
  MR_ASSIGN_OR_RETURN(Tensor decoded, TensorFromProto(proto, {.max_bytes = limit}));
  std::move(decoded.data<Variant>(), decoded.data<Variant>() + decoded.num_elements(), to->data<Variant>());
  return Status::Ok();
}

Status BundleDataReader::Read(const BundleEntry& entry, Tensor* to) const {
  if (entry.dtype == DataType::kString) return ReadStrings(entry, to);
  if (entry.dtype == DataType::kVariant) return ReadVariants(entry, to);
  return ReadPlain(entry, static_cast<char*>(to->raw_data()));
}

}  // namespace millrace::io
