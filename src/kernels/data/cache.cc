// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that cache all elements, in memory or in a file, when they are first read completely.
#include <atomic>
#include <cstdio>
#include <memory>

#include "base/env.h"
#include "base/strings.h"
#include "io/checkpoint/bundle.h"
#include "kernel/resource.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

using Elements = std::vector<Element>;

// The state that all iterators of a dataset share. Thread-safe.
class MemoryCache final : public Resource {
 public:
  std::string DebugString() const override { return "MemoryCache"; }
  // Null: not complete.
  std::shared_ptr<const Elements> Get() const {
    MutexLock lock(mu_);
    return elements_;
  }
  void Complete(std::shared_ptr<const Elements> elements) {
    MutexLock lock(mu_);
    if (elements_ == nullptr) elements_ = std::move(elements);
  }

 private:
  mutable Mutex mu_;
  std::shared_ptr<const Elements> elements_ MR_GUARDED_BY(mu_);
};

class MemoryCacheDataset final : public UnaryDataset {
 public:
  MemoryCacheDataset(std::string kind, Signature signature, RefPtr<const Dataset> input,
                     RefPtr<MemoryCache> cache)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), cache_(std::move(cache)) {}

 protected:
  class It final : public UnaryIterator<MemoryCacheDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    bool MayWait(int64_t n) const override {
      return cached_ == nullptr && dataset_.cache_->Get() == nullptr && UnaryIterator::MayWait(n);
    }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (cached_ == nullptr && next_ == 0) cached_ = dataset_.cache_->Get();
      if (cached_ != nullptr) {
        input_.reset();
        *end = next_ >= cached_->size();
        if (!*end) *out = (*cached_)[next_++];
        return Status();
      }
      MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
      if (!*end) {
        read_.push_back(*out);
        ++next_;
        return Status();
      }
      cached_ = std::make_shared<const Elements>(std::move(read_));
      next_ = cached_->size();
      dataset_.cache_->Complete(cached_);
      return Status();
    }
    // The elements are part of the state: the cache of a later process is empty.
    Status Save(Context& ctx, StateWriter& state) override {
      const Elements& elements = cached_ != nullptr ? *cached_ : read_;
      state.Write("complete", int64_t{cached_ != nullptr});
      state.Write("next", static_cast<int64_t>(next_));
      state.Write("size", static_cast<int64_t>(elements.size()));
      for (size_t i = 0; i < elements.size(); ++i) state.WriteElement(StrCat("element", i), elements[i]);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t complete, state.Count("complete", 1));
      MR_ASSIGN_OR_RETURN(const int64_t size, state.Count("size"));
      MR_ASSIGN_OR_RETURN(const int64_t next, state.Count("next", size));
      next_ = static_cast<size_t>(next);
      read_.clear();
      for (int64_t i = 0; i < size; ++i) {
        MR_ASSIGN_OR_RETURN(Element element, state.ReadElement(StrCat("element", i)));
        read_.push_back(std::move(element));
      }
      cached_ = nullptr;
      if (complete != 0) {
        cached_ = std::make_shared<const Elements>(std::move(read_));
        dataset_.cache_->Complete(cached_);
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    std::shared_ptr<const Elements> cached_;  // null: the input is being read
    Elements read_;
    size_t next_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const RefPtr<MemoryCache> cache_;
};

// The key of component c of element i in the checkpoint: "<i>_<c>" with as many digits as in TensorFlow.
std::string KeyOf(int64_t element, size_t component) {
  char key[64];
  std::snprintf(key, sizeof key, "%05lld_%06zu", static_cast<long long>(element), component);
  return key;
}

