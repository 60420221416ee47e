// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets that are created again from the inputs of their ops, with a change: AutoShardDataset and
// RebatchDataset.
#include <algorithm>
#include <functional>

#include "base/strings.h"
#include "data/batch.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "op/op_registry.h"
#include "tensorflow/core/framework/function.pb.h"

namespace millrace::data {
namespace {

// The most datasets in a chain of inputs; deeper pipelines are not rewritten.
constexpr int kMaxDepth = 500;

template <size_t n>
bool IsOneOf(std::string_view op, const std::string_view (&ops)[n]) {
  return std::ranges::find(ops, NewName(op)) != std::end(ops);
}

constexpr std::string_view kFileReaders[] = {"FixedLengthRecordDataset", "FixedLengthRecordDatasetV2",
                                             "LMDBDataset", "TextLineDataset", "TFRecordDataset"};
constexpr std::string_view kFunctionsOfElements[] = {
    "FlatMapDataset", "InterleaveDataset", "ParallelInterleaveDataset", "ParallelInterleaveDatasetV2"};
constexpr std::string_view kSeveralInputs[] = {"ConcatenateDataset", "ZipDataset"};
// Their elements belong to the same files as those of their input.
constexpr std::string_view kPassFilesOn[] = {"BatchDataset",
                                             "BatchDatasetV2",
                                             "CacheDataset",
                                             "CacheDatasetV2",
                                             "FilterDataset",
                                             "MapAndBatchDataset",
                                             "MapDataset",
                                             "ModelDataset",
                                             "OptimizeDataset",
                                             "PaddedBatchDataset",
                                             "PaddedBatchDatasetV2",
                                             "ParallelMapDataset",
                                             "ParseExampleDataset",
                                             "PrefetchDataset",
                                             "RebatchDataset",
                                             "RepeatDataset",
                                             "ScanDataset",
                                             "ShardDataset",
                                             "ShuffleAndRepeatDataset",
                                             "ShuffleDataset",
                                             "ShuffleDatasetV2",
                                             "SkipDataset",
                                             "TakeDataset",
                                             "WindowDataset"};
constexpr std::string_view kBatches[] = {"BatchDataset", "BatchDatasetV2", "MapAndBatchDataset",
                                         "PaddedBatchDataset", "PaddedBatchDatasetV2"};
// Their elements are batches if those of their input are.
constexpr std::string_view kPassBatchesOn[] = {
    "CacheDataset",    "CacheDatasetV2",  "MapDataset",
    "ModelDataset",    "OptimizeDataset", "ParallelMapDataset",
    "PrefetchDataset", "RepeatDataset",   "ShuffleAndRepeatDataset",
    "ShuffleDataset",  "ShuffleDatasetV2"};

using Rewrite = std::function<StatusOr<RefPtr<const Dataset>>(const Dataset&)>;

// Creates `dataset` again with its input datasets, or only the first one, rewritten; and with `attrs`, if not
// null.
StatusOr<RefPtr<const Dataset>> WithInputs(KernelContext& context, const Dataset& dataset, bool all,
                                           const Rewrite& rewrite,
                                           std::shared_ptr<const AttrMap> attrs = nullptr) {
  auto origin = std::make_shared<Origin>(*dataset.origin());
  if (attrs != nullptr) origin->attrs = std::move(attrs);
  for (Tensor& input : origin->inputs) {
    const auto read = DatasetFromTensor(input);
    if (!read.ok()) continue;
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> rewritten, rewrite(**read));
    input = DatasetToTensor(std::move(rewritten));
    if (!all) break;
  }
  return Remake(context, std::move(origin));
}

// The share of one of several workers; each gets at least one element.
StatusOr<RefPtr<const Dataset>> Shard(KernelContext& context, const Dataset& dataset, int64_t shards,
                                      int64_t index) {
  auto origin = std::make_shared<Origin>();
  origin->op = "ShardDataset";
  origin->attrs = std::make_shared<const AttrMap>(AttrMap{
      {"require_non_empty", true}, {"output_types", dataset.types()}, {"output_shapes", dataset.shapes()}});
  origin->inputs = {DatasetToTensor(ShareRef(&dataset)), Tensor::Scalar(shards), Tensor::Scalar(index)};
  return Remake(context, std::move(origin));
}

class RewriteKernel : public NodeKernel {
 public:
  explicit RewriteKernel(KernelConstruction& c) : NodeKernel(c), functions_(c.functions()) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> dataset, Make(Args(context)));
    Tensor out = DatasetToTensor(std::move(dataset));
    if (!out.IsInitialized()) return errors::ResourceExhausted("No memory for a dataset");
    context.set_output(0, std::move(out));
    return Status();
  }

 protected:
  virtual StatusOr<RefPtr<const Dataset>> Make(const NodeArgs& args) const = 0;
  FunctionCaller* const functions_;
};

