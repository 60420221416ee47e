// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// RaggedTensorToVariant and RaggedTensorFromVariant: a ragged tensor as one element of a variant tensor, a
// vector of its splits and its values.
#include <string>
#include <vector>

#include "kernels/cpu/move.h"
#include "kernels/cpu/ragged/splits.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

// TensorFlow's name for variants that contain a tensor.
constexpr char kTensorInVariant[] = "tensorflow::Tensor";

struct Ragged {
  std::vector<Tensor> splits;
  Tensor values;
};

Variant InVariant(Tensor t) { return VariantData(kTensorInVariant, "", {std::move(t)}); }

// Null if it contains no tensor.
const Tensor* TensorIn(const Variant& v) {
  const auto* data = v.get<VariantData>();
  return data != nullptr && data->type_name == kTensorInVariant && data->tensors.size() == 1
             ? &data->tensors[0]
             : nullptr;
}

StatusOr<Tensor> ListOf(Ragged ragged) {
  const auto n = static_cast<int64_t>(ragged.splits.size());
  MR_ASSIGN_OR_RETURN(Tensor list, Tensor::Allocate(DataType::kVariant, TensorShape({n + 1})));
  for (int64_t i = 0; i < n; ++i)
    list.data<Variant>()[i] = InVariant(std::move(ragged.splits[static_cast<size_t>(i)]));
  list.data<Variant>()[n] = InVariant(std::move(ragged.values));
  return list;
}

// Copies `from` to the elements of `to` from `at` on.
void CopyElements(const Tensor& from, Tensor* to, int64_t at) {
  cpu::SerialParallel serial;
  MoveElements(from.dtype(), from.raw_data(), ElementAt(to->raw_data(), to->dtype(), at), from.num_elements(),
               serial);
}

// Rows [begin, end) of a tensor, copied.
StatusOr<Tensor> CopyRows(const Tensor& from, int64_t begin, int64_t end) {
  TensorShape shape = from.shape();
  shape.SetDim(0, end - begin);
  MR_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(from.dtype(), shape));
  if (out.num_elements() > 0) CopyElements(from.Slice(begin, end), &out, 0);
  return out;
}

class ToVariantKernel final : public OpKernel {
 public:
  explicit ToVariantKernel(KernelConstruction& c)
      : OpKernel(c), depth_(num_inputs() - 1), batched_(c.Attr<bool>("batched_input")) {}
  Status Compute(KernelContext& context) override {
    Ragged all;
    for (int d = 0; d < depth_; ++d) all.splits.push_back(context.input(d));
    all.values = context.input(depth_);
    if (!batched_) {
      MR_ASSIGN_OR_RETURN(Tensor list, ListOf(std::move(all)));
      MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
      out->scalar<Variant>() = InVariant(std::move(list));
      return Status();
    }
    MR_RETURN_IF_ERROR(Check(all));
    const int64_t rows = all.splits[0].num_elements() - 1;
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({rows})));
    for (int64_t i = 0; i < rows; ++i) {
      if (context.step().cancellation->IsCancelled()) return errors::Cancelled("The step was cancelled");
      MR_ASSIGN_OR_RETURN(Ragged row, Row(all, i));
      MR_ASSIGN_OR_RETURN(Tensor list, ListOf(std::move(row)));
      out->data<Variant>()[i] = InVariant(std::move(list));
    }
    return Status();
  }

 private:
  // Checks that splits are within bounds: those of the next depth, and finally of the values.
  Status Check(const Ragged& all) const {
    if (all.values.rank() == 0) return errors::InvalidArgument("rt_dense_values must not be a scalar");
    for (size_t d = 0; d < all.splits.size(); ++d) {
      const Tensor& splits = all.splits[d];
      if (splits.rank() != 1 || splits.num_elements() == 0) {
        return errors::InvalidArgument(
            "Invalid split argument. Splits must be a vector of at least one, got ", splits.shape());
      }
      const int64_t limit =
          d + 1 < all.splits.size() ? all.splits[d + 1].num_elements() - 1 : all.values.dim(0);
      for (int64_t i = 0; i < splits.num_elements(); ++i) {
        const int64_t value = IntValue(splits, i);
        if (value < (i == 0 ? 0 : IntValue(splits, i - 1)) || value > limit) {
          return errors::InvalidArgument("Invalid split argument. Splits ", d, " have ", value, " at ", i,
                                         ", which descends or is beyond ", limit);
        }
      }
    }
    return Status();
  }

  static StatusOr<Ragged> Row(const Ragged& all, int64_t i) {
    Ragged row;
    int64_t begin = IntValue(all.splits[0], i), end = IntValue(all.splits[0], i + 1);
    for (size_t d = 1; d < all.splits.size(); ++d) {
      const Tensor& from = all.splits[d];
      MR_ASSIGN_OR_RETURN(Tensor splits, Tensor::Allocate(from.dtype(), TensorShape({end - begin + 1})));
      const int64_t base = IntValue(from, begin);
      for (int64_t k = begin; k <= end; ++k) {
        // A difference of two splits fits their type.
        ragged::PutIndex(&splits, k - begin, IntValue(from, k) - base);
      }
      row.splits.push_back(std::move(splits));
      const int64_t last = IntValue(from, end);
      begin = base;
      end = last;
    }
    MR_ASSIGN_OR_RETURN(row.values, CopyRows(all.values, begin, end));
    return row;
  }

  const int depth_;
  const bool batched_;
};

