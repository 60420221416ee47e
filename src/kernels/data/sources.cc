// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Datasets of tensors and numbers.
#include <algorithm>
#include <cstring>

#include "base/random/philox_stream.h"
#include "data/batch.h"
#include "device/device.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/register.h"
#include "tensor/dtype_table.h"

namespace millrace::data {
namespace {

// An iterator that counts up.
class CountingIterator : public Iterator {
 public:
  bool MayWait(int64_t /*n*/) const override { return false; }
  Status Save(Context& /*ctx*/, StateWriter& state) override {
    state.Write("next", next_);
    return Status();
  }
  Status Restore(Context& /*ctx*/, const StateReader& state) override {
    MR_ASSIGN_OR_RETURN(next_, state.Int("next"));
    return Status();
  }

 protected:
  int64_t next_ = 0;
};

class TensorDataset final : public Dataset {
 public:
  TensorDataset(std::string kind, Signature signature, Element element)
      : Dataset(std::move(kind), std::move(signature)), element_(std::move(element)) {}
  int64_t Cardinality() const override { return 1; }

 protected:
  class It final : public CountingIterator {
   public:
    explicit It(const TensorDataset& dataset) : dataset_(dataset) {}
    Status GetNext(Context& /*ctx*/, Element* out, bool* end) override {
      if (next_ > 0) {
        *end = true;
        return Status();
      }
      *out = dataset_.element_;
      next_ = 1;
      return Status();
    }

   private:
    const TensorDataset& dataset_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const Element element_;
};

// Row `i` of a tensor.
StatusOr<Tensor> Row(const Tensor& from, int64_t i, const TensorShape& shape) {
  MR_ASSIGN_OR_RETURN(Tensor row, Tensor::Allocate(from.dtype(), shape));
  CopyInto(&row, 0, from.Slice(i, i + 1));
  return row;
}

class TensorSliceDataset final : public Dataset {
 public:
  TensorSliceDataset(std::string kind, Signature signature, Element components)
      : Dataset(std::move(kind), std::move(signature)), components_(std::move(components)) {
    for (const Tensor& t : components_) {
      TensorShape shape = t.shape();
      shape.RemoveDim(0);
      row_shapes_.push_back(std::move(shape));
    }
  }
  int64_t Cardinality() const override { return components_[0].dim(0); }

 protected:
  class It final : public CountingIterator {
   public:
    explicit It(const TensorSliceDataset& dataset) : dataset_(dataset) {}
    Status GetNext(Context& /*ctx*/, Element* out, bool* end) override {
      if (next_ < 0 || next_ >= dataset_.Cardinality()) {
        *end = true;
        return Status();
      }
      out->clear();
      for (size_t c = 0; c < dataset_.components_.size(); ++c) {
        MR_ASSIGN_OR_RETURN(Tensor row, Row(dataset_.components_[c], next_, dataset_.row_shapes_[c]));
        out->push_back(std::move(row));
      }
      ++next_;
      return Status();
    }
    bool GivesRows() const override { return true; }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      out->clear();
      *got = next_ < 0 ? 0 : std::min(n, std::max<int64_t>(0, dataset_.Cardinality() - next_));
      if (*got == 0) return Status();
      for (const Tensor& from : dataset_.components_) {
        TensorShape shape = from.shape();
        shape.SetDim(0, *got);
        MR_ASSIGN_OR_RETURN(Tensor rows,
                            Tensor::Allocate(from.dtype(), shape, ctx.runtime->device->host_allocator()));
        CopyInto(&rows, 0, from.Slice(next_, next_ + *got));
        out->push_back(std::move(rows));
      }
      next_ += *got;
      return Status();
    }

   private:
    const TensorSliceDataset& dataset_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const Element components_;
  std::vector<TensorShape> row_shapes_;
};

// The rows of a sparse tensor: for each the indices, the values and the dense shape without the first
// dimension.
class SparseSliceDataset final : public Dataset {
 public:
  SparseSliceDataset(std::string kind, Tensor indices, Tensor values, Tensor dense_shape)
      : Dataset(std::move(kind), SignatureOf(values, dense_shape)),
        indices_(std::move(indices)),
        values_(std::move(values)),
        dense_shape_(std::move(dense_shape)) {}
  int64_t Cardinality() const override { return dense_shape_.data<int64_t>()[0]; }