class AutoShardKernel final : public RewriteKernel {
 public:
  using RewriteKernel::RewriteKernel;

 private:
  StatusOr<RefPtr<const Dataset>> Make(const NodeArgs& args) const override {
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
    MR_ASSIGN_OR_RETURN(const int64_t workers, args.Scalar<int64_t>("num_workers"));
    MR_ASSIGN_OR_RETURN(const int64_t index, args.Scalar<int64_t>("index"));
    if (workers < 1) return errors::InvalidArgument("num_workers must be >= 1, but got: ", workers);
    if (index < 0 || index >= workers) {
      return errors::InvalidArgument("index must be >= 0 and < ", workers, ", but got: ", index);
    }
    auto by_files = ByFiles(args.context(), *input, workers, index, 0);
    if (by_files.ok() || !errors::IsNotFound(by_files.status())) return by_files;
    return Shard(args.context(), *input, workers, index);
  }

  // NotFound if the elements don't come from separate files.
  StatusOr<RefPtr<const Dataset>> ByFiles(KernelContext& context, const Dataset& dataset, int64_t workers,
                                          int64_t index, int depth) const {
    if (dataset.origin() == nullptr || depth > kMaxDepth) return errors::NotFound("No files");
    const std::string& op = dataset.origin()->op;
    const Rewrite below = [&](const Dataset& input) {
      return ByFiles(context, input, workers, index, depth + 1);
    };
    if (IsOneOf(op, kSeveralInputs)) return WithInputs(context, dataset, true, below);
    if (IsOneOf(op, kPassFilesOn)) return WithInputs(context, dataset, false, below);
    MR_ASSIGN_OR_RETURN(const bool reads, ReadsFiles(*dataset.origin()));
    if (!reads) return errors::NotFound("Did not find a shardable source, walked to ", op);
    return WithInputs(context, dataset, false,
                      [&](const Dataset& names) { return Shard(context, names, workers, index); });
  }

  // Whether the op makes a dataset from each element with a function that reads files.
  StatusOr<bool> ReadsFiles(const Origin& origin) const {
    if (!IsOneOf(origin.op, kFunctionsOfElements) || functions_ == nullptr) return false;
    MR_ASSIGN_OR_RETURN(const NameAttrList f, origin.attrs->Get<NameAttrList>("f"));
    tensorflow::FunctionDefLibrary library;
    if (!functions_->ExportFunctions(std::span(&f.name, 1), &library).ok()) return false;
    for (const tensorflow::FunctionDef& function : library.function()) {
      for (const tensorflow::NodeDef& node : function.node_def())
        if (IsOneOf(node.op(), kFileReaders)) return true;
    }
    return false;
  }
};

// Splits batches into as many pieces as there are replicas, of equal size except for the last.
class PiecesDataset final : public UnaryDataset {
 public:
  PiecesDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t pieces)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)), pieces_(pieces) {}
  int64_t Cardinality() const override { return input().Cardinality() == kInfinite ? kInfinite : kUnknown; }

 protected:
  class It final : public UnaryIterator<PiecesDataset> {
   public:
    using UnaryIterator::UnaryIterator;
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      while (at_ >= rows_) {
        if (ctx.cancelled()) return CancelledStatus();
        MR_RETURN_IF_ERROR(NextInput(ctx, &batch_, end));
        if (*end) return Status();
        at_ = rows_ = 0;
        MR_RETURN_IF_ERROR(Measure());
      }
      const int64_t rest = rows_ - at_;
      const int64_t piece =
          std::min(rest, rows_ / dataset_.pieces_ + (rows_ % dataset_.pieces_ != 0 ? 1 : 0));
      out->clear();
      for (const Tensor& t : batch_) {
        TensorShape shape = t.shape();
        shape.SetDim(0, piece);
        MR_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(t.dtype(), shape));
        if (rows.num_elements() > 0) CopyInto(&rows, 0, t.Slice(at_, at_ + piece));
        out->push_back(std::move(rows));
      }
      at_ += piece;
      return Status();
    }
    Status Save(Context& ctx, StateWriter& state) override {
      state.Write("at", at_);
      state.Write("rows", rows_);
      if (at_ < rows_) state.WriteElement("batch", batch_);
      return UnaryIterator::Save(ctx, state);
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_ASSIGN_OR_RETURN(const int64_t rows, state.Count("rows"));
      MR_ASSIGN_OR_RETURN(const int64_t at, state.Count("at", rows));
      at_ = rows_ = 0;
      if (at < rows) {
        MR_ASSIGN_OR_RETURN(batch_, state.ReadElement("batch"));
        MR_RETURN_IF_ERROR(CheckElement({dataset_.types(), {}}, batch_));
        MR_RETURN_IF_ERROR(Measure());
        if (rows_ != rows) return errors::DataLoss("The saved state of the iterator is of another batch");
        at_ = at;
      }
      return UnaryIterator::Restore(ctx, state);
    }

   private:
    Status Measure() {
      for (size_t i = 0; i < batch_.size(); ++i) {
        const TensorShape& shape = batch_[i].shape();
        if (shape.rank() == 0) {
          return errors::InvalidArgument(
              "Cannot use rebatching of a dataset with unbatched elements: component ", i, " is a scalar.");
        }
        if (i > 0 && shape.dim(0) != rows_) {
          return errors::InvalidArgument("The components of a batch have ", rows_, " and ", shape.dim(0),
                                         " rows.");
        }
        rows_ = shape.dim(0);
      }
      return Status();
    }
    Element batch_;
    int64_t rows_ = 0, at_ = 0;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(*this, ctx);
  }

 private:
  const int64_t pieces_;
};

