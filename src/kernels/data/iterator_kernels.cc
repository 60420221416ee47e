// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// The ops that create, initialise, read, serialize, save and restore iterators.
#include <atomic>

#include "kernel/resource_op.h"
#include "kernels/data/iterator_resource.h"
#include "kernels/data/optional.h"
#include "kernels/data/register.h"
#include "kernels/data/string_handle.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

Dataset::Signature SignatureOf(KernelConstruction& c) {
  return {c.Attr<std::vector<DataType>>("output_types"), c.Attr<std::vector<PartialShape>>("output_shapes")};
}

class IteratorKernel final : public ResourceOpKernel<IteratorResource> {
 public:
  explicit IteratorKernel(KernelConstruction& c)
      : ResourceOpKernel(c, Unnamed::kNodeName), signature_(SignatureOf(c)) {}

 protected:
  StatusOr<RefPtr<IteratorResource>> Make(KernelContext& /*context*/) override {
    return MakeRef<IteratorResource>(signature_);
  }
  Status Verify(IteratorResource& shared) override { return CheckSignature(signature_, shared.signature()); }

 private:
  const Dataset::Signature signature_;
};

// An iterator over the dataset of a function, created with it.
class OneShotIteratorKernel final : public OpKernel {
 public:
  explicit OneShotIteratorKernel(KernelConstruction& c)
      : OpKernel(c),
        signature_(SignatureOf(c)),
        factory_(c.Attr<NameAttrList>("dataset_factory")),
        functions_(c.functions()),
        device_name_(c.device().name()),
        manager_(c.resources()) {
    auto place = NameResource(c, Unnamed::kPrivate);
    c.SetError(place.status());
    if (place.ok()) place_ = *std::move(place);
    if (functions_ == nullptr) c.SetError(errors::Internal("No function library is provided."));
  }
  ~OneShotIteratorKernel() override {
    if (place_.is_private && made_) {
      manager_.Delete<IteratorResource>(place_.container, place_.name)
          .IgnoreError("Reset may have dropped it");
    }
  }
  Status Compute(KernelContext& context) override {
    {
      MutexLock lock(mu_);
      if (!made_) MR_RETURN_IF_ERROR(Make(context));
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<ResourceHandle>() = manager_.MakeHandle<IteratorResource>(place_.container, place_.name);
    return Status();
  }

 private:
  Status Make(KernelContext& context) MR_REQUIRES(mu_) {
    if (!failed_.ok()) return failed_;
    Status status = Build(context);
    made_ = status.ok();
    // As in TensorFlow the first error is kept, except for that of a cancelled step.
    if (!context.cancellation().IsCancelled()) failed_ = status;
    return status;
  }
  Status Build(KernelContext& context) {
    MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* factory,
                        functions_->Instantiate(factory_, device_name_));
    if (!factory->arg_types().empty() || factory->ret_types() != std::vector{DataType::kVariant}) {
      return errors::InvalidArgument(
          "The `dataset_factory` function must have no parameters and return a single scalar of dtype "
          "DT_VARIANT.");
    }
    Tensor made[1];
    MR_RETURN_IF_ERROR(functions_->Call(*factory, context.step(), {}, made));
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, DatasetFromTensor(made[0]));
    MR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator,
                        manager_.LookupOrCreate<IteratorResource>(
                            place_.container, place_.name, [&]() -> StatusOr<RefPtr<IteratorResource>> {
                              return MakeRef<IteratorResource>(signature_);
                            }));
    MR_RETURN_IF_ERROR(CheckSignature(signature_, iterator->signature()));
    if (iterator->iterator() != nullptr) return Status();  // shared with another node
    return iterator->SetDataset(context, RuntimeOf(context, functions_, device_name_), std::move(dataset));
  }

  const Dataset::Signature signature_;
  const NameAttrList factory_;
  FunctionCaller* const functions_;
  const std::string device_name_;
  ResourceManager& manager_;
  ResourceName place_;
  Mutex mu_;
  bool made_ MR_GUARDED_BY(mu_) = false;
  Status failed_ MR_GUARDED_BY(mu_);
};