 protected:
  class It final : public CountingIterator {
   public:
    explicit It(const SparseSliceDataset& dataset) : dataset_(dataset) {}
    Status GetNext(Context& /*ctx*/, Element* out, bool* end) override {
      if (next_ < 0 || next_ >= dataset_.Cardinality()) {
        *end = true;
        return Status();
      }
      const Tensor& indices = dataset_.indices_;
      const int64_t rank = indices.dim(1);
      const int64_t* const rows = indices.data<int64_t>();
      // The entries are in order, so those of each row are contiguous.
      const int64_t begin = at_;
      while (at_ < indices.dim(0) && rows[at_ * rank] == next_) ++at_;
      const int64_t n = at_ - begin;
      MR_ASSIGN_OR_RETURN(Tensor where, Tensor::Allocate(DataType::kInt64, TensorShape({n, rank - 1})));
      for (int64_t i = 0; i < n && rank > 1; ++i) {
        std::copy_n(rows + (begin + i) * rank + 1, rank - 1, where.data<int64_t>() + i * (rank - 1));
      }
      MR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(dataset_.values_.dtype(), TensorShape({n})));
      CopyInto(&values, 0, dataset_.values_.Slice(begin, at_));
      MR_ASSIGN_OR_RETURN(Tensor shape, Tensor::Allocate(DataType::kInt64, TensorShape({rank - 1})));
      std::copy_n(dataset_.dense_shape_.data<int64_t>() + 1, rank - 1, shape.data<int64_t>());
      out->clear();
      out->push_back(std::move(where));
      out->push_back(std::move(values));
      out->push_back(std::move(shape));
      ++next_;
      return Status();
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_RETURN_IF_ERROR(CountingIterator::Restore(ctx, state));
      const Tensor& indices = dataset_.indices_;
      at_ = 0;
      while (at_ < indices.dim(0) && indices.data<int64_t>()[at_ * indices.dim(1)] < next_) ++at_;
      return Status();
    }

   private:
    const SparseSliceDataset& dataset_;
    int64_t at_ = 0;  // the first entry after the earlier rows
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  static Signature SignatureOf(const Tensor& values, const Tensor& dense_shape) {
    const int64_t rank = dense_shape.num_elements();
    return {{DataType::kInt64, values.dtype(), DataType::kInt64},
            {PartialShape({-1, rank - 1}), PartialShape({-1}), PartialShape({rank - 1})}};
  }
  const Tensor indices_, values_, dense_shape_;
};

class RangeDataset final : public Dataset {
 public:
  RangeDataset(std::string kind, Signature signature, int64_t start, int64_t stop, int64_t step)
      : Dataset(std::move(kind), std::move(signature)), start_(start), stop_(stop), step_(step) {}
  int64_t Cardinality() const override {
    const auto distance = static_cast<uint64_t>(stop_) - static_cast<uint64_t>(start_);
    if (step_ > 0) {
      return stop_ <= start_ ? 0 : static_cast<int64_t>((distance - 1) / static_cast<uint64_t>(step_) + 1);
    }
    if (stop_ >= start_) return 0;
    return static_cast<int64_t>((0 - distance - 1) / (0 - static_cast<uint64_t>(step_)) + 1);
  }

 protected:
  class It final : public CountingIterator {
   public:
    explicit It(const RangeDataset& dataset) : dataset_(dataset) { next_ = dataset.start_; }
    Status GetNext(Context& /*ctx*/, Element* out, bool* end) override {
      if (ended_ || (dataset_.step_ > 0 ? next_ >= dataset_.stop_ : next_ <= dataset_.stop_)) {
        *end = true;
        return Status();
      }
      if (out->size() == 1 && (*out)[0].OwnsBufferAlone() && (*out)[0].dtype() == DataType::kInt64 &&
          (*out)[0].shape().IsScalar()) {
        *(*out)[0].data<int64_t>() = next_;
      } else {
        out->clear();
        out->push_back(Tensor::Scalar(next_));
      }
      ended_ = __builtin_add_overflow(next_, dataset_.step_, &next_);
      return Status();
    }
    bool GivesRows() const override { return true; }
    Status GetRows(Context& ctx, int64_t n, Element* out, int64_t* got) override {
      MR_ASSIGN_OR_RETURN(Tensor rows, Tensor::Allocate(DataType::kInt64, TensorShape({n}),
                                                        ctx.runtime->device->host_allocator()));
      int64_t* const numbers = rows.data<int64_t>();
      for (*got = 0; *got < n; ++*got) {
        if (ended_ || (dataset_.step_ > 0 ? next_ >= dataset_.stop_ : next_ <= dataset_.stop_)) break;
        numbers[*got] = next_;
        ended_ = __builtin_add_overflow(next_, dataset_.step_, &next_);
      }
      out->clear();
      out->push_back(*got == n ? std::move(rows) : rows.Slice(0, *got));
      return Status();
    }

   private:
    const RangeDataset& dataset_;
    bool ended_ = false;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  const int64_t start_, stop_, step_;
};

// Numbers of 32 bits from Philox.
class RandomDataset final : public Dataset {
 public:
  RandomDataset(std::string kind, Signature signature, int64_t seed, int64_t seed2)
      : Dataset(std::move(kind), std::move(signature)), seed_(seed), seed2_(seed2) {}
  int64_t Cardinality() const override { return kInfinite; }

 protected:
  class It final : public CountingIterator {
   public:
    explicit It(const RandomDataset& dataset) : dataset_(dataset), stream_(dataset.Generator()) {}
    Status GetNext(Context& /*ctx*/, Element* out, bool* /*end*/) override {
      out->clear();
      out->push_back(Tensor::Scalar(static_cast<int64_t>(stream_.Next32())));
      ++next_;
      return Status();
    }
    Status Restore(Context& ctx, const StateReader& state) override {
      MR_RETURN_IF_ERROR(CountingIterator::Restore(ctx, state));
      stream_ = PhiloxStream(dataset_.Generator(), static_cast<uint64_t>(next_));
      return Status();
    }

