// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/control_flow.h"
#include "millrace/ops.h"
#include "training/formula.h"
#include "training/queue_input.h"

namespace millrace {
namespace {

// The kind and the name of a stage's queue.
struct QueueKind {
  const char* op;
  const char* name;
  OpAttrs attrs = {};
};

QueueKind FifoKind(bool dynamic_pad) {
  if (dynamic_pad) return {.op = "PaddingFIFOQueueV2", .name = "padding_fifo_queue"};
  return {.op = "FIFOQueueV2", .name = "fifo_queue"};
}

StageQueue MakeQueue(const Scope& scope, const QueueKind& kind, const ElementSpec& spec, int64_t capacity,
                     const std::string& shared_name) {
  OpAttrs attrs = kind.attrs;
  attrs.Set("component_types", spec.types);
  attrs.Set("shapes", spec.shapes);
  attrs.Set("capacity", capacity);
  attrs.Set("shared_name", shared_name);
  OpMaker maker(scope.WithOpName(kind.name), kind.op, attrs);
  maker.Finish();
  return {.handle = maker.output(0), .types = spec.types};
}

// The examples to be kept, along dimension 0.
std::vector<Output> Select(const Scope& scope, const std::vector<Output>& tensors, const Output& keep) {
  const Output which = CastTo(scope, keep, DataType::kInt32);
  std::vector<Output> kept;
  for (const Output& tensor : tensors) {
    const ops::DynamicPartition parts(scope, tensor, which, 2);
    if (!scope.ok()) return {};
    kept.push_back(parts[1]);
  }
  return kept;
}

Status CheckNumThreads(const BatchOptions& options) {
  constexpr int kMost = 1 << 16;  // as of a session
  if (options.num_threads < 1) return errors::InvalidArgument("num_threads must be at least 1");
  if (options.num_threads <= kMost) return Status();
  return errors::InvalidArgument("num_threads must be at most ", kMost, ", got ", options.num_threads);
}

// The common part of all kinds of batches.
class Batcher {
 public:
  Batcher(const Scope& scope, const char* name, const BatchOptions& options)
      : stage_(StageScope(scope, name)), options_(options) {}

  std::vector<Output> Run(const std::vector<std::vector<Output>>& sources, bool join, const Input& batch_size,
                          const ShuffleOptions* shuffle) {
    const Status status = Fill(sources, join, shuffle);
    stage_.UpdateStatus(status);
    if (!stage_.ok()) return {};
    const Output n = batch_size.literal() == nullptr
                         ? batch_size.output()
                         : ops::Const(stage_.WithOpName("n"), *batch_size.literal());
    const Scope own = stage_.WithOpName("/");
    const std::vector<Output> batch =
        options_.allow_smaller_final_batch
            ? ops::QueueDequeueUpToV2(own, queue_.handle, n, queue_.types).components
            : ops::QueueDequeueManyV2(own, queue_.handle, n, queue_.types).components;
    return stage_.ok() ? batch : std::vector<Output>();
  }

 private:
  Status Fill(const std::vector<std::vector<Output>>& sources, bool join, const ShuffleOptions* shuffle) {
    MR_RETURN_IF_ERROR(stage_.status());
    if (sources.empty()) return errors::InvalidArgument("Expected at least one input in batch_join().");
    MR_RETURN_IF_ERROR(CheckNumThreads(options_));
    const int64_t over = options_.capacity - (shuffle == nullptr ? 0 : shuffle->min_after_dequeue);
    if (shuffle != nullptr && over <= 0) {
      return errors::InvalidArgument("capacity ", options_.capacity,
                                     " must be bigger than min_after_dequeue ", shuffle->min_after_dequeue,
                                     ".");
    }
    MR_RETURN_IF_ERROR(ReadKeepInput());
    MR_ASSIGN_OR_RETURN(const ElementSpec spec, SpecOf(stage_, sources, options_));
    QueueKind kind = FifoKind(options_.dynamic_pad);
    if (shuffle != nullptr) {
      kind = {.op = "RandomShuffleQueueV2", .name = "random_shuffle_queue"};
      const auto [seed, seed2] = SeedsOf(stage_, shuffle->seed);
      kind.attrs.Set("min_after_dequeue", shuffle->min_after_dequeue);
      kind.attrs.Set("seed", seed);
      kind.attrs.Set("seed2", seed2);
    }
    queue_ = MakeQueue(stage_, kind, spec, options_.capacity, options_.shared_name);
    MR_RETURN_IF_ERROR(stage_.status());
    std::vector<Operation> enqueues;
    enqueues.reserve(sources.size());
    for (const auto& source : sources) enqueues.push_back(Enqueue(source));
    if (!join) enqueues.resize(static_cast<size_t>(options_.num_threads), enqueues[0]);
    MR_RETURN_IF_ERROR(stage_.status());
    AddQueueRunner(stage_, QueueRunner::Make(stage_, queue_.handle, enqueues));
    AddSummary(shuffle, over);
    return stage_.status();
  }

