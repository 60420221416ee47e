// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batch, PaddedBatch and other datasets that combine several elements of their input.
#include "data/batch.h"

#include <algorithm>
#include <memory>
#include <thread>

#include "base/small_vector.h"
#include "device/device.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"
#include "kernels/shared/args.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

int64_t Batches(int64_t n, int64_t size, bool drop_remainder) {
  return n < 0 ? n : n / size + (n % size != 0 && !drop_remainder ? 1 : 0);
}

// Takes `size` elements, or the remaining ones.
class BatchingDataset : public UnaryDataset {
 public:
  struct Options {
    int64_t size = 1;
    bool drop_remainder = false;
    bool parallel_copy = false;  // threads of the iterator copy large elements
  };
  BatchingDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, Options options)
      : UnaryDataset(std::move(kind), std::move(signature), std::move(input)),
        size_(options.size),
        drop_remainder_(options.drop_remainder),
        parallel_copy_(options.parallel_copy) {}
  int64_t Cardinality() const override { return Batches(input().Cardinality(), size_, drop_remainder_); }

 protected:
  // `pool` may be null.
  virtual StatusOr<Element> Join(const Context& ctx, const std::vector<Element>& elements,
                                 ThreadPool* pool) const = 0;

  class It final : public UnaryIterator<BatchingDataset> {
   public:
    It(const BatchingDataset& dataset, std::unique_ptr<Iterator> input)
        : UnaryIterator(dataset, std::move(input)) {
      if (!dataset.parallel_copy_) return;
      // The pool of a step may end before the threads of a stage that prefetches batches. The threads of this
      // one are started when there is something to copy.
      const int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads));
      pool_ = std::make_unique<ThreadPool>("batch", threads);
    }
    bool MayWait(int64_t n) const override { return UnaryIterator::MayWait(ManyTimes(n, dataset_.size_)); }
    Status GetNext(Context& ctx, Element* out, bool* end) override {
      if (dataset_.takes_rows() && dataset_.size_ <= kMostRows && InputGivesRows()) {
        int64_t got = 0;
        MR_RETURN_IF_ERROR(NextRows(ctx, dataset_.size_, out, &got));
        *end = got == 0 || (got < dataset_.size_ && dataset_.drop_remainder_);
        return Status();
      }
      const auto size = static_cast<size_t>(dataset_.size_);
      size_t n = 0;
      for (bool ended = false; n < size && !ended; n += ended ? 0 : 1) {
        // A batch size may be huge, so it must not determine the memory to reserve.
        if (rows_.size() <= n) rows_.emplace_back();
        MR_RETURN_IF_ERROR(NextInput(ctx, &rows_[n], &ended));
      }
      if (n == 0 || (n < size && dataset_.drop_remainder_)) {
        *end = true;
        return Status();
      }
      rows_.resize(n);
      MR_ASSIGN_OR_RETURN(*out, dataset_.Join(ctx, rows_, pool_.get()));
      for (Element& row : rows_) row.clear();  // the batch may use their memory
      return Status();
    }

    bool GivesVectorsOfTexts() const override {
      return dataset_.takes_rows() && dataset_.size_ <= kMostRows && AreTexts(dataset_.input()) &&
             InputGivesRows();
    }
    Status GetNextTexts(Context& ctx, TextSink& sink, bool* end) override {
      int64_t got = 0;
      MR_RETURN_IF_ERROR(NextTexts(ctx, dataset_.size_, sink, &got));
      *end = got == 0 || (got < dataset_.size_ && dataset_.drop_remainder_);
      return Status();
    }

   private:
    static constexpr int64_t kMostRows = 1 << 16;
    static constexpr unsigned kMostThreads = 16;  // copies are limited by memory bandwidth
    std::vector<Element> rows_;
    std::unique_ptr<ThreadPool> pool_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& ctx) const override {
    return MakeUnary<It>(static_cast<const BatchingDataset&>(*this), ctx);
  }
  // Whether rows of the input are a batch without copies.
  virtual bool takes_rows() const { return false; }

  const int64_t size_;
  const bool drop_remainder_;
  const bool parallel_copy_;
};

class BatchDataset final : public BatchingDataset {
 public:
  using BatchingDataset::BatchingDataset;

 protected:
  StatusOr<Element> Join(const Context& ctx, const std::vector<Element>& elements,
                         ThreadPool* pool) const override {
    return StackElements(elements, ctx.runtime->device->host_allocator(), pool);
  }
  bool takes_rows() const override { return true; }
};