class FromVariantKernel final : public OpKernel {
 public:
  explicit FromVariantKernel(KernelConstruction& c)
      : OpKernel(c),
        input_rank_(c.Attr<int64_t>("input_ragged_rank")),
        output_rank_(c.Attr<int64_t>("output_ragged_rank")),
        splits_type_(c.Attr<DataType>("Tsplits")),
        values_type_(c.Attr<DataType>("Tvalues")) {}

  Status Compute(KernelContext& context) override {
    const Tensor& encoded = context.input(0);
    const int64_t input_rank = input_rank_ >= 0 ? input_rank_ : output_rank_ - encoded.rank();
    if (input_rank < 0) {
      return errors::InvalidArgument(
          "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= 0, found "
          "output_ragged_rank: ",
          output_rank_, ", encoded_variant.dims(): ", encoded.rank(),
          ", inferred input_ragged_rank: ", input_rank);
    }
    if (output_rank_ - input_rank != encoded.rank()) {
      return errors::InvalidArgument(
          "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
          "output_ragged_rank: ",
          output_rank_, ", input_ragged_rank: ", input_rank, ", encoded_variant.dims(): ", encoded.rank(),
          ".");
    }
    std::vector<Ragged> parts;
    for (int64_t i = 0; i < encoded.num_elements(); ++i) {
      MR_ASSIGN_OR_RETURN(Ragged part, Decode(encoded.data<Variant>()[i], i, input_rank));
      parts.push_back(std::move(part));
    }
    Ragged out;
    if (encoded.rank() == 0) {
      out = std::move(parts[0]);
    } else {
      MR_ASSIGN_OR_RETURN(out, Stack(parts, encoded.shape(), input_rank));
    }
    for (size_t d = 0; d < out.splits.size(); ++d)
      context.set_output(static_cast<int>(d), std::move(out.splits[d]));
    context.set_output(static_cast<int>(output_rank_), std::move(out.values));
    return Status();
  }

 private:
  StatusOr<Ragged> Decode(const Variant& element, int64_t i, int64_t rank) const {
    const Tensor* list = TensorIn(element);
    if (list == nullptr || list->dtype() != DataType::kVariant) {
      return errors::InvalidArgument("Input Variant element at index ", i,
                                     " doesn't hold a Tensor: ", element.TypeName());
    }
    if (list->rank() != 1) {
      return errors::InvalidArgument("Encoded input Variant must have rank 1, but found rank: ", list->rank(),
                                     ". encoded input Variant: ", element.TypeName());
    }
    if (list->num_elements() != rank + 1) {
      return errors::InvalidArgument(
          "Encoded input Variant must hold either input_ragged_rank + 1 Tensors or an empty Tensor (zero "
          "splits "
          "Tensors, 1 values Tensor), input_ragged_rank: ",
          rank, ", encoded input Variant has ", list->num_elements());
    }
    Ragged out;
    for (int64_t d = 0; d < rank; ++d) {
      const Tensor* splits = TensorIn(list->data<Variant>()[d]);
      if (splits == nullptr) {
        return errors::InvalidArgument("Encoded scalar element at index ", i,
                                       " doesn't have a splits Tensor at split_index ", d, ": ",
                                       list->data<Variant>()[d].TypeName());
      }
      if (splits->dtype() != splits_type_) {
        return errors::InvalidArgument("Expected row_splits Tensor dtype: ", DataTypeName(splits_type_),
                                       ", found: ", DataTypeName(splits->dtype()));
      }
      if (splits->rank() != 1 || splits->num_elements() == 0) {
        return errors::InvalidArgument("Ragged splits must have rank 1; encoded scalar element at index ", i,
                                       " has splits Tensor at split_index ", d, ": ", splits->shape());
      }
      out.splits.push_back(*splits);
    }
    const Tensor* values = TensorIn(list->data<Variant>()[rank]);
    if (values == nullptr) {
      return errors::InvalidArgument("Encoded scalar element at index ", i, " doesn't have a values Tensor: ",
                                     list->data<Variant>()[rank].TypeName());
    }
    if (values->dtype() != values_type_) {
      return errors::InvalidArgument("Expected values Tensor dtype: ", DataTypeName(values_type_),
                                     ", found: ", DataTypeName(values->dtype()));
    }
    if (values->rank() < 1) {
      return errors::InvalidArgument("Ragged values must have rank >= 1; encoded scalar element at index ", i,
                                     " has values Tensor: ", values->shape());
    }
    out.values = *values;
    return out;
  }

