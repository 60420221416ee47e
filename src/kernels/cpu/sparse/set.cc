// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sets: the values of each row of the last dimension, of dense and sparse tensors.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/sparse/index_text.h"
#include "kernels/cpu/sparse/util.h"

namespace millrace {
namespace {

enum class SetOp { kAMinusB, kBMinusA, kIntersection, kUnion };

std::optional<SetOp> ParseSetOp(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text == "a-b") return SetOp::kAMinusB;
  if (text == "b-a") return SetOp::kBMinusA;
  if (text == "intersection") return SetOp::kIntersection;
  if (text == "union") return SetOp::kUnion;
  return std::nullopt;
}

// Each distinct value of each row that has any, sorted; rows by index.
template <typename T>
using Sets = std::map<std::vector<int64_t>, std::vector<T>>;

template <typename T>
void MakeSets(Sets<T>* sets) {
  for (auto& [row, values] : *sets) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
}

StatusOr<std::vector<int64_t>> GroupShape(std::span<const int64_t> shape) {
  if (shape.size() < 2) {
    return errors::InvalidArgument("Expected rank of at least 2 for sets, got shape ", IndexListText(shape));
  }
  return std::vector<int64_t>(shape.begin(), shape.end() - 1);
}

template <typename T>
Sets<T> SetsOfDense(const Tensor& tensor) {
  Sets<T> sets;
  const int64_t width = tensor.dim(tensor.rank() - 1);
  const T* next = tensor.data<T>();
  std::vector<int64_t> row(static_cast<size_t>(tensor.rank() - 1), 0);
  for (int64_t left = width == 0 ? 0 : tensor.num_elements() / width; left > 0; --left, next += width) {
    sets.emplace_hint(sets.end(), row, std::vector<T>(next, next + width));
    for (size_t d = row.size(); d-- > 0;) {
      if (++row[d] < tensor.dim(static_cast<int>(d))) break;
      row[d] = 0;
    }
  }
  MakeSets(&sets);
  return sets;
}

template <typename T>
Sets<T> SetsOfSparse(const SparseParts& sparse) {
  Sets<T> sets;
  std::vector<T>* last = nullptr;
  for (int64_t i = 0; i < sparse.size(); ++i) {
    const int64_t *const index = sparse.index(i), *const end = index + sparse.rank() - 1;
    // Most are in the row of the one before.
    if (last == nullptr || !std::equal(index, end, sparse.index(i - 1)))
      last = &sets[std::vector<int64_t>(index, end)];
    last->push_back(sparse.values->data<T>()[i]);
  }
  MakeSets(&sets);
  return sets;
}

// Indices within the shape, in ascending order.
Status CheckOrdered(const SparseParts& sparse) {
  MR_RETURN_IF_ERROR(CheckInBounds(sparse));
  for (int64_t i = 1; i < sparse.size(); ++i) {
    const int64_t *const a = sparse.index(i - 1), *const b = sparse.index(i);
    if (std::lexicographical_compare(a, a + sparse.rank(), b, b + sparse.rank())) continue;
    return errors::InvalidArgument("indices[", i,
                                   "] = ", IndexListText({b, static_cast<size_t>(sparse.rank())}),
                                   std::equal(a, a + sparse.rank(), b) ? " is repeated" : kOutOfOrder);
  }
  return Status();
}

template <typename T>
std::vector<T> Combine(SetOp op, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> out;
  const auto to = std::back_inserter(out);
  switch (op) {
    case SetOp::kAMinusB:
      std::set_difference(a.begin(), a.end(), b.begin(), b.end(), to);
      break;
    case SetOp::kBMinusA:
      std::set_difference(b.begin(), b.end(), a.begin(), a.end(), to);
      break;
    case SetOp::kIntersection:
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), to);
      break;
    case SetOp::kUnion:
      std::set_union(a.begin(), a.end(), b.begin(), b.end(), to);
      break;
  }
  return out;
}

// A sparse tensor with the combined sets, in the rows that have something.
template <typename T>
Status PutSets(KernelContext& context, SetOp op, const Sets<T>& a, const Sets<T>& b,
               const std::vector<int64_t>& groups) {
  Sets<T> combined;
  const std::vector<T> none;
  int64_t count = 0, largest = 0;
  const auto add = [&](const std::vector<int64_t>& row, const std::vector<T>& x, const std::vector<T>& y) {
    std::vector<T> values = Combine(op, x, y);
    if (values.empty()) return;
    count += static_cast<int64_t>(values.size());
    largest = std::max(largest, static_cast<int64_t>(values.size()));
    combined.emplace_hint(combined.end(), row, std::move(values));
  };
  for (const auto& [row, values] : a) {
    const auto other = b.find(row);
    add(row, values, other == b.end() ? none : other->second);
  }
  for (const auto& [row, values] : b) {
    if (!a.contains(row)) add(row, none, values);
  }
  const auto rank = static_cast<int64_t>(groups.size()) + 1;
  MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({count, rank})));
  MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(1, TensorShape({count})));
  MR_ASSIGN_OR_RETURN(Tensor* const shape, context.AllocateOutput(2, TensorShape({rank})));
  int64_t* index = indices->data<int64_t>();
  T* value = out->data<T>();
  for (const auto& [row, values] : combined) {
    for (size_t i = 0; i < values.size(); ++i) {
      index = std::copy(row.begin(), row.end(), index);
      *index++ = static_cast<int64_t>(i);
      *value++ = values[i];
    }
  }
  std::copy(groups.begin(), groups.end(), shape->data<int64_t>());
  shape->data<int64_t>()[rank - 1] = largest;
  return Status();
}