// Rows of different sizes, each padded with a value to the largest size, or to a given one.
class PaddedBatchDataset final : public BatchingDataset {
 public:
  PaddedBatchDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, Options options,
                     std::vector<PartialShape> shapes, std::vector<Tensor> values)
      : BatchingDataset(std::move(kind), std::move(signature), std::move(input), options),
        padded_(std::move(shapes)),
        values_(std::move(values)) {}

 protected:
  StatusOr<Element> Join(const Context& ctx, const std::vector<Element>& elements,
                         ThreadPool* pool) const override {
    Element out;
    for (size_t i = 0; i < padded_.size(); ++i) {
      MR_ASSIGN_OR_RETURN(Tensor joined, JoinComponent(ctx, elements, i, pool));
      out.push_back(std::move(joined));
    }
    return out;
  }

 private:
  StatusOr<Tensor> JoinComponent(const Context& ctx, const std::vector<Element>& elements, size_t i,
                                 ThreadPool* pool) const {
    MR_ASSIGN_OR_RETURN(const Dims sizes, Sizes(elements, i));
    Dims all{static_cast<int64_t>(elements.size())};
    for (const int64_t d : sizes) all.push_back(d);
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(all));
    MR_ASSIGN_OR_RETURN(Tensor out, Zeros(values_[i].dtype(), shape, ctx.runtime->device->host_allocator()));
    Fill(&out, values_[i]);
    const Dims strides = RowMajorStrides(sizes);
    const int64_t row = ProductOf(sizes, 0, static_cast<int>(sizes.size()));
    for (const Element& element : elements) {
      if (element[i].dtype() != out.dtype()) {
        return errors::InvalidArgument("Mismatched type between padding value and input dataset's component ",
                                       i, ": ", DataTypeName(out.dtype()), " vs. ",
                                       DataTypeName(element[i].dtype()));
      }
    }
    const auto copy = [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        CopyBox(elements[static_cast<size_t>(k)][i], strides, k * row, &out);
      }
    };
    const auto rows = static_cast<int64_t>(elements.size());
    if (pool == nullptr) {
      copy(0, rows);
    } else {
      pool->ParallelFor(rows, CopyCost(out) / rows, copy);
    }
    return out;
  }

  StatusOr<Dims> Sizes(const std::vector<Element>& elements, size_t i) const {
    const PartialShape& padded = padded_[i];
    Dims sizes;
    for (const int64_t d : padded.dims()) sizes.push_back(std::max<int64_t>(d, 0));
    for (const Element& element : elements) {
      const TensorShape& shape = element[i].shape();
      if (shape.rank() != padded.rank()) {
        return errors::InvalidArgument(
            "All elements in a batch must have the same rank as the padded shape for "
            "component",
            i, ": expected rank ", padded.rank(), " but got element with rank ", shape.rank());
      }
      for (int d = 0; d < shape.rank(); ++d) {
        if (padded.dim(d) < 0) {
          sizes[static_cast<size_t>(d)] = std::max(sizes[static_cast<size_t>(d)], shape.dim(d));
        } else if (shape.dim(d) > padded.dim(d)) {
          return errors::DataLoss("Attempted to pad to a smaller size than the input element.");
        }
      }
    }
    return sizes;
  }

  // Copies a tensor into the corner of a larger one, run by run.
  static void CopyBox(const Tensor& from, const Dims& strides, int64_t base, Tensor* to) {
    if (from.num_elements() == 0) return;
    if (from.rank() == 0) return CopyInto(to, base, from);
    const int64_t run = from.dim(from.rank() - 1);
    const Tensor flat = from.WithShape(TensorShape({from.num_elements()}));
    Dims index;
    index.resize(static_cast<size_t>(from.rank()));
    for (int64_t at = 0; at < from.num_elements(); at += run) {
      int64_t offset = base;
      for (int d = 0; d + 1 < from.rank(); ++d) {
        offset += index[static_cast<size_t>(d)] * strides[static_cast<size_t>(d)];
      }
      CopyInto(to, offset, flat.Slice(at, at + run));
      for (int d = from.rank() - 2; d >= 0 && ++index[static_cast<size_t>(d)] == from.dim(d); --d) {
        index[static_cast<size_t>(d)] = 0;
      }
    }
  }

  const std::vector<PartialShape> padded_;
  const std::vector<Tensor> values_;
};

