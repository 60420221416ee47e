// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// StringSplit, StringSplitV2, StringJoin and ReduceJoin.
#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "kernels/cpu/strings/util.h"

namespace millrace {
namespace {

using Parts = std::vector<std::string_view>;

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The parts between any of the characters; single bytes if there are none.
void SplitAtAny(std::string_view text, std::string_view delimiters, bool skip_empty, Parts* parts) {
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) parts->push_back(text.substr(i, 1));
    return;
  }
  while (true) {
    const size_t n = std::min(text.find_first_of(delimiters), text.size());
    if (n > 0 || !skip_empty) parts->push_back(text.substr(0, n));
    if (n == text.size()) return;
    text.remove_prefix(n + 1);
  }
}

// As Python's str.split: at runs of white space.
void SplitAtSpace(std::string_view text, int64_t most, Parts* parts) {
  const auto skip = [&] {
    while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  };
  skip();
  for (int64_t splits = 0; !text.empty();) {
    size_t n = 0;
    while (n < text.size() && !IsSpace(text[n])) ++n;
    parts->push_back(text.substr(0, n));
    text.remove_prefix(n);
    skip();
    if (most > 0 && ++splits == most) {
      parts->push_back(text);
      return;
    }
  }
}

// As Python's str.split with a separator, empty parts included.
void SplitAt(std::string_view text, std::string_view separator, int64_t most, Parts* parts) {
  for (int64_t splits = 0; most <= 0 || splits < most; ++splits) {
    const size_t n = text.find(separator);
    if (n == std::string_view::npos) break;
    parts->push_back(text.substr(0, n));
    text.remove_prefix(n + separator.size());
  }
  parts->push_back(text);
}

// Outputs a sparse matrix with a row for each string. `split` adds the parts of one string.
template <typename Fn>
Status OutputParts(KernelContext& context, const Tensor& in, Fn split) {
  const int64_t rows = in.num_elements();
  Parts parts;
  std::vector<int64_t> ends;
  int64_t widest = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const auto before = static_cast<int64_t>(parts.size());
    split(in.data<std::string>()[i], &parts);
    ends.push_back(static_cast<int64_t>(parts.size()));
    widest = std::max(widest, ends.back() - before);
  }
  const auto n = static_cast<int64_t>(parts.size());
  MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({n, 2})));
  MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(1, TensorShape({n})));
  context.set_output(2, Tensor::Vector<int64_t>({rows, widest}));
  int64_t* index = indices->data<int64_t>();
  int64_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; at < ends[row]; ++at, ++column) {
      *index++ = row;
      *index++ = column;
      values->data<std::string>()[at] = parts[at];
    }
  }
  return Status();
}

class StringSplitKernel final : public OpKernel {
 public:
  explicit StringSplitKernel(KernelConstruction& c) : OpKernel(c), skip_empty_(c.Attr<bool>("skip_empty")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& delimiter = context.input(1);
    if (!in.shape().IsVector()) {
      return errors::InvalidArgument("input must be a vector, got shape: ", in.shape());
    }
    if (!delimiter.shape().IsScalar()) {
      return errors::InvalidArgument("delimiter must be a scalar, got shape: ", delimiter.shape());
    }
    const std::string& delimiters = delimiter.scalar<std::string>();
    return OutputParts(context, in, [&](std::string_view text, Parts* parts) {
      SplitAtAny(text, delimiters, skip_empty_, parts);
    });
  }

 private:
  const bool skip_empty_;
};

class StringSplitV2Kernel final : public OpKernel {
 public:
  explicit StringSplitV2Kernel(KernelConstruction& c) : OpKernel(c), most_(c.Attr<int64_t>("maxsplit")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& sep = context.input(1);
    if (!in.shape().IsVector()) {
      return errors::InvalidArgument("input must be a vector, got shape: ", in.shape());
    }
    if (!sep.shape().IsScalar()) {
      return errors::InvalidArgument("sep must be a scalar, got shape: ", sep.shape());
    }
    const std::string& separator = sep.scalar<std::string>();
    return OutputParts(context, in, [&](std::string_view text, Parts* parts) {
      if (most_ == 0) {
        parts->push_back(text);
      } else if (separator.empty()) {
        SplitAtSpace(text, most_, parts);
      } else {
        SplitAt(text, separator, most_, parts);
      }
    });
  }

 private:
  const int64_t most_;
};