// Creates a new iterator in each run. The second output represents it for DeleteIterator.
class AnonymousIteratorKernel final : public OpKernel {
 public:
  explicit AnonymousIteratorKernel(KernelConstruction& c) : OpKernel(c), signature_(SignatureOf(c)) {}
  Status Compute(KernelContext& context) override {
    static std::atomic<int64_t> next{0};
    const std::string name = StrCat("_AnonymousIterator", next.fetch_add(1));
    const std::string_view container = ResourceManager::kDefaultContainer;
    MR_RETURN_IF_ERROR(context.resources().Create(container, name, MakeRef<IteratorResource>(signature_)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<ResourceHandle>() = context.resources().MakeHandle<IteratorResource>(container, name);
    if (num_outputs() > 1) {
      MR_ASSIGN_OR_RETURN(Tensor * deleter, context.AllocateOutput(1, TensorShape()));
      deleter->scalar<Variant>() = VariantData("millrace::IteratorDeleter", name, {});
    }
    return Status();
  }

 private:
  const Dataset::Signature signature_;
};

// Deletes the resource of the first input.
class DeleteKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& handle = context.input(0);
    if (handle.dtype() != DataType::kResource || handle.num_elements() != 1) return BadHandle(context, 0);
    return context.resources().DeleteHandle(handle.scalar<ResourceHandle>());
  }
};

class MakeIteratorKernel final : public OpKernel {
 public:
  explicit MakeIteratorKernel(KernelConstruction& c)
      : OpKernel(c), functions_(c.functions()), device_name_(c.device().name()) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, DatasetFromTensor(context.input(0)));
    MR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator, FindResource<IteratorResource>(context, 1));
    return iterator->SetDataset(context, RuntimeOf(context, functions_, device_name_), std::move(dataset));
  }

 private:
  FunctionCaller* const functions_;
  const std::string device_name_;
};

enum class Give { kComponents, kOptional };

class GetNextKernel final : public AsyncOpKernel {
 public:
  GetNextKernel(KernelConstruction& c, Give give)
      : AsyncOpKernel(c), give_(give), types_(c.Attr<std::vector<DataType>>("output_types")) {}
  bool tries() const override { return true; }
  bool TryCompute(KernelContext& context, Status& status) override {
    RefPtr<IteratorResource> resource;
    std::shared_ptr<SharedIterator> iterator;
    status = Find(context, &resource, &iterator);
    if (!status.ok()) return true;
    Context ctx = ContextOf(context, iterator->runtime());
    Element element;
    bool end = false;
    if (!iterator->TryGetNext(ctx, &element, &end, &status)) return false;
    if (status.ok()) status = Deliver(context, &element, end);
    return true;
  }
  void ComputeAsync(KernelContext& context, Done done) override {
    struct Call {
      Element element;
      bool end = false;
    };
    RefPtr<IteratorResource> resource;
    std::shared_ptr<SharedIterator> iterator;
    if (Status status = Find(context, &resource, &iterator); !status.ok()) return done(status);
    const auto call = std::make_shared<Call>();
    Background& background = resource->background();
    background.Run(
        context.cancellation(),
        [&context, iterator, call](CancellationManager& cancellation) {
          Context ctx = ContextOf(context, iterator->runtime());
          ctx.cancellation = &cancellation;
          return iterator->GetNext(ctx, &call->element, &call->end);
        },
        [this, &context, call, finish = std::move(done)](const Status& status) mutable {
          finish(status.ok() ? Deliver(context, &call->element, call->end) : status);
        });
  }

 private:
  static Status Find(KernelContext& context, RefPtr<IteratorResource>* resource,
                     std::shared_ptr<SharedIterator>* iterator) {
    MR_ASSIGN_OR_RETURN(*resource, FindResource<IteratorResource>(context, 0));
    *iterator = (*resource)->iterator();
    if (*iterator != nullptr) return Status();
    return errors::FailedPrecondition(
        "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
        "initializer operation for this iterator before getting the next element.");
  }
  Status Deliver(KernelContext& context, Element* element, bool end) const {
    if (give_ == Give::kOptional) {
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
      if (end) {
        out->scalar<Variant>() = OptionalVariant();
        return Status();
      }
      MR_RETURN_IF_ERROR(CheckElement({types_, {}}, *element));
      out->scalar<Variant>() = OptionalVariant(std::move(*element));
      return Status();
    }
    if (end) return errors::OutOfRange("End of sequence");
    MR_RETURN_IF_ERROR(CheckElement({types_, {}}, *element));
    for (size_t i = 0; i < element->size(); ++i) {
      context.set_output(static_cast<int>(i), std::move((*element)[i]));
    }
    return Status();
  }

  const Give give_;
  const std::vector<DataType> types_;
};

class GetDeviceKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(FindResource<IteratorResource>(context, 0).status());
    context.set_output(0, Tensor::Scalar(context.resources().device_name()));
    return Status();
  }
};

StatusOr<RefPtr<IteratorResource>> Initialised(KernelContext& context, const char* what) {
  MR_ASSIGN_OR_RETURN(RefPtr<IteratorResource> resource, FindResource<IteratorResource>(context, 0));
  if (resource->iterator() != nullptr) return resource;
  return errors::FailedPrecondition(
      what,
      "() failed because the iterator has not been initialized. Ensure that you "
      "have run the initializer operation for this iterator before ",
      std::string_view(what) == "Save" ? "saving it." : "restoring it.");
}

// Saving waits until the stages have finished their current work.
class SaveKernel final : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) override {
    auto resource = Initialised(context, "Save");
    if (!resource.ok()) return done(resource.status());
    const auto state = std::make_shared<IteratorState>();
    (*resource)->background().Run(
        context.cancellation(),
        [&context, iterator = (*resource)->iterator(), state](CancellationManager& cancellation) {
          Context ctx = ContextOf(context, iterator->runtime());
          ctx.cancellation = &cancellation;
          return iterator->Save(ctx, state.get());
        },
        [&context, state, finish = std::move(done)](Status status) mutable {
          if (status.ok()) {
            auto out = context.AllocateOutput(0, TensorShape());
            status = out.status();
            if (status.ok()) (*out)->scalar<Variant>() = std::move(*state);
          }
          finish(status);
        });
  }
};

class RestoreKernel final : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  void ComputeAsync(KernelContext& context, Done done) override {
    const Tensor& serialized = context.input(1);
    const IteratorState* state = nullptr;
    if (serialized.num_elements() == 1) state = serialized.data<Variant>()[0].get<IteratorState>();
    if (state == nullptr) {
      return done(errors::InvalidArgument("The tensor to restore an iterator from holds no saved iterator"));
    }
    auto resource = Initialised(context, "Restore");
    if (!resource.ok()) return done(resource.status());
    (*resource)->background().Run(
        context.cancellation(),
        [&context, state, iterator = (*resource)->iterator()](CancellationManager& cancellation) {
          Context ctx = ContextOf(context, iterator->runtime());
          ctx.cancellation = &cancellation;
          return iterator->Restore(ctx, *state);
        },
        [finish = std::move(done)](const Status& status) mutable { finish(status); });
  }
};

}  // namespace

void RegisterIteratorKernels(KernelRegistry& registry) {
  for (const char* op : {"Iterator", "IteratorV2"}) registry.Register<IteratorKernel>(KernelDef(op));
  for (const char* op : {"AnonymousIterator", "AnonymousIteratorV2"})
    registry.Register<AnonymousIteratorKernel>(KernelDef(op));
  for (const char* op : {"DeleteIterator", "DeleteMemoryCache", "DeleteRandomSeedGenerator"})
    registry.Register<DeleteKernel>(KernelDef(op));
  registry.Register<DeleteKernel>(KernelDef("DeleteMultiDeviceIterator"));
  registry.Register<OneShotIteratorKernel>(KernelDef("OneShotIterator"));
  registry.Register<MakeIteratorKernel>(KernelDef("MakeIterator"));
  for (const char* op : {"IteratorGetNext", "IteratorGetNextSync"}) {
    registry.Register(KernelDef(op).Async(), [](KernelConstruction& c) {
      return std::make_unique<GetNextKernel>(c, Give::kComponents);
    });
  }
  registry.Register(KernelDef("IteratorGetNextAsOptional").Async(), [](KernelConstruction& c) {
    return std::make_unique<GetNextKernel>(c, Give::kOptional);
  });
  for (const char* op : {"IteratorGetDevice", "ExperimentalIteratorGetDevice"})
    registry.Register<GetDeviceKernel>(KernelDef(op));
  registry.Register<ToStringHandleKernel<IteratorResource>>(KernelDef("IteratorToStringHandle"));
  for (const char* op : {"IteratorFromStringHandle", "IteratorFromStringHandleV2"})
    registry.Register<FromStringHandleKernel<IteratorResource>>(KernelDef(op));
  registry.Register<SaveKernel>(KernelDef("SerializeIterator"));
  registry.Register<RestoreKernel>(KernelDef("DeserializeIterator"));
  RegisterVariantType<IteratorState>().IgnoreError("registered before");
}

}  // namespace millrace::data