// Rows of one shape as sparse tensors.
class DenseToSparseDataset final : public BatchingDataset {
 public:
  DenseToSparseDataset(std::string kind, Signature signature, RefPtr<const Dataset> input, int64_t size,
                       PartialShape row_shape)
      : BatchingDataset(std::move(kind), std::move(signature), std::move(input), {.size = size}),
        row_shape_(std::move(row_shape)) {}

 protected:
  StatusOr<Element> Join(const Context& ctx, const std::vector<Element>& elements,
                         ThreadPool* /*pool*/) const override {
    Allocator& allocator = ctx.runtime->device->host_allocator();
    const int rank = row_shape_.rank();
    Dims sizes{static_cast<int64_t>(elements.size())};
    for (const int64_t d : row_shape_.dims()) sizes.push_back(std::max<int64_t>(d, 0));
    int64_t entries = 0;
    for (const Element& element : elements) {
      const TensorShape& shape = element[0].shape();
      if (shape.rank() != rank) {
        return errors::InvalidArgument("Input element had shape (", shape,
                                       ") that is incompatible with the row shape (", row_shape_, ").");
      }
      for (int d = 0; d < rank; ++d) {
        int64_t& size = sizes[static_cast<size_t>(d) + 1];
        if (row_shape_.dim(d) < 0) {
          size = std::max(size, shape.dim(d));
        } else if (shape.dim(d) > size) {
          return errors::DataLoss("Input element had shape (", shape, ") that is larger than the row shape (",
                                  row_shape_, ").");
        }
      }
      entries += shape.num_elements();
    }
    MR_ASSIGN_OR_RETURN(Tensor indices,
                        Tensor::Allocate(DataType::kInt64, TensorShape({entries, rank + 1}), allocator));
    MR_ASSIGN_OR_RETURN(Tensor values, Zeros(input().types()[0], TensorShape({entries}), allocator));
    int64_t at = 0;
    for (size_t k = 0; k < elements.size(); ++k) {
      const Tensor& row = elements[k][0];
      CopyInto(&values, at, row);
      for (int64_t i = 0; i < row.num_elements(); ++i, ++at) {
        int64_t* const index = indices.data<int64_t>() + at * (rank + 1);
        index[0] = static_cast<int64_t>(k);
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; --d) {
          index[d + 1] = rest % row.dim(d);
          rest /= row.dim(d);
        }
      }
    }
    Tensor dense_shape = Tensor::Vector<int64_t>(std::span<const int64_t>(sizes.data(), sizes.size()));
    Tensor out(DataType::kVariant, TensorShape({3}));
    if (!out.IsInitialized()) return errors::ResourceExhausted("No memory for a sparse batch");
    // In the form that ops expect which take sparse tensors apart.
    auto* const parts = out.data<Variant>();
    parts[0] = VariantData("tensorflow::Tensor", "", {std::move(indices)});
    parts[1] = VariantData("tensorflow::Tensor", "", {std::move(values)});
    parts[2] = VariantData("tensorflow::Tensor", "", {std::move(dense_shape)});
    return Element{std::move(out)};
  }

 private:
  const PartialShape row_shape_;
};

StatusOr<int64_t> BatchSize(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(const int64_t size, args.Scalar<int64_t>("batch_size"));
  if (size > 0) return size;
  return errors::InvalidArgument("Batch size must be greater than zero.");
}

StatusOr<bool> DropRemainder(const NodeArgs& args) {
  if (!args.op().ends_with("V2")) return false;
  return args.Scalar<bool>("drop_remainder");
}

StatusOr<BatchingDataset::Options> BatchOptions(const NodeArgs& args) {
  BatchingDataset::Options options;
  MR_ASSIGN_OR_RETURN(options.size, BatchSize(args));
  MR_ASSIGN_OR_RETURN(options.drop_remainder, DropRemainder(args));
  if (args.op().ends_with("V2")) {
    MR_ASSIGN_OR_RETURN(options.parallel_copy, args.Attr<bool>("parallel_copy"));
  }
  return options;
}

StatusOr<RefPtr<const Dataset>> MakeBatch(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const auto options, BatchOptions(args));
  return MakeRefDataset<BatchDataset>(args.Kind(), std::move(signature), std::move(input), options);
}

