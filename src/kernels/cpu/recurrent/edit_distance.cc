// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// EditDistance: Levenshtein's distance of pairs of sequences.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// The indices of the values of each sequence, by all but the last of their indices.
using Group = std::vector<int64_t>;
using Groups = std::map<Group, std::vector<int64_t>>;

StatusOr<Groups> ReadGroups(const Tensor& indices, const Tensor& values, const Dims& shape,
                            const char* name) {
  if (!indices.shape().IsMatrix())
    return errors::InvalidArgument(name, "_indices should be a matrix, but got shape: ", indices.shape());
  if (!values.shape().IsVector())
    return errors::InvalidArgument(name, "_values should be a vector, but got shape: ", values.shape());
  const auto rank = static_cast<int64_t>(shape.size());
  if (indices.dim(0) != values.dim(0) || indices.dim(1) != rank) {
    return errors::InvalidArgument(name, "_indices of shape ", indices.shape(), " do not fit ", values.dim(0),
                                   " values and a shape of ", rank, " dimensions");
  }
  Groups groups;
  for (int64_t i = 0; i < values.dim(0); ++i) {
    const int64_t* at = indices.data<int64_t>() + i * rank;
    for (int64_t d = 0; d < rank; ++d) {
      if (at[d] < 0 || at[d] >= shape[static_cast<uint32_t>(d)]) {
        return errors::InvalidArgument(name, "_indices[", i, "] is out of bounds: ", at[d], " is not in [0, ",
                                       shape[static_cast<uint32_t>(d)], ") of dimension ", d);
      }
    }
    groups[Group(at, at + rank - 1)].push_back(i);
  }
  return groups;
}

// Takes time in proportion to the product of the lengths; ends early, with any result, if cancelled.
template <typename T>
int64_t Distance(const CancellationManager& step, const T* a, const std::vector<int64_t>& in_a, const T* b,
                 const std::vector<int64_t>& in_b) {
  std::vector<int64_t> row(in_b.size() + 1);
  std::iota(row.begin(), row.end(), int64_t{0});
  for (size_t i = 0; i < in_a.size() && !step.IsCancelled(); ++i) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < in_b.size(); ++j) {
      const bool equal = a[in_a[i]] == b[in_b[j]];
      const int64_t best = std::min({row[j] + 1, row[j + 1] + 1, diagonal + (equal ? 0 : 1)});
      diagonal = row[j + 1];
      row[j + 1] = best;
    }
  }
  return row.back();
}

class EditDistanceKernel final : public OpKernel {
 public:
  explicit EditDistanceKernel(KernelConstruction& c) : OpKernel(c), normalizes_(c.Attr<bool>("normalize")) {}
  // Inputs: indices, values and shape of the hypotheses, and of the truths.
  Status Compute(KernelContext& context) override {
    const Tensor &h_shape = context.input(2), &t_shape = context.input(5);
    if (!h_shape.shape().IsVector() || !t_shape.shape().IsVector()) {
      return errors::InvalidArgument("hypothesis_shape and truth_shape should be vectors, but got shapes: ",
                                     h_shape.shape(), " and ", t_shape.shape());
    }
    const Dims h = IntValues(h_shape), t = IntValues(t_shape);
    if (h.size() != t.size() || h.size() < 1) {
      return errors::InvalidArgument(
          "Num elements of hypothesis_shape does not match truth_shape: ", h.size(), " vs. ", t.size());
    }
    MR_ASSIGN_OR_RETURN(const Groups hypotheses,
                        ReadGroups(context.input(0), context.input(1), h, "hypothesis"));
    MR_ASSIGN_OR_RETURN(const Groups truths, ReadGroups(context.input(3), context.input(4), t, "truth"));
    TensorShape shape;
    for (uint32_t d = 0; d + 1 < h.size(); ++d) MR_RETURN_IF_ERROR(shape.TryAddDim(std::max(h[d], t[d])));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    std::fill_n(out->data<float>(), out->num_elements(), 0.0f);
    const Dims strides = RowMajorStrides(shape.dims());
    const auto put = [&](const Group& group, float distance) {
      int64_t at = 0;
      for (uint32_t d = 0; d < strides.size(); ++d) at += strides[d] * group[d];
      out->data<float>()[at] = distance;
    };
    const std::vector<int64_t> none;
    const auto find = [&](const Groups& groups, const Group& group) -> const std::vector<int64_t>& {
      const auto it = groups.find(group);
      return it == groups.end() ? none : it->second;
    };
    return VisitDataType(
        context.input(1).dtype(), NoSuchType(context, context.input(1).dtype()), [&]<typename T>() -> Status {
          if constexpr (std::equality_comparable<T>) {
            const T *hs = context.input(1).data<T>(), *ts = context.input(4).data<T>();
            for (const auto& [group, truth] : truths) {
              const auto& guess = find(hypotheses, group);
              put(group, Value(Distance(context.cancellation(), ts, truth, hs, guess), truth.size()));
              if (context.cancellation().IsCancelled())
                return errors::Cancelled("The step was cancelled while sequences were compared");
            }
            for (const auto& [group, guess] : hypotheses) {
              if (!truths.contains(group)) put(group, Value(static_cast<int64_t>(guess.size()), 0));
            }
            return Status();
          } else {
            return NoSuchType(context, context.input(1).dtype());
          }
        });
  }

 private:
  float Value(int64_t distance, size_t length) const {
    if (!normalizes_) return static_cast<float>(distance);
    if (length == 0) return distance == 0 ? 0.0f : std::numeric_limits<float>::infinity();
    return static_cast<float>(distance) / static_cast<float>(length);
  }

  const bool normalizes_;
};

}  // namespace

void RegisterEditDistanceKernels(KernelRegistry& registry) {
  registry.Register<EditDistanceKernel>(
      KernelDef("EditDistance").Types("T", Concat(NumberTypes(), {DataType::kBool, DataType::kString})));
}

}  // namespace millrace