   private:
    const RandomDataset& dataset_;
    PhiloxStream stream_;
  };
  StatusOr<std::unique_ptr<Iterator>> MakeIterator(Context& /*ctx*/) const override {
    return std::unique_ptr<Iterator>(std::make_unique<It>(*this));
  }

 private:
  PhiloxRandom Generator() const {
    return PhiloxRandom(static_cast<uint64_t>(seed_), static_cast<uint64_t>(seed2_));
  }
  const int64_t seed_, seed2_;
};

StatusOr<RefPtr<const Dataset>> MakeTensor(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(Element components, args.Values("components"));
  MR_RETURN_IF_ERROR(CheckElement(signature, components));
  return MakeRefDataset<TensorDataset>(args.Kind(), std::move(signature), std::move(components));
}

StatusOr<RefPtr<const Dataset>> MakeTensorSlice(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(Element components, args.Values("components"));
  for (size_t i = 0; i < components.size(); ++i) {
    if (components[i].rank() == 0) {
      return errors::InvalidArgument("All components must be at least 1-dimensional");
    }
    if (components[i].dim(0) != components[0].dim(0)) {
      return errors::InvalidArgument("All components must have the same size in the 0th dimension");
    }
  }
  return MakeRefDataset<TensorSliceDataset>(args.Kind(), std::move(signature), std::move(components));
}

StatusOr<RefPtr<const Dataset>> MakeSparseSlice(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(const Tensor indices, args.Value("indices"));
  MR_ASSIGN_OR_RETURN(const Tensor values, args.Value("values"));
  MR_ASSIGN_OR_RETURN(const Tensor shape, args.Value("dense_shape"));
  if (!indices.shape().IsMatrix()) {
    return errors::InvalidArgument("Input indices should be a matrix but received shape ", indices.shape());
  }
  if (!values.shape().IsVector()) {
    return errors::InvalidArgument("Input values should be a vector but received shape ", values.shape());
  }
  if (!shape.shape().IsVector()) {
    return errors::InvalidArgument("Input shape should be a vector but received shape ", shape.shape());
  }
  if (indices.dim(0) != values.dim(0) || indices.dim(1) != shape.dim(0) || shape.dim(0) < 1) {
    return errors::InvalidArgument("The sizes of indices ", indices.shape(), ", values ", values.shape(),
                                   " and dense_shape ", shape.shape(), " do not fit each other");
  }
  const int64_t* const rows = indices.data<int64_t>();
  const int64_t* const sizes = shape.data<int64_t>();
  const int64_t rank = indices.dim(1);
  if (sizes[0] < 0) return errors::InvalidArgument("dense_shape[0] is negative: ", sizes[0]);
  for (int64_t i = 0; i < indices.dim(0); ++i) {
    if (i > 0 && rows[i * rank] < rows[(i - 1) * rank]) {
      return errors::Unimplemented(
          "The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is "
          "not currently supported.");
    }
    for (int64_t d = 0; d < rank; ++d) {
      if (rows[i * rank + d] >= 0 && rows[i * rank + d] < sizes[d]) continue;
      return errors::InvalidArgument("Index ", rows[i * rank + d], " of entry ", i, " is not in [0, ",
                                     sizes[d], ")");
    }
  }
  return MakeRefDataset<SparseSliceDataset>(args.Kind(), indices, values, shape);
}

StatusOr<RefPtr<const Dataset>> MakeRange(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(const int64_t start, args.Scalar<int64_t>("start"));
  MR_ASSIGN_OR_RETURN(const int64_t stop, args.Scalar<int64_t>("stop"));
  MR_ASSIGN_OR_RETURN(const int64_t step, args.Scalar<int64_t>("step"));
  if (step == 0) return errors::InvalidArgument("step must be a non-zero integer.");
  return MakeRefDataset<RangeDataset>(args.Kind(), std::move(signature), start, stop, step);
}

StatusOr<RefPtr<const Dataset>> MakeRandom(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(int64_t seed, args.Scalar<int64_t>("seed"));
  MR_ASSIGN_OR_RETURN(int64_t seed2, args.Scalar<int64_t>("seed2"));
  if (seed == 0 && seed2 == 0) {
    seed = static_cast<int64_t>(RandomSeed64());
    seed2 = static_cast<int64_t>(RandomSeed64());
  }
  return MakeRefDataset<RandomDataset>(args.Kind(), std::move(signature), seed, seed2);
}

}  // namespace

void RegisterSourceDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "TensorDataset", MakeTensor);
  RegisterDataset(registry, "TensorSliceDataset", MakeTensorSlice);
  RegisterDataset(registry, "SparseTensorSliceDataset", MakeSparseSlice);
  RegisterDataset(registry, "RangeDataset", MakeRange);
  RegisterDataset(registry, "RandomDataset", MakeRandom);
}

}  // namespace millrace::data