template <typename Fn>
Status VisitElement(const KernelContext& context, DataType dtype, Fn&& fn) {
  return VisitDataType(dtype, NoSuchType(context, dtype), [&]<typename T>() -> Status {
    if constexpr (std::is_same_v<T, std::string> || (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
      return fn.template operator()<T>();
    } else {
      return NoSuchType(context, dtype);
    }
  });
}

// Set operations of two operands, each of which is dense (one input) or sparse (three).
template <bool kSparseA, bool kSparseB>
class SetOperationKernel final : public OpKernel {
 public:
  explicit SetOperationKernel(KernelConstruction& c)
      : OpKernel(c), validate_(c.Attr<bool>("validate_indices")) {
    const auto text = c.Attr<std::string>("set_operation");
    if (const auto parsed = ParseSetOp(text); parsed.has_value()) {
      op_ = *parsed;
    } else {
      c.SetError(errors::InvalidArgument("Invalid set_operation ", text, "."));
    }
  }

  Status Compute(KernelContext& context) override {
    constexpr int kSecond = kSparseA ? 3 : 1;
    SparseParts a, b;
    std::vector<int64_t> groups, other;
    MR_RETURN_IF_ERROR(ReadOperand<kSparseA>(context, 0, &a, &groups));
    MR_RETURN_IF_ERROR(ReadOperand<kSparseB>(context, kSecond, &b, &other));
    if (groups != other) {
      return errors::InvalidArgument("Mismatched group shapes of sets: ", IndexListText(groups), " vs ",
                                     IndexListText(other));
    }
    const DataType dtype = context.output_type(1);
    return VisitElement(context, dtype, [&]<typename T>() {
      return PutSets<T>(context, op_, SetsOf<T, kSparseA>(context, 0, a),
                        SetsOf<T, kSparseB>(context, kSecond, b), groups);
    });
  }

 private:
  template <bool kSparse>
  Status ReadOperand(const KernelContext& context, int first, SparseParts* sparse,
                     std::vector<int64_t>* groups) const {
    if constexpr (kSparse) {
      MR_ASSIGN_OR_RETURN(
          *sparse, ReadSparse(context.input(first), context.input(first + 1), context.input(first + 2)));
      MR_ASSIGN_OR_RETURN(*groups, GroupShape(sparse->shape));
      return validate_ ? CheckOrdered(*sparse) : CheckInBounds(*sparse);
    } else {
      MR_ASSIGN_OR_RETURN(*groups, GroupShape(context.input(first).shape().dims()));
      return Status();
    }
  }

  template <typename T, bool kSparse>
  static Sets<T> SetsOf(const KernelContext& context, int first, const SparseParts& sparse) {
    if constexpr (kSparse) {
      return SetsOfSparse<T>(sparse);
    } else {
      return SetsOfDense<T>(context.input(first));
    }
  }

  SetOp op_ = SetOp::kUnion;
  const bool validate_;
};

class SetSizeKernel final : public OpKernel {
 public:
  explicit SetSizeKernel(KernelConstruction& c) : OpKernel(c), validate_(c.Attr<bool>("validate_indices")) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    MR_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, GroupShape(sparse.shape));
    MR_RETURN_IF_ERROR(validate_ ? CheckOrdered(sparse) : CheckInBounds(sparse));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(groups));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    std::fill_n(out->data<int32_t>(), out->num_elements(), 0);
    return VisitElement(context, sparse.values->dtype(), [&]<typename T>() {
      for (const auto& [row, values] : SetsOfSparse<T>(sparse)) {
        int64_t place = 0;
        for (size_t d = 0; d < row.size(); ++d) place = place * groups[d] + row[d];
        out->data<int32_t>()[place] = static_cast<int32_t>(values.size());
      }
      return Status();
    });
  }

 private:
  const bool validate_;
};

}  // namespace

void RegisterSetKernels(KernelRegistry& registry) {
  registry.Register<SetOperationKernel<false, false>>(KernelDef("DenseToDenseSetOperation"));
  registry.Register<SetOperationKernel<false, true>>(KernelDef("DenseToSparseSetOperation"));
  registry.Register<SetOperationKernel<true, true>>(KernelDef("SparseToSparseSetOperation"));
  registry.Register<SetSizeKernel>(KernelDef("SetSize"));
}

}  // namespace millrace
