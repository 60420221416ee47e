// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint of 1 GB (16 tensors of floats) in the disk cache, beside the plain system calls for the same
// bytes. `bytes_per_second` is of the tensors' bytes.
//
//   checkpoint_read/plain       pread of each tensor's bytes into a new tensor
//   checkpoint_read/discarded   pread of the same bytes into one buffer of 1 MB, again and again
//   checkpoint_read/bundle      BundleReader::Read of each tensor, with checksums; RestoreV2 does it on the
//                               threads of its session
//   checkpoint_write/plain      write of the same bytes to a file
//   checkpoint_write/bundle     BundleWriter, where Sync does nothing
//   checkpoint_write/plain_synced, checkpoint_write/bundle_synced   both with fsync
//   crc32c                      only the checksum, of 256 KB in the cache
//
// The folder is $TMPDIR or /tmp.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "io/checkpoint/bundle.h"
#include "io/crc32c.h"

namespace millrace::io {
namespace {

constexpr int kTensors = 16;
constexpr int64_t kElements = 16 << 20;
constexpr size_t kBytes = kElements * sizeof(float);

// Nothing here waits for the disk; Env::RenameFile would sync the new name.
class UnsyncedEnv : public EnvWrapper {
 public:
  using EnvWrapper::EnvWrapper;
  Status RenameFile(const std::string& from, const std::string& to) override {
    return std::rename(from.c_str(), to.c_str()) == 0 ? Status::Ok() : errors::Internal("not renamed");
  }
  StatusOr<std::unique_ptr<WritableFile>> NewWritableFile(const std::string& path) override {
    MR_ASSIGN_OR_RETURN(auto file, base_.NewWritableFile(path));
    return std::unique_ptr<WritableFile>(std::make_unique<File>(std::move(file)));
  }

 private:
  class File : public WritableFile {
   public:
    explicit File(std::unique_ptr<WritableFile> base) : base_(std::move(base)) {}
    Status Append(std::string_view data) override { return base_->Append(data); }
    Status Flush() override { return base_->Flush(); }
    Status Sync() override { return base_->Flush(); }
    Status Close() override { return base_->Close(); }

   private:
    const std::unique_ptr<WritableFile> base_;
  };
};

std::string Folder() {
  static const std::string folder = [] {
    const std::string path =
        (std::filesystem::temp_directory_path() / StrCat("bench_checkpoint.", ::getpid())).string();
    std::filesystem::create_directory(path);
    std::atexit([] { std::filesystem::remove_all(Folder()); });
    return path;
  }();
  return folder;
}

const std::vector<Tensor>& Tensors() {
  static const std::vector<Tensor>& tensors = *[] {
    auto* result = new std::vector<Tensor>;
    for (int i = 0; i < kTensors; ++i) {
      Tensor tensor(DataType::kFloat, TensorShape({kElements}));
      for (int64_t j = 0; j < kElements; ++j) tensor.data<float>()[j] = static_cast<float>(i * j);
      result->push_back(std::move(tensor));
    }
    return result;
  }();
  return tensors;
}

Status WriteBundle(Env& env, const std::string& prefix) {
  MR_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Open(env, prefix));
  for (int i = 0; i < kTensors; ++i) {
    MR_RETURN_IF_ERROR(writer->Add(StrCat("tensor", 10 + i), Tensors()[static_cast<size_t>(i)]));
  }
  return writer->Finish();
}

bool WritePlain(const std::string& path, bool sync) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  bool good = fd >= 0;
  for (const Tensor& tensor : Tensors()) {
    for (size_t done = 0; good && done < kBytes;) {
      const ssize_t n = ::write(fd, static_cast<const char*>(tensor.raw_data()) + done, kBytes - done);
      good = n > 0;
      if (good) done += static_cast<size_t>(n);
    }
  }
  if (sync) good = good && ::fsync(fd) == 0;
  return ::close(fd) == 0 && good;
}

void SetBytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * kTensors * int64_t{kBytes});
}

