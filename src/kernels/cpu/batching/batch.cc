// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batches of several steps: as one tensor that one of the steps gets (Batch), or as one call of a function
// (BatchFunction).
#include <string>
#include <utility>
#include <vector>

#include "kernel/resource_op.h"
#include "kernels/cpu/batching/batcher.h"
#include "kernels/cpu/batching/join.h"
#include "kernels/cpu/functional/functional.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

Batcher::Options OptionsOf(KernelConstruction& c) {
  Batcher::Options options{.num_threads = c.Attr<int64_t>("num_batch_threads"),
                           .max_batch_size = c.Attr<int64_t>("max_batch_size"),
                           .timeout_micros = c.Attr<int64_t>("batch_timeout_micros"),
                           .max_enqueued_batches = c.Attr<int64_t>("max_enqueued_batches"),
                           .allowed_sizes = c.Attr<std::vector<int64_t>>("allowed_batch_sizes")};
  c.SetError(Batcher::Check(options));
  return options;
}

// The number of rows, which is the same in the first `n` inputs.
StatusOr<int64_t> RowsOf(const KernelContext& context, int n) {
  int64_t rows = 0;
  for (int i = 0; i < n; ++i) {
    const TensorShape& shape = context.input(i).shape();
    if (shape.IsScalar()) {
      return errors::InvalidArgument("Batching input tensors must have at least one dimension");
    }
    if (i > 0 && shape.dim(0) != rows) {
      return errors::InvalidArgument(
          "Batching input tensors supplied in a given op invocation must have equal 0th-dimension size");
    }
    rows = shape.dim(0);
  }
  return rows;
}

// Concatenates input i of all tasks, padded to an allowed size.
StatusOr<Tensor> JoinInputs(std::span<const BatchTask> tasks, int i, int64_t padding) {
  std::vector<const Tensor*> parts;
  for (const BatchTask& task : tasks) parts.push_back(&task.context->input(i));
  return JoinRows(*tasks[0].context, parts, padding);
}

int64_t RowsIn(std::span<const BatchTask> tasks) {
  int64_t rows = 0;
  for (const BatchTask& task : tasks) rows += task.rows;
  return rows;
}

void EndAll(std::vector<BatchTask>& tasks, const Status& status) {
  for (BatchTask& task : tasks) task.done(status);
}

// The common part of both ops: the check of the inputs, and the submission to the batcher.
class BatchingKernel : public AsyncOpKernel {
 public:
  BatchingKernel(KernelConstruction& c, int batched_inputs)
      : AsyncOpKernel(c),
        options_(OptionsOf(c)),
        queue_(c.Attr<std::string>("batching_queue")),
        batched_inputs_(batched_inputs) {
    auto place = NameResource(c, Unnamed::kNodeName);
    c.SetError(place.status());
    if (place.ok()) place_ = *std::move(place);
  }
  void ComputeAsync(KernelContext& context, Done done) final {
    BatchTask task{.context = &context, .rows = 0, .done = std::move(done)};
    RefPtr<Batcher> batcher;
    const Status status = Submit(task, &batcher);
    // After a success the task belongs to another thread.
    if (!status.ok()) task.done(status);
  }

 protected:
  virtual StatusOr<RefPtr<Batcher>> FindBatcher(KernelContext& context) = 0;
  const Batcher::Options& options() const { return options_; }
  const ResourceName& place() const { return place_; }
  int batched_inputs() const { return batched_inputs_; }

 private:
  Status Submit(BatchTask& task, RefPtr<Batcher>* batcher) {
    MR_ASSIGN_OR_RETURN(task.rows, RowsOf(*task.context, batched_inputs_));
    MR_ASSIGN_OR_RETURN(*batcher, FindBatcher(*task.context));
    return (*batcher)->Submit(queue_, task);
  }

  const Batcher::Options options_;
  const std::string queue_;
  const int batched_inputs_;
  ResourceName place_;
};

// Outputs: the joined inputs, the index of the rows of each task, the id of this task. All but the first task
// get no rows.
class BatchKernel final : public BatchingKernel {
 public:
  explicit BatchKernel(KernelConstruction& c)
      : BatchingKernel(c, static_cast<int>(c.props()->input_types.size())) {}

 protected:
  StatusOr<RefPtr<Batcher>> FindBatcher(KernelContext& context) override {
    return context.resources().LookupOrCreate<Batcher>(
        place().container, place().name, [&]() -> StatusOr<RefPtr<Batcher>> {
          const auto run = [sizes = options().allowed_sizes](std::vector<BatchTask>& tasks) {
            EndAll(tasks, Emit(sizes, tasks));
          };
          return MakeRef<Batcher>(options(), run, nullptr);
        });
  }