  // Splits of `rows` rows of `each` values.
  StatusOr<Tensor> Uniform(int64_t rows, int64_t each) const {
    MR_ASSIGN_OR_RETURN(Tensor splits, Tensor::Allocate(splits_type_, TensorShape({rows + 1})));
    for (int64_t i = 0; i <= rows; ++i)
      if (!ragged::PutIndex(&splits, i, i * each)) return ragged::TooLong(i * each);
    return splits;
  }

  // Adds the dimensions of `shape` around the ragged tensors.
  StatusOr<Ragged> Stack(const std::vector<Ragged>& parts, const TensorShape& shape, int64_t rank) const {
    Ragged out;
    int64_t rows = 1;
    for (int d = 0; d + 1 < shape.rank(); ++d) {
      rows *= shape.dim(d);
      MR_ASSIGN_OR_RETURN(Tensor splits, Uniform(rows, shape.dim(d + 1)));
      out.splits.push_back(std::move(splits));
    }
    // First the rows of each part, then the concatenated splits of each depth of all parts.
    for (int64_t d = -1; d < rank; ++d) {
      MR_ASSIGN_OR_RETURN(Tensor splits, Joined(parts, d, rank));
      out.splits.push_back(std::move(splits));
    }
    MR_ASSIGN_OR_RETURN(out.values, JoinedValues(parts));
    return out;
  }

  StatusOr<Tensor> Joined(const std::vector<Ragged>& parts, int64_t depth, int64_t rank) const {
    const auto at = static_cast<size_t>(std::max<int64_t>(depth, 0));
    int64_t n = 1;
    for (const Ragged& p : parts) n += depth < 0 ? 1 : p.splits[at].num_elements() - 1;
    MR_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(splits_type_, TensorShape({n})));
    int64_t to = 0, base = 0;
    ragged::PutIndex(&out, to++, 0);
    for (const Ragged& p : parts) {
      if (depth < 0) {
        base += rank > 0 ? p.splits[0].num_elements() - 1 : p.values.dim(0);
        if (!ragged::PutIndex(&out, to++, base)) return ragged::TooLong(base);
        continue;
      }
      const Tensor& splits = p.splits[at];
      const int64_t last = splits.num_elements() - 1;
      for (int64_t i = 1; i <= last; ++i) {
        const int64_t value = IntValue(splits, i);
        int64_t sum;
        if (value < 0 || __builtin_add_overflow(base, value, &sum))
          return errors::InvalidArgument("Ragged splits must not be negative, got ", value);
        if (!ragged::PutIndex(&out, to++, sum)) return ragged::TooLong(sum);
      }
      if (const int64_t more = last >= 1 ? IntValue(splits, last) : 0;
          __builtin_add_overflow(base, more, &base)) {
        return errors::InvalidArgument("Ragged splits are too large: ", more);
      }
    }
    return out;
  }

  StatusOr<Tensor> JoinedValues(const std::vector<Ragged>& parts) const {
    if (parts.empty()) return Tensor::Allocate(values_type_, TensorShape({0}));
    TensorShape shape = parts[0].values.shape();
    int64_t rows = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      TensorShape one = parts[i].values.shape();
      rows += one.dim(0);
      one.SetDim(0, shape.dim(0));
      if (one != shape) {
        return errors::InvalidArgument(
            "All flat_values must have compatible shapes.  Shape at index 0: ", parts[0].values.shape(),
            ".  Shape at index ", i, ": ", parts[i].values.shape());
      }
    }
    Dims dims;
    for (const int64_t d : shape.dims()) dims.push_back(d);
    dims[0] = rows;
    MR_ASSIGN_OR_RETURN(const TensorShape all, TensorShape::Make(dims));
    MR_ASSIGN_OR_RETURN(Tensor out, Tensor::Allocate(values_type_, all));
    int64_t at = 0;
    for (const Ragged& p : parts) {
      if (p.values.num_elements() > 0) CopyElements(p.values, &out, at);
      at += p.values.num_elements();
    }
    return out;
  }

  const int64_t input_rank_;  // -1: inferred from the rank of the input
  const int64_t output_rank_;
  const DataType splits_type_, values_type_;
};

}  // namespace

void RegisterRaggedVariantKernels(KernelRegistry& registry) {
  registry.Register<ToVariantKernel>(KernelDef("RaggedTensorToVariant").Types("Tsplits", IndexTypes()));
  registry.Register<FromVariantKernel>(KernelDef("RaggedTensorFromVariant").Types("Tsplits", IndexTypes()));
}

}  // namespace millrace
