// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "millrace/ops.h"
#include "millrace/summary.h"
#include "millrace/variables.h"
#include "training/formula.h"
#include "training/queue_input.h"

namespace millrace {
namespace {

std::string FractionName(int64_t capacity) { return StrCat("fraction_of_", capacity, "_full"); }

PartialShape WithoutFirstDim(const PartialShape& shape) {
  if (shape.unknown_rank() || shape.rank() == 0) return PartialShape();
  const auto dims = shape.dims();
  return PartialShape(std::vector<int64_t>(dims.begin() + 1, dims.end()));
}

// The producer within its scope, which names the queue.
Output Produce(const Scope& stage, Output input, const ProducerOptions& options,
               const PartialShape& element_shape) {
  if (!stage.ok()) return {};
  PartialShape shape = WithoutFirstDim(stage.ShapeOf(input));
  if (!shape.IsFullyDefined()) shape = element_shape;
  if (!shape.IsFullyDefined()) {
    stage.UpdateStatus(errors::InvalidArgument(
        "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"));
    return {};
  }
  if (options.shuffle) {
    const auto [seed, seed2] = SeedsOf(stage, options.seed);
    input = ops::RandomShuffle(stage, input, ops::RandomShuffle::Seed(seed).Seed2(seed2));
  }
  input = LimitEpochs(stage, input, options.num_epochs);
  if (!stage.ok()) return {};
  const StageQueue queue{
      .handle = ops::FIFOQueueV2(
          stage.WithOpName("/"), {Scope::TypeOf(input)},
          ops::FIFOQueueV2::Shapes({shape}).Capacity(options.capacity).SharedName(options.shared_name)),
      .types = {Scope::TypeOf(input)}};
  AddQueueRunner(stage,
                 QueueRunner::Make(stage, queue.handle, {queue.Enqueue(stage, {input}, /*many=*/true)}));
  if (!options.summary_name.empty()) {
    AddFillSummary(stage, options.summary_name, queue.Size(stage), options.capacity);
  }
  return stage.ok() ? queue.handle : Output();
}

Output ProduceRange(const Scope& stage, const Input& limit, ProducerOptions options) {
  const Scope range = stage.NewSubScope("range");
  const Output start = ops::Const(range.WithOpName("start"), 0);
  const Output to =
      limit.literal() == nullptr ? limit.output() : ops::Const(range.WithOpName("limit"), *limit.literal());
  const Output delta = ops::Const(range.WithOpName("delta"), 1);
  const Output numbers = ops::Range(range.WithOpName("/"), start, to, delta);
  options.summary_name = FractionName(options.capacity);
  return Produce(stage, numbers, options, PartialShape({}));
}

}  // namespace

Scope StageScope(const Scope& scope, const char* otherwise) {
  return scope.NewSubScope(scope.op_name().empty() ? otherwise : scope.op_name());
}

std::string StageQueue::NameOf(const char* what) const {
  const std::string name = Scope::NameOf(handle);
  return StrCat(std::string_view(name).substr(name.rfind('/') + 1), "_", what);
}

Operation StageQueue::Enqueue(const Scope& scope, const std::vector<Output>& values, bool many) const {
  if (!scope.ok()) return {};
  if (many) return ops::QueueEnqueueManyV2(scope.WithOpName(NameOf("EnqueueMany")), handle, values);
  return ops::QueueEnqueueV2(scope.WithOpName(NameOf("enqueue")), handle, values);
}

Output StageQueue::Size(const Scope& stage) const {
  return stage.ok() ? Output(ops::QueueSizeV2(stage.WithOpName(NameOf("Size")), handle)) : Output();
}

void AddFillSummary(const Scope& stage, const std::string& name, const Output& part, int64_t whole) {
  if (!stage.ok()) return;
  const Output fraction = Formula(stage, part).To(DataType::kFloat) * (1.0 / static_cast<double>(whole));
  summary::Scalar(stage, name, fraction);
}

Output LimitEpochs(const Scope& scope, const Output& tensor, std::optional<int64_t> num_epochs) {
  if (!num_epochs.has_value() || !scope.ok()) return tensor;
  if (*num_epochs <= 0) {
    scope.UpdateStatus(errors::InvalidArgument("num_epochs must be > 0 not ", *num_epochs, "."));
    return {};
  }
  const Scope stage = StageScope(scope, "limit_epochs");
  const Output zero = ops::Const(stage, int64_t{0});
  const GraphVariable epochs(
      stage.WithOpName("epochs"), zero,
      {.trainable = false, .resource = false, .collections = {graph_keys::kLocalVariables}, .slice = {}});
  if (!stage.ok()) return {};
  const ops::CountUpTo counter(stage.ColocateWith(epochs.ref()), epochs.ref(), *num_epochs);
  if (!stage.ok()) return {};
  return ops::Identity(stage.WithOpName("/").WithControlDependencies({counter}), tensor);
}

Output InputProducer(const Scope& scope, const Input& input, const ProducerOptions& options,
                     const PartialShape& element_shape) {
  const Scope stage = StageScope(scope, "input_producer");
  const Output tensor = input.literal() == nullptr
                            ? input.output()
                            : ops::Const(stage.WithOpName("input_tensor"), *input.literal());
  return Produce(stage, tensor, options, element_shape);
}

Output StringInputProducer(const Scope& scope, const Input& strings, const ProducerOptions& options) {
  constexpr const char* kEmpty = "string_input_producer requires a non-null input tensor";
  if (strings.literal() != nullptr && strings.literal()->tensor().num_elements() == 0) {
    scope.UpdateStatus(errors::InvalidArgument(kEmpty));
    return {};
  }
  const Scope stage = StageScope(scope, "input_producer");
  const Output tensor =
      strings.literal() == nullptr ? strings.output() : ops::Const(stage, *strings.literal());
  if (stage.ok() && Scope::TypeOf(tensor) != DataType::kString) {
    stage.UpdateStatus(
        errors::InvalidArgument("string_input_producer takes strings, not ", Scope::TypeOf(tensor)));
  }
  if (!stage.ok()) return {};
  const Output size = ops::Size(stage, tensor);
  const Output some = Binary(stage, "Greater", "Greater", size, 0);
  const Scope check = stage.NewSubScope("Assert");
  const Output text = ops::Const(check, kEmpty);
  const Operation checked = ops::Assert(check, some, InputList({Input(text)}));
  if (!stage.ok()) return {};
  const Output names = ops::Identity(stage.WithControlDependencies({checked}), tensor);
  ProducerOptions with_summary = options;
  with_summary.summary_name = FractionName(options.capacity);
  return Produce(stage, names, with_summary, PartialShape({}));
}

Output RangeInputProducer(const Scope& scope, const Input& limit, const ProducerOptions& options) {
  return ProduceRange(StageScope(scope, "input_producer"), limit, options);
}

std::vector<Output> SliceInputProducer(const Scope& scope, const std::vector<Output>& tensors,
                                       const ProducerOptions& options) {
  if (tensors.empty()) {
    scope.UpdateStatus(errors::InvalidArgument("Expected at least one tensor in slice_input_producer()."));
    return {};
  }
  const Scope stage = StageScope(scope, "input_producer");
  const Output shape = ops::Shape(stage, tensors[0]);
  const Scope slice = stage.NewSubScope("strided_slice");
  const Output begin = ops::Const(slice.WithOpName("stack"), {0});
  const Output end = ops::Const(slice.WithOpName("stack_1"), {1});
  const Output strides = ops::Const(slice.WithOpName("stack_2"), {1});
  const Output size = ops::StridedSlice(slice.WithOpName("/"), shape, begin, end, strides,
                                        ops::StridedSlice::ShrinkAxisMask(1));
  const StageQueue queue{.handle = ProduceRange(stage.NewSubScope("input_producer"), size, options),
                         .types = {DataType::kInt32}};
  if (!stage.ok()) return std::vector<Output>(tensors.size());
  const Output index =
      ops::QueueDequeueV2(stage.WithOpName(queue.NameOf("Dequeue")), queue.handle, queue.types)[0];
  std::vector<Output> slices;
  slices.reserve(tensors.size());
  for (const Output& tensor : tensors) slices.push_back(ops::GatherV2(stage, tensor, index, 0));
  return stage.ok() ? slices : std::vector<Output>(tensors.size());
}

}  // namespace millrace