class FileCacheDataset final : public UnaryDataset {
 public:
  FileCacheDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, std::string prefix)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), prefix_(std::move(prefix)) {}

 protected:
  bool Complete() const { return Env::Posix().FileExists(prefix_ + ".index"); }

  class It final : public UnaryIterator<FileCacheDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    ~It() override {
      if (writer_ != nullptr) Unlock();
    }
    bool MayWait(int64_t n) const override { return reader_ == nullptr && UnaryIterator::MayWait(n); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (reader_ == nullptr && writer_ == nullptr && !ended_) MR_RETURN_IF_ERROR(Begin());
      if (ended_) {
        *end = true;
        return Status();
      }
      return reader_ != nullptr ? Read(out, end) : Write(ctx, out, end);
    }
    // A restored writer reads the elements again from the input and writes them.
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("next", next_);
      state.Write("ended", int64_t{ended_});
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t next, state.Count("next"));
      MR_ASSIGN_OR_RETURN(const int64_t ended, state.Count("ended", 1));
      next_ = 0;
      MR_RETURN_IF_ERROR(Begin());
      if (reader_ != nullptr) {
        next_ = next;
      } else {
        Element element;
        for (bool end = false; next_ < next && !end;) MR_RETURN_IF_ERROR(Write(ctx, &element, &end));
      }
      ended_ = ended != 0;
      return Status();
    }

   private:
    std::string LockFile() const { return dataset_.prefix_ + "_0.lockfile"; }
    void Unlock() {
      Env::Posix()
          .DeleteFile(LockFile())
          .IgnoreError("the next writer of the cache reports that the file exists");
    }

    Status Begin() {
      Env& env = Env::Posix();
      if (dataset_.Complete()) {
        MR_ASSIGN_OR_RETURN(reader_, io::BundleReader::Open(env, dataset_.prefix_));
        input_.reset();
        return Status();
      }
      if (env.FileExists(LockFile())) {
        const auto contents = ReadFileToString(env, LockFile());
        return errors::AlreadyExists(
            "There appears to be a concurrent caching iterator running - cache lockfile already exists ('",
            LockFile(),
            "'). If you are sure no other running TF computations are using this cache prefix, delete the "
            "lockfile and re-initialize the iterator. Lockfile contents: ",
            contents.ok() ? *contents : "");
      }
      MR_RETURN_IF_ERROR(WriteFileAtomically(env, LockFile(), "Being written"));
      auto writer = io::BundleWriter::Open(env, dataset_.prefix_);
      if (!writer.ok()) Unlock();
      MR_RETURN_IF_ERROR(writer.status());
      writer_ = *std::move(writer);
      return Status();
    }

    Status Write(Context& ctx, Element* out, bool* end) {
      MR_RETURN_IF_ERROR(NextInput(ctx, out, end));
      if (*end) {
        Status status = writer_->Finish();
        writer_.reset();
        Unlock();
        ended_ = true;
        return status;
      }
      for (size_t c = 0; c < out->size(); ++c) MR_RETURN_IF_ERROR(writer_->Add(KeyOf(next_, c), (*out)[c]));
      ++next_;
      return Status();
    }

    Status Read(Element* out, bool* end) {
      MR_ASSIGN_OR_RETURN(const bool more, reader_->Has(KeyOf(next_, 0)));
      if (!more) {
        ended_ = *end = true;
        return Status();
      }
      Element element;
      for (size_t c = 0; c < dataset_.types().size(); ++c) {
        MR_ASSIGN_OR_RETURN(Tensor value, reader_->Read(KeyOf(next_, c)));
        element.push_back(std::move(value));
      }
      MR_RETURN_IF_ERROR(CheckElement({dataset_.types(), {}}, element));
      *out = std::move(element);
      ++next_;
      return Status();
    }

    std::unique_ptr<io::BundleReader> reader_;  // one of the two is set, from the first element on
    std::unique_ptr<io::BundleWriter> writer_;
    int64_t next_ = 0;
    bool ended_ = false;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const std::string prefix_;
};

StatusOr<RefPtr<const Dataset>> MakeCache(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(std::string filename, args.Scalar<std::string>("filename"));
  if (!filename.empty()) {
    return MakeRefDataset<FileCacheDataset>(args.Kind(), std::move(signature), std::move(input),
                                            std::move(filename));
  }
  RefPtr<MemoryCache> cache;
  if (args.op() == "CacheDatasetV2") {
    MR_ASSIGN_OR_RETURN(const ResourceHandle handle, args.Scalar<ResourceHandle>("cache"));
    MR_ASSIGN_OR_RETURN(cache, args.context().resources().LookupHandle<MemoryCache>(handle));
  } else {
    cache = MakeRef<MemoryCache>();
  }
  return MakeRefDataset<MemoryCacheDataset>(args.Kind(), std::move(signature), std::move(input),
                                            std::move(cache));
}

// Creates a new cache in each run.
class MemoryCacheKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    static std::atomic<int64_t> next{0};
    const std::string name = StrCat("_AnonymousMemoryCache", next.fetch_add(1));
    const std::string_view container = ResourceManager::kDefaultContainer;
    MR_RETURN_IF_ERROR(context.resources().Create(container, name, MakeRef<MemoryCache>()));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<ResourceHandle>() = context.resources().MakeHandle<MemoryCache>(container, name);
    MR_ASSIGN_OR_RETURN(Tensor * deleter, context.AllocateOutput(1, TensorShape()));
    deleter->scalar<Variant>() = VariantData("millrace::MemoryCacheDeleter", name, {});
    return Status();
  }
};

}  // namespace

void RegisterCacheDatasets(KernelRegistry& registry) {
  for (const char* op : {"CacheDataset", "CacheDatasetV2"}) RegisterDataset(registry, op, MakeCache);
  registry.Register<MemoryCacheKernel>(KernelDef("AnonymousMemoryCache"));
}

}  // namespace millrace::data
