// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RecordInput and DecodeCompressed.
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/mutex.h"
#include "io/match_files.h"
#include "io/record_file.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// The largest size of a decompressed string.
constexpr size_t kMostBytes = size_t{1} << 31;

StatusOr<io::Compression> ReadCompression(KernelConstruction& c) {
  auto compression = io::ParseCompression(c.Attr<std::string>("compression_type"));
  if (!compression.ok()) return errors::InvalidArgument("Only ZLIB, GZIP or NONE are supported compressions");
  return *compression;
}

// The bytes of a string, as one chunk.
class StringSource final : public io::ByteSource {
 public:
  explicit StringSource(std::string_view bytes) : bytes_(bytes) {}
  Status Next(std::string* piece) override {
    piece->assign(std::exchange(bytes_, {}));
    return Status();
  }
  uint64_t MostLeft() const override { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

class DecodeCompressedKernel final : public OpKernel {
 public:
  explicit DecodeCompressedKernel(KernelConstruction& c) : OpKernel(c) {
    const auto compression = ReadCompression(c);
    c.SetError(compression.status());
    if (compression.ok()) compression_ = *compression;
  }
  Status Compute(KernelContext& context) override {
    if (compression_ == io::Compression::kNone) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, in.shape()));
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      if (context.cancellation().IsCancelled())
        return errors::Cancelled("The step was cancelled while strings were unpacked");
      MR_RETURN_IF_ERROR(Unpack(in.data<std::string>()[i], out->data<std::string>() + i));
    }
    return Status();
  }

 private:
  Status Unpack(const std::string& bytes, std::string* out) const {
    const auto source = io::Inflate(std::make_unique<StringSource>(bytes), compression_, "bytes");
    for (std::string piece;;) {
      MR_RETURN_IF_ERROR(source->Next(&piece));
      if (piece.empty()) return Status();
      if (out->size() + piece.size() > kMostBytes)
        return errors::ResourceExhausted("A string unpacks to more than ", kMostBytes, " bytes");
      *out += piece;
    }
  }

  io::Compression compression_ = io::Compression::kNone;
};

struct RecordOptions {
  std::string pattern;
  int64_t seed = 0;
  float shift = 0;         // of the shuffled list of files, in each epoch
  size_t buffer_size = 1;  // records from which the next one is drawn
  io::Compression compression = io::Compression::kNone;
};

// Each record of the files once per epoch. The files are shuffled; the next record is a random one of those
// in a buffer. Not thread-safe.
class RecordShuffler {
 public:
  explicit RecordShuffler(RecordOptions options)
      : options_(std::move(options)), random_(static_cast<uint64_t>(options_.seed)) {}

  // NotFound if no file matches, OutOfRange if the files have no records.
  Status Next(std::string* record) {
    while (buffer_.size() < options_.buffer_size) {
      std::string next;
      MR_ASSIGN_OR_RETURN(const bool found, Read(&next));
      if (!found) break;
      buffer_.push_back(std::move(next));
    }
    if (buffer_.empty()) {
      if (epoch_ > 0 && read_ == 0)
        return errors::OutOfRange("No records in the files at ", options_.pattern);
      MR_RETURN_IF_ERROR(StartEpoch());
      return Next(record);
    }
    std::swap(buffer_[random_() % buffer_.size()], buffer_.back());
    *record = std::move(buffer_.back());
    buffer_.pop_back();
    return Status();
  }

 private:
  Status StartEpoch() {
    MR_ASSIGN_OR_RETURN(files_, io::MatchingFiles(Env::Posix(), options_.pattern));
    if (files_.empty()) return errors::NotFound("Found no files at ", options_.pattern);
    std::mt19937_64 order(static_cast<uint64_t>(options_.seed + epoch_));
    std::shuffle(files_.begin(), files_.end(), order);
    const auto shift = static_cast<size_t>(static_cast<float>(files_.size()) * options_.shift);
    std::rotate(files_.begin(), files_.begin() + static_cast<int64_t>(shift % files_.size()), files_.end());
    ++epoch_;
    next_file_ = 0;
    read_ = 0;
    return Status();
  }
  // False at the end of the epoch.
  StatusOr<bool> Read(std::string* record) {
    while (reader_ != nullptr || next_file_ < files_.size()) {
      if (reader_ == nullptr) {
        MR_ASSIGN_OR_RETURN(reader_,
                            io::RecordReader::Open(Env::Posix(), files_[next_file_++], options_.compression));
      }
      const Status status = reader_->Read(record);
      if (status.ok()) {
        ++read_;
        return true;
      }
      reader_.reset();
      if (!errors::IsOutOfRange(status)) return status;
    }
    return false;
  }

  const RecordOptions options_;
  std::mt19937_64 random_;
  std::vector<std::string> files_;
  size_t next_file_ = 0;
  std::unique_ptr<io::RecordReader> reader_;
  std::vector<std::string> buffer_;
  int64_t epoch_ = 0, read_ = 0;
};

RecordOptions ReadOptions(KernelConstruction& c) {
  RecordOptions options{.pattern = c.Attr<std::string>("file_pattern"),
                        .seed = c.Attr<int64_t>("file_random_seed"),
                        .shift = c.Attr<float>("file_shuffle_shift_ratio")};
  const auto buffer_size = c.Attr<int64_t>("file_buffer_size"),
             parallelism = c.Attr<int64_t>("file_parallelism");
  if (buffer_size <= 0 || parallelism <= 0)
    c.SetError(errors::InvalidArgument("file_buffer_size and file_parallelism must be positive"));
  if (!(options.shift >= 0 && options.shift <= 1))
    c.SetError(errors::InvalidArgument("file_shuffle_shift_ratio must be in [0, 1]"));
  options.buffer_size = static_cast<size_t>(std::max<int64_t>(1, buffer_size));
  const auto compression = ReadCompression(c);
  c.SetError(compression.status());
  if (compression.ok()) options.compression = *compression;
  return options;
}

class RecordInputKernel final : public OpKernel {
 public:
  explicit RecordInputKernel(KernelConstruction& c)
      : OpKernel(c), batch_size_(c.Attr<int64_t>("batch_size")), records_(ReadOptions(c)) {
    if (batch_size_ <= 0) c.SetError(errors::InvalidArgument("batch_size must be positive"));
  }
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({batch_size_})));
    MutexLock lock(mu_);
    for (int64_t i = 0; i < batch_size_; ++i) {
      if (context.cancellation().IsCancelled())
        return errors::Cancelled("The step was cancelled while records were read");
      MR_RETURN_IF_ERROR(records_.Next(out->data<std::string>() + i));
    }
    return Status();
  }

 private:
  const int64_t batch_size_;
  Mutex mu_;
  RecordShuffler records_ MR_GUARDED_BY(mu_);
};

}  // namespace

void RegisterRecordInputKernels(KernelRegistry& registry) {
  registry.Register<DecodeCompressedKernel>(KernelDef("DecodeCompressed"));
  registry.Register<RecordInputKernel>(KernelDef("RecordInput"));
}

}  // namespace millrace