 private:
  static Status Emit(const std::vector<int64_t>& sizes, std::span<const BatchTask> tasks) {
    const int64_t rows = RowsIn(tasks);
    KernelContext& first = *tasks[0].context;
    const int inputs = first.num_inputs();
    for (const BatchTask& task : tasks) {
      if (task.context->num_inputs() != inputs) {
        return errors::InvalidArgument("Nodes that share a batch have ", inputs, " and ",
                                       task.context->num_inputs(), " inputs");
      }
      for (int i = 0; i < inputs; ++i) {
        if (task.context->input(i).dtype() != first.input(i).dtype()) {
          return errors::InvalidArgument("Nodes that share a batch have inputs of different types");
        }
      }
    }
    for (int i = 0; i < inputs; ++i) {
      MR_ASSIGN_OR_RETURN(Tensor joined, JoinInputs(tasks, i, PaddedSize(sizes, rows) - rows));
      first.set_output(i, std::move(joined));
    }
    MR_ASSIGN_OR_RETURN(Tensor * index,
                        first.AllocateOutput(inputs, TensorShape({static_cast<int64_t>(tasks.size()), 3})));
    int64_t begin = 0;
    int64_t* entry = index->data<int64_t>();
    for (const BatchTask& task : tasks) {
      *entry++ = task.id;
      *entry++ = begin;
      *entry++ = begin += task.rows;
      if (&task != tasks.data()) MR_RETURN_IF_ERROR(EmitNothing(*task.context));
      MR_ASSIGN_OR_RETURN(Tensor * id, task.context->AllocateOutput(inputs + 1, TensorShape()));
      id->scalar<int64_t>() = task.id;
    }
    return Status();
  }
  static Status EmitNothing(KernelContext& context) {
    for (int i = 0; i < context.num_inputs(); ++i) {
      TensorShape shape = context.input(i).shape();
      shape.SetDim(0, 0);
      MR_RETURN_IF_ERROR(context.AllocateOutput(i, shape).status());
    }
    return context.AllocateOutput(context.num_inputs(), TensorShape({0, 3})).status();
  }
};

// Calls a function on the joined inputs and returns to each task its rows of the results. The captured inputs
// of the function are those of the last task, and the call belongs to its step.
class BatchFunctionKernel final : public BatchingKernel {
 public:
  explicit BatchFunctionKernel(KernelConstruction& c)
      : BatchingKernel(c, static_cast<int>(c.Attr<std::vector<DataType>>("Tin").size())),
        caller_(c.functions()),
        function_(c, c.Attr<NameAttrList>("f")) {}

 protected:
  StatusOr<RefPtr<Batcher>> FindBatcher(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const FunctionCaller::Function* function,
                        function_.Get(props().input_types, props().output_types));
    // Different functions have different queues, whatever the name of the node.
    const std::string name = StrCat(place().name, "/", reinterpret_cast<uintptr_t>(caller_), "/",
                                    reinterpret_cast<uintptr_t>(function));
    return context.resources().LookupOrCreate<Batcher>(
        place().container, name, [&]() -> StatusOr<RefPtr<Batcher>> {
          const Call call{caller_, function, batched_inputs(), options().allowed_sizes};
          const auto run = [call](std::vector<BatchTask>& tasks) { EndAll(tasks, call.Run(tasks)); };
          return MakeRef<Batcher>(options(), run, caller_);
        });
  }

 private:
  struct Call {
    FunctionCaller* caller;
    const FunctionCaller::Function* function;
    int batched_inputs;
    std::vector<int64_t> allowed_sizes;

    Status Run(std::span<const BatchTask> tasks) const {
      const int64_t rows = RowsIn(tasks);
      const int64_t padded = PaddedSize(allowed_sizes, rows);
      KernelContext& last = *tasks.back().context;
      std::vector<Tensor> joined(static_cast<size_t>(batched_inputs));
      ArgPointers args;
      for (int i = 0; i < last.num_inputs(); ++i) {
        if (i >= batched_inputs) {
          args.push_back(&last.input(i));
          continue;
        }
        Tensor& in = joined[static_cast<size_t>(i)];
        MR_ASSIGN_OR_RETURN(in, JoinInputs(tasks, i, padded - rows));
        args.push_back(&in);
      }
      std::vector<Tensor> results(function->ret_types().size());
      MR_RETURN_IF_ERROR(caller->Call(*function, last.step(), args, results));
      return Split(tasks, padded, results);
    }

    static Status Split(std::span<const BatchTask> tasks, int64_t padded,
                        const std::vector<Tensor>& results) {
      for (const Tensor& result : results) {
        if (result.rank() == 0) {
          return errors::FailedPrecondition("Batched output tensor has 0 dimensions");
        }
        if (result.dim(0) != padded) {
          return errors::FailedPrecondition(
              "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of "
              "the input tensors");
        }
      }
      int64_t begin = 0;
      for (const BatchTask& task : tasks) {
        for (size_t i = 0; i < results.size(); ++i) {
          task.context->set_output(static_cast<int>(i), results[i].Slice(begin, begin + task.rows));
        }
        begin += task.rows;
      }
      return Status();
    }
  };

  FunctionCaller* const caller_;
  const BoundFunction function_;
};

}  // namespace

void RegisterBatchKernels(KernelRegistry& registry) {
  registry.Register<BatchKernel>(KernelDef("Batch"));
  registry.Register<BatchFunctionKernel>(KernelDef("BatchFunction"));
}

}  // namespace millrace
