// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Ops that read a whole dataset, or return properties of it.
#include <memory>

#include "base/env.h"
#include "io/record_file.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/iterator_resource.h"
#include "kernels/data/register.h"

namespace millrace::data {
namespace {

// Reads a dataset from its start on a thread of the kernel.
class ConsumingKernel : public AsyncOpKernel {
 public:
  explicit ConsumingKernel(KernelConstruction& c)
      : AsyncOpKernel(c), functions_(c.functions()), device_name_(c.device().name()) {
    c.SetError(InferArgRanges(c.props()->op->def.inputs, c.attrs(), &ranges_));
  }
  void ComputeAsync(KernelContext& context, Done done) override {
    struct Reading {
      Runtime runtime;
      RefPtr<const Dataset> dataset;
    };
    auto dataset = DatasetFromTensor(context.input(0));
    if (!dataset.ok()) return done(dataset.status());
    const auto reading =
        std::make_shared<Reading>(Reading{RuntimeOf(context, functions_, device_name_), *std::move(dataset)});
    background_.Run(
        context.cancellation(),
        [this, &context, reading](CancellationManager& cancellation) -> Status {
          Context ctx = ContextOf(context, reading->runtime);
          ctx.cancellation = &cancellation;
          MR_ASSIGN_OR_RETURN(std::unique_ptr<Iterator> iterator, reading->dataset->NewIterator(ctx));
          return Consume(context, ctx, *reading->dataset, *iterator);
        },
        [finish = std::move(done)](const Status& status) mutable { finish(status); });
  }

 protected:
  virtual Status Consume(KernelContext& context, Context& ctx, const Dataset& dataset,
                         Iterator& iterator) = 0;
  NodeArgs Args(KernelContext& context) const { return NodeArgs(context, ranges_); }

 private:
  FunctionCaller* const functions_;
  const std::string device_name_;
  std::vector<ArgRange> ranges_;
  Background background_;
};

// Folds the elements into a state.
class ReduceKernel final : public ConsumingKernel {
 public:
  using ConsumingKernel::ConsumingKernel;

 protected:
  Status Consume(KernelContext& context, Context& ctx, const Dataset& dataset, Iterator& iterator) override {
    const NodeArgs args = Args(context);
    MR_ASSIGN_OR_RETURN(Element state, args.Values("initial_state"));
    MR_ASSIGN_OR_RETURN(const auto f, args.Function("f"));
    std::vector<DataType> types, results;
    for (const Tensor& t : state) types.push_back(t.dtype());
    results = types;
    types.insert(types.end(), dataset.types().begin(), dataset.types().end());
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<Callable> callable, f->Bind(ctx, types, &results));
    while (true) {
      if (ctx.cancelled()) return CancelledStatus();
      Element element, next;
      bool end = false;
      MR_RETURN_IF_ERROR(iterator.GetNext(ctx, &element, &end));
      if (end) break;
      const Status status = callable->Call(ctx, state, element, &next);
      if (errors::IsOutOfRange(status)) break;  // `f` may end it early
      MR_RETURN_IF_ERROR(status);
      state = std::move(next);
    }
    MR_ASSIGN_OR_RETURN(const Dataset::Signature signature, args.Signature());
    MR_RETURN_IF_ERROR(CheckElement(signature, state));
    for (size_t i = 0; i < state.size(); ++i) context.set_output(static_cast<int>(i), std::move(state[i]));
    return Status();
  }
};

class SingleElementKernel final : public ConsumingKernel {
 public:
  using ConsumingKernel::ConsumingKernel;

 protected:
  Status Consume(KernelContext& context, Context& ctx, const Dataset& /*dataset*/,
                 Iterator& iterator) override {
    Element element, second;
    bool end = false;
    MR_RETURN_IF_ERROR(iterator.GetNext(ctx, &element, &end));
    if (end) return errors::InvalidArgument("Dataset was empty.");
    MR_RETURN_IF_ERROR(iterator.GetNext(ctx, &second, &end));
    if (!end) return errors::InvalidArgument("Dataset had more than one element.");
    MR_ASSIGN_OR_RETURN(const Dataset::Signature signature, Args(context).Signature());
    MR_RETURN_IF_ERROR(CheckElement(signature, element));
    for (size_t i = 0; i < element.size(); ++i) {
      context.set_output(static_cast<int>(i), std::move(element[i]));
    }
    return Status();
  }
};

class ToRecordFileKernel final : public ConsumingKernel {
 public:
  using ConsumingKernel::ConsumingKernel;

 protected:
  Status Consume(KernelContext& context, Context& ctx, const Dataset& dataset, Iterator& iterator) override {
    const NodeArgs args = Args(context);
    MR_ASSIGN_OR_RETURN(const std::string filename, args.Scalar<std::string>("filename"));
    MR_ASSIGN_OR_RETURN(const std::string name, args.Scalar<std::string>("compression_type"));
    MR_ASSIGN_OR_RETURN(const io::Compression compression, io::ParseCompression(name));
    if (dataset.types() != std::vector{DataType::kString}) {
      return errors::InvalidArgument(
          "DatasetToTFRecordOp expects a dataset of a single scalar DT_STRING component.");
    }
    MR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, Env::Posix().NewWritableFile(filename));
    io::RecordWriter writer(*file, compression);
    while (true) {
      if (ctx.cancelled()) return CancelledStatus();
      Element element;
      bool end = false;
      MR_RETURN_IF_ERROR(iterator.GetNext(ctx, &element, &end));
      if (end) break;
      if (element.size() != 1 || element[0].dtype() != DataType::kString || element[0].num_elements() != 1) {
        return errors::InvalidArgument("A record is one text, not a tensor of shape ", element[0].shape());
      }
      MR_RETURN_IF_ERROR(writer.Write(element[0].scalar<std::string>()));
    }
    MR_RETURN_IF_ERROR(writer.Close());
    return file->Close();
  }
};

class CardinalityKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const RefPtr<const Dataset> dataset, DatasetFromTensor(context.input(0)));
    context.set_output(0, Tensor::Scalar(dataset->Cardinality()));
    return Status();
  }
};

}  // namespace

void RegisterConsumingKernels(KernelRegistry& registry) {
  registry.Register<ReduceKernel>(KernelDef("ReduceDataset"));
  registry.Register<SingleElementKernel>(KernelDef("DatasetToSingleElement"));
  for (const char* op : {"DatasetToTFRecord", "ExperimentalDatasetToTFRecord"})
    registry.Register<ToRecordFileKernel>(KernelDef(op));
  for (const char* op : {"DatasetCardinality", "ExperimentalDatasetCardinality"})
    registry.Register<CardinalityKernel>(KernelDef(op));
}

}  // namespace millrace::data