class RebatchKernel final : public RewriteKernel {
 public:
  using RewriteKernel::RewriteKernel;

 private:
  StatusOr<RefPtr<const Dataset>> Make(const NodeArgs& args) const override {
    MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
    MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
    MR_ASSIGN_OR_RETURN(const int64_t replicas, args.Scalar<int64_t>("num_replicas"));
    MR_ASSIGN_OR_RETURN(const bool may_cut, args.Attr<bool>("use_fallback"));
    if (replicas < 1)
      return errors::InvalidArgument("num_replicas must be greater than zero, but got: ", replicas);
    auto smaller = Smaller(args.context(), *input, replicas, 0);
    if (smaller.ok() || !may_cut) return smaller;
    return MakeRefDataset<PiecesDataset>(args.Kind(), std::move(signature), std::move(input), replicas);
  }

  StatusOr<RefPtr<const Dataset>> Smaller(KernelContext& context, const Dataset& dataset, int64_t replicas,
                                          int depth) const {
    if (dataset.origin() == nullptr || depth > kMaxDepth) return errors::InvalidArgument(kNoBatch);
    const Origin& origin = *dataset.origin();
    const Rewrite below = [&](const Dataset& input) { return Smaller(context, input, replicas, depth + 1); };
    if (IsOneOf(origin.op, kBatches)) return SmallerBatches(context, dataset, replicas);
    const bool several = IsOneOf(origin.op, kSeveralInputs);
    if (!several && !IsOneOf(origin.op, kPassBatchesOn)) {
      return errors::InvalidArgument(kNoBatch, ": ", origin.op, " does not hand batches on.");
    }
    return WithInputs(context, dataset, several, below, AnyFirstDim(dataset, -1));
  }

  static StatusOr<RefPtr<const Dataset>> SmallerBatches(KernelContext& context, const Dataset& dataset,
                                                        int64_t replicas) {
    auto origin = std::make_shared<Origin>(*dataset.origin());
    MR_ASSIGN_OR_RETURN(const OpRegistration* const op, OpRegistry::Global().LookUp(origin->op));
    std::vector<ArgRange> ranges;
    MR_RETURN_IF_ERROR(InferArgRanges(op->def.inputs, *origin->attrs, &ranges));
    const auto size = std::ranges::find(ranges, "batch_size", &ArgRange::name);
    if (size == ranges.end()) return errors::Internal("Op ", origin->op, " has no batch_size");
    Tensor& value = origin->inputs[static_cast<size_t>(size->begin)];
    const int64_t all = value.scalar<int64_t>();
    if (all % replicas != 0) {
      return errors::InvalidArgument("The batch size (", all,
                                     ") is not divisible by the number of replicas (", replicas, ").");
    }
    value = Tensor::Scalar(all / replicas);
    origin->attrs = AnyFirstDim(dataset, all / replicas);
    return Remake(context, std::move(origin));
  }

  // The attributes of the dataset's op, with another first size in shapes in which it is known.
  static std::shared_ptr<const AttrMap> AnyFirstDim(const Dataset& dataset, int64_t size) {
    AttrMap attrs = *dataset.origin()->attrs;
    std::vector<PartialShape> shapes;
    for (const PartialShape& shape : dataset.shapes()) {
      if (shape.unknown_rank() || shape.rank() == 0) {
        shapes.push_back(shape);
        continue;
      }
      std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
      if (dims[0] >= 0) dims[0] = size;
      shapes.push_back(PartialShape(std::move(dims)));
    }
    attrs.Set("output_shapes", std::move(shapes));
    return std::make_shared<const AttrMap>(std::move(attrs));
  }

  static constexpr char kNoBatch[] = "Found no batches that could be made smaller";
};

}  // namespace

void RegisterRewritingDatasets(KernelRegistry& registry) {
  for (const std::string old : {"", "Experimental"}) {
    registry.Register<AutoShardKernel>(KernelDef(old + "AutoShardDataset"));
    registry.Register<RebatchKernel>(KernelDef(old + "RebatchDataset"));
  }
}

}  // namespace millrace::data