// New files each time, as checkpoints are.
template <typename Write>
void TimeWrites(benchmark::State& state, Write&& write) {
  Tensors();
  int i = 0;
  for (auto _ : state) {
    if (!write(StrCat(Folder(), "/written", i++))) state.SkipWithError("not written");
    state.PauseTiming();
    for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
      if (entry.path().filename().string().starts_with("written")) std::filesystem::remove(entry.path());
    }
    state.ResumeTiming();
  }
  SetBytes(state);
}

const std::string& SavedPrefix() {
  static const std::string prefix = Folder() + "/saved";
  static const bool saved = WriteBundle(Env::Posix(), prefix).ok();
  if (!saved) std::abort();
  return prefix;
}

void ReadPlain(benchmark::State& state) {
  const std::string path = BundleDataPath(SavedPrefix(), 0, 1);
  for (auto _ : state) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    std::vector<Tensor> tensors;
    for (int i = 0; i < kTensors; ++i) {
      tensors.emplace_back(DataType::kFloat, TensorShape({kElements}));
      for (size_t done = 0; done < kBytes;) {
        const ssize_t n = ::pread(fd, static_cast<char*>(tensors.back().raw_data()) + done, kBytes - done,
                                  static_cast<off_t>(static_cast<size_t>(i) * kBytes + done));
        if (n <= 0) return state.SkipWithError("not read");
        done += static_cast<size_t>(n);
      }
    }
    ::close(fd);
  }
  SetBytes(state);
}

void ReadDiscarded(benchmark::State& state) {
  const std::string path = BundleDataPath(SavedPrefix(), 0, 1);
  std::string buffer(1 << 20, 0);
  for (auto _ : state) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    for (size_t done = 0; done < kTensors * kBytes; done += buffer.size()) {
      const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(done));
      if (n != static_cast<ssize_t>(buffer.size())) return state.SkipWithError("not read");
    }
    ::close(fd);
  }
  SetBytes(state);
}

void ReadBundle(benchmark::State& state) {
  const std::string& prefix = SavedPrefix();
  ThreadPool pool("bench", static_cast<int>(state.range(0)));
  const auto parallel = [&](int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn) {
    pool.ParallelFor(total, cost_ns, fn);
  };
  for (auto _ : state) {
    const auto reader =
        BundleReader::Open(Env::Posix(), prefix, nullptr, state.range(0) > 1 ? parallel : ParallelFor());
    std::vector<Tensor> tensors;
    for (int i = 0; i < kTensors; ++i) {
      auto tensor = (*reader)->Read(StrCat("tensor", 10 + i));
      if (!tensor.ok()) return state.SkipWithError(tensor.status().ToString().c_str());
      tensors.push_back(*std::move(tensor));
    }
  }
  SetBytes(state);
}

void WritePlainUnsynced(benchmark::State& state) {
  TimeWrites(state, [](const std::string& path) { return WritePlain(path, /*sync=*/false); });
}
void WritePlainSynced(benchmark::State& state) {
  TimeWrites(state, [](const std::string& path) { return WritePlain(path, /*sync=*/true); });
}
void WriteBundleUnsynced(benchmark::State& state) {
  UnsyncedEnv env(Env::Posix());
  TimeWrites(state, [&](const std::string& path) { return WriteBundle(env, path).ok(); });
}
void WriteBundleSynced(benchmark::State& state) {
  TimeWrites(state, [](const std::string& path) { return WriteBundle(Env::Posix(), path).ok(); });
}

void Sum(benchmark::State& state) {
  const std::string bytes(256 << 10, 'x');
  for (auto _ : state) benchmark::DoNotOptimize(Crc32c(bytes));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
}

BENCHMARK(ReadPlain)->Name("checkpoint_read/plain")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(ReadDiscarded)->Name("checkpoint_read/discarded")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(ReadBundle)
    ->Name("checkpoint_read/bundle")
    ->Arg(1)
    ->Arg(2)
    ->ArgName("threads")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(WritePlainUnsynced)->Name("checkpoint_write/plain")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(WriteBundleUnsynced)->Name("checkpoint_write/bundle")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(WritePlainSynced)
    ->Name("checkpoint_write/plain_synced")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(WriteBundleSynced)
    ->Name("checkpoint_write/bundle_synced")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK(Sum)->Name("crc32c");

}  // namespace
}  // namespace millrace::io