class StringJoinKernel final : public OpKernel {
 public:
  explicit StringJoinKernel(KernelConstruction& c)
      : OpKernel(c), separator_(c.Attr<std::string>("separator")) {}
  Status Compute(KernelContext& context) override {
    TensorShape shape;
    for (int i = 0; i < num_inputs(); ++i) {
      const TensorShape& one = context.input(i).shape();
      if (one.IsScalar()) continue;
      if (!shape.IsScalar() && !(shape == one)) {
        return errors::InvalidArgument("Input shapes do not match: ", shape, " vs. ", one);
      }
      shape = one;
    }
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    std::vector<std::string_view> parts(static_cast<size_t>(num_inputs()));
    for (int64_t e = 0; e < shape.num_elements(); ++e) {
      for (int i = 0; i < num_inputs(); ++i) {
        const Tensor& in = context.input(i);
        parts[static_cast<size_t>(i)] = in.data<std::string>()[in.shape().IsScalar() ? 0 : e];
      }
      out->data<std::string>()[e] = StrJoin(parts, separator_);
    }
    return Status();
  }

 private:
  const std::string separator_;
};

// Joins along dimensions; the first axis varies fastest.
class ReduceJoinKernel final : public OpKernel {
 public:
  explicit ReduceJoinKernel(KernelConstruction& c)
      : OpKernel(c), keep_dims_(c.Attr<bool>("keep_dims")), separator_(c.Attr<std::string>("separator")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Dims axes, ReadAxes(context.input(1), in.rank()));
    const Dims strides = RowMajorStrides(in.shape().dims());
    std::vector<bool> reduced(static_cast<size_t>(in.rank()), false);
    for (const int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
    Dims out_dims, kept, kept_strides, joined, joined_strides;
    for (int d = 0; d < in.rank(); ++d) {
      if (!reduced[static_cast<size_t>(d)]) {
        out_dims.push_back(in.dim(d));
        kept.push_back(in.dim(d));
        kept_strides.push_back(strides[d]);
      } else if (keep_dims_) {
        out_dims.push_back(1);
      }
    }
    for (uint32_t i = axes.size(); i-- > 0;) {
      joined.push_back(in.dim(static_cast<int>(axes[i])));
      joined_strides.push_back(strides[axes[i]]);
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(out_dims));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    std::string* to = out->data<std::string>();
    Each(kept, kept_strides, [&](int64_t base) {
      bool first = true;
      Each(joined, joined_strides, [&](int64_t offset) {
        if (!first) *to += separator_;
        first = false;
        *to += in.data<std::string>()[base + offset];
      });
      ++to;
    });
    return Status();
  }

 private:
  static StatusOr<Dims> ReadAxes(const Tensor& indices, int rank) {
    Dims axes;
    for (int64_t i = 0; i < indices.num_elements(); ++i) {
      const int64_t given = IntValue(indices, i);
      const int64_t axis = given < 0 ? given + rank : given;
      if (axis < 0 || axis >= rank) {
        return errors::InvalidArgument("Invalid reduction dimension ", given, " for input with ", rank,
                                       " dimension(s)");
      }
      if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
        return errors::InvalidArgument("Duplicate reduction dimension ", given);
      }
      axes.push_back(axis);
    }
    return axes;
  }

  // Calls fn(offset) for every element of a box; the last dimension varies fastest.
  template <typename Fn>
  static void Each(const Dims& dims, const Dims& strides, Fn fn) {
    const int rank = static_cast<int>(dims.size());
    for (const int64_t size : dims) {
      if (size == 0) return;
    }
    Dims at;
    at.resize(static_cast<uint32_t>(rank));
    for (int64_t offset = 0;;) {
      fn(offset);
      int d = rank - 1;
      for (; d >= 0; --d) {
        offset += strides[d];
        if (++at[d] < dims[d]) break;
        offset -= dims[d] * strides[d];
        at[d] = 0;
      }
      if (d < 0) return;
    }
  }

  const bool keep_dims_;
  const std::string separator_;
};

}  // namespace

void RegisterStringSplitKernels(KernelRegistry& registry) {
  registry.Register<StringSplitKernel>(KernelDef("StringSplit"));
  registry.Register<StringSplitV2Kernel>(KernelDef("StringSplitV2"));
  registry.Register<StringJoinKernel>(KernelDef("StringJoin"));
  registry.Register<ReduceJoinKernel>(KernelDef("ReduceJoin"));
}

}  // namespace millrace