StatusOr<RefPtr<const Dataset>> MakePaddedBatch(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const auto options, BatchOptions(args));
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> shapes, args.Values("padded_shapes"));
  MR_ASSIGN_OR_RETURN(std::vector<Tensor> values, args.Values("padding_values"));
  if (shapes.size() != input->types().size()) {
    return errors::InvalidArgument("Number of padded shapes (", shapes.size(),
                                   ") must match the number of components in the input dataset's elements (",
                                   input->types().size(), ")");
  }
  if (values.size() != shapes.size()) {
    return errors::InvalidArgument("Number of padding values (", values.size(),
                                   ") must match the number of components in the input dataset's elements (",
                                   input->types().size(), ")");
  }
  std::vector<PartialShape> padded;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!shapes[i].shape().IsVector()) return errors::InvalidArgument("All padded shapes must be vectors");
    MR_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::Make(shapes[i].flat<int64_t>()));
    padded.push_back(std::move(shape));
    if (!values[i].shape().IsScalar()) return errors::InvalidArgument("All padding values must be scalars");
    if (values[i].dtype() != input->types()[i]) {
      return errors::InvalidArgument(
          "Mismatched type between padding value ", i, " and input dataset's component ", i, ": ",
          DataTypeName(values[i].dtype()), " vs. ", DataTypeName(input->types()[i]));
    }
  }
  return MakeRefDataset<PaddedBatchDataset>(args.Kind(), std::move(signature), std::move(input), options,
                                            std::move(padded), std::move(values));
}

StatusOr<RefPtr<const Dataset>> MakeDenseToSparse(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t size, BatchSize(args));
  MR_ASSIGN_OR_RETURN(const Tensor row_shape, args.Value("row_shape"));
  if (input->types().size() != 1) {
    return errors::InvalidArgument("DenseToSparseDataset only supports inputs with a single component.");
  }
  if (!row_shape.shape().IsVector()) return errors::InvalidArgument("row_shape must be a vector");
  if (signature.types.size() != 1) {
    return errors::InvalidArgument("DenseToSparseBatchDataset gives one component");
  }
  MR_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::Make(row_shape.flat<int64_t>()));
  return MakeRefDataset<DenseToSparseDataset>(args.Kind(), std::move(signature), std::move(input), size,
                                              std::move(shape));
}

// Parallel calls of a function, and batches of the results.
StatusOr<RefPtr<const Dataset>> MakeMapAndBatch(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(auto f, args.Function("f"));
  MR_ASSIGN_OR_RETURN(const int64_t size, BatchSize(args));
  MR_ASSIGN_OR_RETURN(const int64_t calls, args.Scalar<int64_t>("num_parallel_calls"));
  MR_ASSIGN_OR_RETURN(const Parallelism parallelism, ParallelismOf(calls));
  MR_ASSIGN_OR_RETURN(const bool drop, args.Scalar<bool>("drop_remainder"));
  MR_ASSIGN_OR_RETURN(const bool keeps, args.Attr<bool>("preserve_cardinality"));
  Dataset::Signature rows{signature.types, std::vector<PartialShape>(signature.shapes.size())};
  auto mapped = calls == 1 ? MapInOrder(args.Kind(), std::move(rows), std::move(input), std::move(f), keeps)
                           : MapInParallel(args.Kind(), std::move(rows), std::move(input),
                                           FunctionOfGraph(std::move(f)), parallelism, false, keeps, size);
  return BatchesOf(args.Kind(), std::move(signature), std::move(mapped), size, drop);
}

}  // namespace

RefPtr<const Dataset> BatchesOf(std::string kind, Dataset::Signature signature, RefPtr<const Dataset> input,
                                int64_t size, bool drop_remainder) {
  return MakeRefDataset<BatchDataset>(
      std::move(kind), std::move(signature), std::move(input),
      BatchingDataset::Options{.size = size, .drop_remainder = drop_remainder});
}

void RegisterBatchDatasets(KernelRegistry& registry) {
  for (const char* op : {"BatchDataset", "BatchDatasetV2"}) RegisterDataset(registry, op, MakeBatch);
  for (const char* op : {"PaddedBatchDataset", "PaddedBatchDatasetV2"})
    RegisterDataset(registry, op, MakePaddedBatch);
  RegisterDataset(registry, "DenseToSparseBatchDataset", MakeDenseToSparse);
  RegisterDataset(registry, "MapAndBatchDataset", MakeMapAndBatch);
}

}  // namespace millrace::data
