// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Iterators that distribute the elements of one dataset to several devices in turn.
#include <algorithm>
#include <deque>
#include <memory>

#include "data/waiting.h"
#include "kernel/resource_op.h"
#include "kernels/data/iterator_resource.h"
#include "kernels/data/register.h"
#include "kernels/data/string_handle.h"
#include "kernels/shared/args.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

// Reads a dataset; element i is for shard i modulo their number. The thread waits for a shard whose buffer is
// full.
class Distributor {
 public:
  Distributor(std::shared_ptr<SharedIterator> iterator, size_t shards, int64_t limit)
      : iterator_(std::move(iterator)), limit_(limit), num_shards_(shards), shards_(shards) {}
  Status GetNext(Context& ctx, size_t shard, Element* out, bool* end) MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (threads_.size() == 0) MR_RETURN_IF_ERROR(threads_.Start([this] { Work(); }));
    std::deque<Result>& mine = shards_[shard];
    MR_RETURN_IF_ERROR(
        Await(mu_, changed_, ctx, [&]() MR_NO_THREAD_SAFETY_ANALYSIS { return !mine.empty() || ended_; }));
    if (mine.empty()) {
      *end = true;
      return Status();
    }
    Result first = std::move(mine.front());
    mine.pop_front();
    changed_.NotifyAll();
    *out = std::move(first.element);
    return first.status;
  }

 private:
  struct Result {
    Element element;
    Status status;
  };
  void Work() MR_EXCLUDES(mu_) {
    for (size_t shard = 0;; shard = (shard + 1) % num_shards_) {
      {
        MutexLock lock(mu_);
        while (!threads_.stopping() && static_cast<int64_t>(shards_[shard].size()) >= limit_) {
          changed_.Wait(mu_);
        }
        if (threads_.stopping()) return;
      }
      Context ctx;
      ctx.runtime = &iterator_->runtime();
      ctx.cancellation = &threads_.cancellation();
      Result result;
      bool end = false;
      result.status = iterator_->GetNext(ctx, &result.element, &end);
      MutexLock lock(mu_);
      if (result.status.ok() && end) {
        ended_ = true;
        changed_.NotifyAll();
        return;
      }
      shards_[shard].push_back(std::move(result));
      changed_.NotifyAll();
    }
  }

  const std::shared_ptr<SharedIterator> iterator_;
  const int64_t limit_;
  const size_t num_shards_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::deque<Result>> shards_ MR_GUARDED_BY(mu_);
  bool ended_ MR_GUARDED_BY(mu_) = false;
  StageThreads threads_{mu_, changed_};
};

class MultiDeviceResource final : public Resource {
 public:
  MultiDeviceResource(Dataset::Signature signature, size_t shards) : signature_(std::move(signature)) {
    for (size_t i = 0; i < shards; ++i) background_.push_back(std::make_unique<Background>());
  }
  std::string DebugString() const override { return "MultiDeviceIterator"; }
  const Dataset::Signature& signature() const { return signature_; }
  size_t num_shards() const { return background_.size(); }
  // Each shard waits separately.
  Background& background(size_t shard) { return *background_[shard]; }
  // Starts again; returns the number of the start.
  int64_t Start(std::shared_ptr<SharedIterator> iterator, int64_t limit) MR_EXCLUDES(mu_) {
    auto made = std::make_shared<Distributor>(std::move(iterator), num_shards(), limit);
    std::shared_ptr<Distributor> old;  // destroyed without the lock
    MutexLock lock(mu_);
    old = std::exchange(distributor_, std::move(made));
    return ++incarnation_;
  }
  StatusOr<std::shared_ptr<Distributor>> Find(int64_t incarnation) const MR_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (distributor_ == nullptr) {
      return errors::FailedPrecondition(
          "GetNextFromShard() failed because the MultiDeviceIterator has not been "
          "initialized.");
    }
    if (incarnation == incarnation_) return distributor_;
    return errors::InvalidArgument("Invalid incarnation id. Provided: ", incarnation,
                                   "; Expected: ", incarnation_);
  }

 private:
  const Dataset::Signature signature_;
  mutable Mutex mu_;
  int64_t incarnation_ MR_GUARDED_BY(mu_) = 0;
  std::shared_ptr<Distributor> distributor_ MR_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<Background>> background_;
};

RefPtr<MultiDeviceResource> MakeResource(const OpKernel& kernel) {
  const AttrMap& attrs = kernel.props().attrs;
  Dataset::Signature signature;
  if (auto types = attrs.Get<std::vector<DataType>>("output_types"); types.ok()) signature.types = *types;
  if (auto shapes = attrs.Get<std::vector<PartialShape>>("output_shapes"); shapes.ok())
    signature.shapes = *shapes;
  const auto devices = attrs.Get<std::vector<std::string>>("devices");
  return MakeRef<MultiDeviceResource>(std::move(signature), devices.ok() ? devices->size() : 1);
}

