// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// LMDBDataset: the keys and values of LMDB databases.
#include <memory>
#include <vector>

#include "base/env.h"
#include "io/lmdb_file.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

class LmdbDataset final : public Dataset {
 public:
  LmdbDataset(std::string kind, std::vector<std::string> files)
      : Dataset(std::move(kind),
                {{DataType::kString, DataType::kString}, {PartialShape({}), PartialShape({})}}),
        files_(std::move(files)) {}

 protected:
  class It final : public Iterator {
   public:
    explicit It(const LmdbDataset& dataset) : dataset_(dataset) {}
    bool MayWait(int64_t /*n*/) const override { return false; }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      std::string key, value;
      while (file_ < static_cast<int64_t>(dataset_.files_.size())) {
        if (ctx.cancelled()) return CancelledStatus();
        auto more = Read(&key, &value);
        if (more.ok() && *more) {
          *out = {Tensor::Scalar(key), Tensor::Scalar(value)};
          return Status();
        }
        // After an error the rest of the file can't be trusted.
        open_.reset();
        ++file_;
        read_ = 0;
        if (!more.ok()) return more.status();
      }
      *end = true;
      return Status();
    }
    Status Save(Context& /*ctx*/, StateWriter& state) override {
      state.Write("file", file_);
      state.Write("read", read_);
      return Status();
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      const auto files = static_cast<int64_t>(dataset_.files_.size());
      MR_ASSIGN_OR_RETURN(file_, state.Count("file", files));
      MR_ASSIGN_OR_RETURN(const int64_t read, state.Count("read"));
      open_.reset();
      std::string key, value;
      for (read_ = 0; read_ < read;) {
        if (ctx.cancelled()) return CancelledStatus();
        if (file_ == files)
          return errors::DataLoss("The saved state of the iterator is of another list of files");
        MR_ASSIGN_OR_RETURN(const bool more, Read(&key, &value));
        if (!more) return errors::DataLoss("The saved state of the iterator is of another database");
      }
      return Status();
    }

   private:
    StatusOr<bool> Read(std::string* key, std::string* value) {
      if (open_ == nullptr) {
        MR_ASSIGN_OR_RETURN(open_,
                            io::LmdbFile::Open(Env::Posix(), dataset_.files_[static_cast<size_t>(file_)]));
      }
      MR_ASSIGN_OR_RETURN(const bool more, open_->Next(key, value));
      if (more) ++read_;
      return more;
    }
    const LmdbDataset& dataset_;
    int64_t file_ = 0;
    int64_t read_ = 0;  // entries of the file
    std::unique_ptr<io::LmdbFile> open_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const std::vector<std::string> files_;
};

StatusOr<RefPtr<const Dataset>> MakeLmdb(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(const Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(std::vector<std::string> files, args.Vector<std::string>("filenames"));
  auto made = MakeRefDataset<LmdbDataset>(args.Kind(), std::move(files));
  MR_RETURN_IF_ERROR(CheckSignature(signature, made->signature()));
  return made;
}

}  // namespace

void RegisterLmdbDatasets(KernelRegistry& registry) { RegisterDataset(registry, "LMDBDataset", MakeLmdb); }

}  // namespace millrace::data