  Status ReadKeepInput() {
    if (!options_.keep_input.has_value()) {
      ops::Const(stage_, true);  // a node of the Python client, so that later nodes get the same names
      return stage_.status();
    }
    const Input& keep = *options_.keep_input;
    keep_ = keep.literal() == nullptr ? keep.output() : ops::Const(stage_, *keep.literal());
    MR_RETURN_IF_ERROR(stage_.status());
    const PartialShape shape = stage_.ShapeOf(keep_);
    if (shape.unknown_rank()) {
      return errors::InvalidArgument("`keep_input` dimensions must be known at graph construction.");
    }
    if (!options_.enqueue_many && shape.rank() == 1) {
      return errors::InvalidArgument("`keep_input` cannot be a vector when `enqueue_many=False`.");
    }
    if (shape.rank() > 1) return errors::InvalidArgument("`keep_input` must be 0 or 1 dimensions.");
    return Status();
  }

  Operation Enqueue(const std::vector<Output>& source) {
    const bool many = options_.enqueue_many;
    if (!keep_.IsSet()) return queue_.Enqueue(stage_, source, many);
    if (stage_.ShapeOf(keep_).rank() == 1) {
      return queue_.Enqueue(stage_, Select(stage_, source, keep_), many);
    }
    return When(stage_, keep_, [&](const Scope& scope) { return queue_.Enqueue(scope, source, many); });
  }

  void AddSummary(const ShuffleOptions* shuffle, int64_t over) {
    const Output size = queue_.Size(stage_);
    if (shuffle == nullptr) {
      AddFillSummary(stage_, StrCat("fraction_of_", over, "_full"), size, over);
    } else if (stage_.ok()) {
      const Formula above = Formula(stage_, size) - static_cast<double>(shuffle->min_after_dequeue);
      const Output part = Binary(stage_, "Maximum", "Maximum", 0, above);
      AddFillSummary(stage_, StrCat("fraction_over_", shuffle->min_after_dequeue, "_of_", over, "_full"),
                     part, over);
    }
  }