class MultiDeviceKernel final : public ResourceOpKernel<MultiDeviceResource> {
 public:
  explicit MultiDeviceKernel(KernelConstruction& c) : ResourceOpKernel(c, Unnamed::kNodeName) {}

 protected:
  StatusOr<RefPtr<MultiDeviceResource>> Make(KernelContext& /*context*/) override {
    return MakeResource(*this);
  }
};

class AnonymousKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    static std::atomic<int64_t> next{0};
    const std::string name = StrCat("_AnonymousMultiDeviceIterator", next.fetch_add(1));
    const std::string_view container = ResourceManager::kDefaultContainer;
    MR_RETURN_IF_ERROR(context.resources().Create(container, name, MakeResource(*this)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<ResourceHandle>() = context.resources().MakeHandle<MultiDeviceResource>(container, name);
    MR_ASSIGN_OR_RETURN(Tensor * deleter, context.AllocateOutput(1, TensorShape()));
    deleter->scalar<Variant>() = VariantData("millrace::MultiDeviceIteratorDeleter", name, {});
    return Status();
  }
};

class InitKernel final : public OpKernel {
 public:
  explicit InitKernel(KernelConstruction& c)
      : OpKernel(c), functions_(c.functions()), device_name_(c.device().name()) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, DatasetFromTensor(context.input(0)));
    MR_ASSIGN_OR_RETURN(const RefPtr<MultiDeviceResource> resource,
                        FindResource<MultiDeviceResource>(context, 1));
    const Tensor& limit = context.input(2);
    if (!limit.shape().IsScalar()) return errors::InvalidArgument("max_buffer_size must be a scalar");
    MR_RETURN_IF_ERROR(CheckSignature(resource->signature(), dataset->signature()));
    MR_ASSIGN_OR_RETURN(
        auto iterator,
        SharedIterator::Make(context, RuntimeOf(context, functions_, device_name_), std::move(dataset)));
    const int64_t started =
        resource->Start(std::move(iterator), std::max<int64_t>(1, limit.scalar<int64_t>()));
    context.set_output(0, Tensor::Scalar(started));
    return Status();
  }

 private:
  FunctionCaller* const functions_;
  const std::string device_name_;
};

class GetNextFromShardKernel final : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) override {
    struct Call {
      RefPtr<MultiDeviceResource> resource;
      std::shared_ptr<Distributor> distributor;
      size_t shard = 0;
      Element element;
      bool end = false;
    };
    const auto call = std::make_shared<Call>();
    if (Status status = Find(context, &call->resource, &call->distributor, &call->shard); !status.ok())
      return done(status);
    Background& background = call->resource->background(call->shard);
    background.Run(
        context.cancellation(),
        [call](CancellationManager& cancellation) {
          Context ctx;
          ctx.cancellation = &cancellation;
          return call->distributor->GetNext(ctx, call->shard, &call->element, &call->end);
        },
        [this, &context, call, finish = std::move(done)](Status status) mutable {
          if (status.ok() && call->end) status = errors::OutOfRange("End of sequence");
          if (status.ok()) status = CheckElement({props().output_types, {}}, call->element);
          for (size_t i = 0; status.ok() && i < call->element.size(); ++i) {
            context.set_output(static_cast<int>(i), std::move(call->element[i]));
          }
          finish(status);
        });
  }

 private:
  static Status Find(KernelContext& context, RefPtr<MultiDeviceResource>* resource,
                     std::shared_ptr<Distributor>* distributor, size_t* shard) {
    MR_ASSIGN_OR_RETURN(*resource, FindResource<MultiDeviceResource>(context, 0));
    for (const int i : {1, 2}) {
      if (!context.input(i).shape().IsScalar())
        return errors::InvalidArgument("shard_num and incarnation_id must be scalars");
    }
    const int64_t wanted = IntValue(context.input(1));
    if (wanted < 0 || wanted >= static_cast<int64_t>((*resource)->num_shards())) {
      return errors::InvalidArgument("Invalid shard_num provided: ", wanted);
    }
    *shard = static_cast<size_t>(wanted);
    MR_ASSIGN_OR_RETURN(*distributor, (*resource)->Find(IntValue(context.input(2))));
    return Status();
  }
};

}  // namespace

void RegisterMultiDeviceKernels(KernelRegistry& registry) {
  registry.Register<MultiDeviceKernel>(KernelDef("MultiDeviceIterator"));
  registry.Register<AnonymousKernel>(KernelDef("AnonymousMultiDeviceIterator"));
  registry.Register<InitKernel>(KernelDef("MultiDeviceIteratorInit"));
  registry.Register<GetNextFromShardKernel>(KernelDef("MultiDeviceIteratorGetNextFromShard"));
  registry.Register<ToStringHandleKernel<MultiDeviceResource>>(
      KernelDef("MultiDeviceIteratorToStringHandle"));
  registry.Register<FromStringHandleKernel<MultiDeviceResource>>(
      KernelDef("MultiDeviceIteratorFromStringHandle"));
}

}  // namespace millrace::data