  const Scope stage_;
  const BatchOptions& options_;
  Output keep_;  // unset: all examples are kept
  StageQueue queue_;
};

// Adds the batch as the first dimension.
std::vector<PartialShape> WithBatch(const std::vector<PartialShape>& shapes, int64_t batch) {
  std::vector<PartialShape> result;
  for (const PartialShape& shape : shapes) {
    std::vector<int64_t> dims = {batch};
    for (const int64_t size : shape.dims()) dims.push_back(size);
    result.emplace_back(dims);
  }
  return result;
}

}  // namespace

Operation When(const Scope& scope, const Output& pred, const std::function<Operation(const Scope&)>& body) {
  const auto then_fn = [&](const Scope& branch) -> std::vector<Output> {
    const Operation done = body(branch);
    if (!branch.ok()) return {};
    return {ops::Identity(branch.WithOpName("control_dependency").WithControlDependencies({done}),
                          ops::Const(branch, true))};
  };
  const auto else_fn = [](const Scope& branch) -> std::vector<Output> { return {ops::Const(branch, false)}; };
  const auto merged = Cond(scope.WithOpName("cond"), pred, then_fn, else_fn);
  return merged.empty() ? Operation() : Operation(merged[0]);
}

StatusOr<ElementSpec> SpecOf(const Scope& scope, const std::vector<std::vector<Output>>& sources,
                             const BatchOptions& options) {
  ElementSpec spec;
  for (const auto& source : sources) {
    if (source.empty()) return errors::InvalidArgument("Expected at least one tensor in batch().");
    std::vector<DataType> types;
    for (const Output& tensor : source) {
      if (!tensor.IsSet()) return errors::InvalidArgument("a tensor to be batched is unset");
      types.push_back(Scope::TypeOf(tensor));
    }
    if (spec.types.empty()) spec.types = types;
    if (types != spec.types) {
      return errors::InvalidArgument("Expected types to be consistent in all sources of a batch");
    }
  }
  spec.shapes = options.shapes;
  if (!spec.shapes.empty()) {
    if (spec.shapes.size() == spec.types.size()) return spec;
    return errors::InvalidArgument(spec.shapes.size(), " shapes are given for ", spec.types.size(),
                                   " tensors");
  }
  for (size_t i = 0; i < spec.types.size(); ++i) {
    std::optional<PartialShape> merged;
    for (const auto& source : sources) {
      const std::string name = Scope::NameOf(source[i]);
      const PartialShape shape = scope.ShapeOf(source[i]);
      if (shape.unknown_rank()) return errors::InvalidArgument("Cannot infer Tensor's rank: ", name);
      if (options.enqueue_many && shape.rank() == 0) {
        return errors::InvalidArgument("a scalar, '", name, "', can't be many examples");
      }
      const PartialShape element(
          std::vector<int64_t>(shape.dims().begin() + (options.enqueue_many ? 1 : 0), shape.dims().end()));
      auto both = merged.has_value() ? merged->MergeWith(element) : element;
      if (!both.ok()) return both.status().WithContext(StrCat("; '", name, "' and another source differ"));
      merged = *both;
    }
    spec.shapes.emplace_back(*merged);
  }
  return spec;
}

namespace {

// Resizes to `count` results: unset ones after an error.
std::vector<Output> Sized(std::vector<Output> results, size_t count) {
  results.resize(count);
  return results;
}
size_t WidthOf(const std::vector<std::vector<Output>>& sources) {
  return sources.empty() ? 0 : sources[0].size();
}

}  // namespace

std::vector<Output> Batch(const Scope& scope, const std::vector<Output>& tensors, const Input& batch_size,
                          const BatchOptions& options) {
  return Sized(Batcher(scope, "batch", options).Run({tensors}, /*join=*/false, batch_size, nullptr),
               tensors.size());
}

std::vector<Output> BatchJoin(const Scope& scope, const std::vector<std::vector<Output>>& sources,
                              const Input& batch_size, const BatchOptions& options) {
  return Sized(Batcher(scope, "batch_join", options).Run(sources, /*join=*/true, batch_size, nullptr),
               WidthOf(sources));
}

std::vector<Output> ShuffleBatch(const Scope& scope, const std::vector<Output>& tensors,
                                 const Input& batch_size, const ShuffleOptions& shuffle,
                                 const BatchOptions& options) {
  return Sized(Batcher(scope, "shuffle_batch", options).Run({tensors}, /*join=*/false, batch_size, &shuffle),
               tensors.size());
}

std::vector<Output> ShuffleBatchJoin(const Scope& scope, const std::vector<std::vector<Output>>& sources,
                                     const Input& batch_size, const ShuffleOptions& shuffle,
                                     const BatchOptions& options) {
  return Sized(
      Batcher(scope, "shuffle_batch_join", options).Run(sources, /*join=*/true, batch_size, &shuffle),
      WidthOf(sources));
}

std::vector<Output> Bucket(const Scope& scope, const std::vector<Output>& tensors, const Input& which_bucket,
                           int64_t batch_size, int num_buckets, const BatchOptions& options,
                           int64_t bucket_capacity) {
  std::vector<Output> none(1 + tensors.size());
  constexpr int kMostBuckets = 10'000;  // each has a queue and nodes of its own
  if (num_buckets < 2 || num_buckets > kMostBuckets || batch_size < 1 || options.enqueue_many) {
    scope.UpdateStatus(
        errors::InvalidArgument("Bucket needs 2 to ", kMostBuckets,
                                " buckets, a batch size of at least 1 and one example at a time"));
    return none;
  }
  scope.UpdateStatus(CheckNumThreads(options));
  if (!scope.ok()) return none;
  const Scope stage = StageScope(scope, "bucket");
  const Output which =
      which_bucket.literal() == nullptr ? which_bucket.output() : ops::Const(stage, *which_bucket.literal());
  const auto spec = SpecOf(stage, {tensors}, options);
  stage.UpdateStatus(spec.status());
  if (!stage.ok()) return none;

  QueueKind kind = FifoKind(options.dynamic_pad);
  std::vector<StageQueue> buckets;
  std::vector<Operation> enqueues, batches;
  for (int i = 0; i < num_buckets; ++i) {
    const std::string name = StrCat("bucket_queue_", i);
    kind.name = name.c_str();
    const int64_t capacity = bucket_capacity > 0 ? bucket_capacity : options.capacity;
    const std::string shared = options.shared_name.empty() ? "" : StrCat(options.shared_name, "_", i);
    buckets.push_back(MakeQueue(stage, kind, *spec, capacity, shared));
    if (!stage.ok()) return none;
    const Output here = ops::Equal(stage, which, i);
    const Output wanted =
        options.keep_input.has_value() ? Output(ops::LogicalAnd(stage, here, *options.keep_input)) : here;
    enqueues.push_back(When(stage, wanted, [&](const Scope& branch) {
      return buckets.back().Enqueue(branch, tensors, /*many=*/false);
    }));
  }
  kind.name = "top_queue";
  ElementSpec top_spec{.types = {DataType::kInt32}, .shapes = {PartialShape({})}};
  top_spec.types.insert(top_spec.types.end(), spec->types.begin(), spec->types.end());
  const auto batch_shapes =
      WithBatch(spec->shapes, options.allow_smaller_final_batch || options.dynamic_pad ? -1 : batch_size);
  top_spec.shapes.insert(top_spec.shapes.end(), batch_shapes.begin(), batch_shapes.end());
  // Only a padding queue accepts elements of unknown shapes.
  if (options.allow_smaller_final_batch) kind.op = FifoKind(/*dynamic_pad=*/true).op;
  const StageQueue top = MakeQueue(stage, kind, top_spec, options.capacity, options.shared_name);
  for (int i = 0; i < num_buckets && stage.ok(); ++i) {
    const auto& bucket = buckets[static_cast<size_t>(i)];
    const auto n = static_cast<int32_t>(batch_size);
    const Scope named = stage.WithOpName(bucket.NameOf("DequeueMany"));
    const auto batch = options.allow_smaller_final_batch
                           ? ops::QueueDequeueUpToV2(named, bucket.handle, n, bucket.types).components
                           : ops::QueueDequeueManyV2(named, bucket.handle, n, bucket.types).components;
    std::vector<Output> values = {ops::Const(stage, i)};
    values.insert(values.end(), batch.begin(), batch.end());
    batches.push_back(top.Enqueue(stage, values, /*many=*/false));
  }
  if (!stage.ok()) return none;

  // One step enqueues to one bucket; all of them are closed together when the input ends.
  const Operation any = ops::NoOp(stage.WithOpName("group_enqueues").WithControlDependencies(enqueues));
  QueueRunner filler = QueueRunner::Make(
      stage, buckets[0].handle, std::vector<Operation>(static_cast<size_t>(options.num_threads), any));
  const auto close_all = [&](const char* name, bool cancel) {
    std::vector<Operation> closes;
    closes.reserve(buckets.size());
    for (const StageQueue& bucket : buckets) {
      closes.push_back(ops::QueueCloseV2(stage.WithOpName(bucket.NameOf("Close")), bucket.handle,
                                         ops::QueueCloseV2::CancelPendingEnqueues(cancel)));
    }
    return Scope::NameOf(Operation(ops::NoOp(stage.WithOpName(name).WithControlDependencies(closes))));
  };
  filler.close_op_name = close_all("close_all", false);
  filler.cancel_op_name = close_all("cancel_all", true);
  AddQueueRunner(stage, filler);
  AddQueueRunner(stage, QueueRunner::Make(stage, top.handle, batches));
  AddFillSummary(stage, StrCat("fraction_of_", options.capacity, "_full"), top.Size(stage), options.capacity);
  const auto dequeued = ops::QueueDequeueV2(stage.WithOpName("dequeue_top"), top.handle, top_spec.types);
  return stage.ok() ? dequeued.components : none;
}

std::vector<Output> BucketBySequenceLength(const Scope& scope, const Output& length,
                                           const std::vector<Output>& tensors, int64_t batch_size,
                                           const std::vector<int32_t>& boundaries,
                                           const BatchOptions& options, int64_t bucket_capacity) {
  std::vector<Output> none(1 + tensors.size());
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (boundaries[i] <= 0 || (i > 0 && boundaries[i] <= boundaries[i - 1])) {
      scope.UpdateStatus(
          errors::InvalidArgument("bucket_boundaries must be positive and strictly increasing"));
      return none;
    }
  }
  if (boundaries.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("bucket_boundaries must not be empty"));
    return none;
  }
  const Scope stage = StageScope(scope, "bucket_by_sequence_length");
  // The number of boundaries that are not greater than the length is the index of its bucket.
  const Output below =
      ops::LessEqual(stage, ops::Const(stage.WithOpName("boundaries"), Tensor::Vector(boundaries)), length);
  if (!stage.ok()) return none;
  const Output which = Formula(stage, below).To(DataType::kInt32).Reduce("Sum", {0});
  std::vector<Output> with_length = {length};
  with_length.insert(with_length.end(), tensors.begin(), tensors.end());
  BatchOptions inner = options;
  if (!inner.shapes.empty()) inner.shapes.insert(inner.shapes.begin(), PartialShape({}));
  auto batch = Bucket(stage, with_length, which, batch_size, static_cast<int>(boundaries.size()) + 1, inner,
                      bucket_capacity);
  batch.erase(batch.begin());
  return batch;
}

}  // namespace millrace
