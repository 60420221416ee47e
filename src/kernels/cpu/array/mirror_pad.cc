// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// MirrorPad and MirrorPadGrad.
#include "kernels/cpu/array/mirror_pad.h"

#include <algorithm>
#include <complex>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// Calls fn(padded row, unpadded row) with the offsets of the first elements of rows along the innermost
// dimension. REQUIRES: rank >= 1 and elements.
template <typename Fn>
void ForMirroredRows(const MirrorMap& map, int64_t begin, int64_t end, Fn fn) {
  const int rank = map.padded.rank();
  const Dims strides = RowMajorStrides(map.bare.dims());
  const int64_t width = map.padded.dim(rank - 1);
  for (int64_t row = begin; row < end; ++row) {
    int64_t rest = row, bare = 0;
    for (int d = rank - 2; d >= 0; --d) {
      const int64_t size = map.padded.dim(d);
      bare += map.sources[static_cast<size_t>(d)][static_cast<size_t>(rest % size)] * strides[d];
      rest /= size;
    }
    fn(row * width, bare);
  }
}

class MirrorPadKernel final : public OpKernel {
 public:
  explicit MirrorPadKernel(KernelConstruction& c) : OpKernel(c), mode_(ReadMirrorMode(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const MirrorMap map,
                        MakeMirrorMap(in.shape(), /*is_padded=*/false, context.input(1), mode_));
    if (map.padded == map.bare) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, map.padded));
    MirrorPad(context, map, in, out);
    return Status();
  }

 private:
  const MirrorMode mode_;
};

class MirrorPadGradKernel final : public OpKernel {
 public:
  explicit MirrorPadGradKernel(KernelConstruction& c) : OpKernel(c), mode_(ReadMirrorMode(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const MirrorMap map,
                        MakeMirrorMap(in.shape(), /*is_padded=*/true, context.input(1), mode_));
    if (map.padded == map.bare) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, map.bare));
    if (out->num_elements() == 0) return Status();
    return VisitNumber(in.dtype(), NoSuchType(context, in.dtype()), [&]<typename T>() -> Status {
      if constexpr (kIsSmallFloat<T>) {
        MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, in));
        MR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemp(DataType::kFloat, map.bare));
        Add<float>(map, floats, &sums);
        FromFloat(context, sums, out);
      } else {
        Add<T>(map, in, out);
      }
      return Status();
    });
  }

 private:
  template <typename T>
  static void Add(const MirrorMap& map, const Tensor& in, Tensor* out) {
    std::fill_n(out->data<T>(), out->num_elements(), T(0));
    const std::vector<int64_t>& columns = map.sources.back();
    const auto width = static_cast<int64_t>(columns.size());
    const int64_t inside = map.bare.dim(map.bare.rank() - 1);
    ForMirroredRows(map, 0, map.padded.num_elements() / width, [&](int64_t padded, int64_t bare) {
      const T* const from = in.data<T>() + padded;
      T* const to = out->data<T>() + bare;
      const auto add = [&](int64_t i) {
        const int64_t column = columns[static_cast<size_t>(i)];
        to[column] = Plus(to[column], from[i]);
      };
      for (int64_t i = 0; i < map.before; ++i) add(i);
      RunLoop([=, row = from + map.before]() MR_INLINE_LAMBDA {
        for (int64_t i = 0; i < inside; ++i) to[i] = Plus(to[i], row[i]);
      });
      for (int64_t i = map.before + inside; i < width; ++i) add(i);
    });
  }

  const MirrorMode mode_;
};

}  // namespace

StatusOr<MirrorMap> MakeMirrorMap(const TensorShape& shape, bool is_padded, const Tensor& paddings,
                                  MirrorMode mode) {
  if (!paddings.shape().IsMatrix() || paddings.dim(1) != 2)
    return errors::InvalidArgument("paddings must be a matrix with 2 columns: ", paddings.shape());
  const int rank = shape.rank();
  if (paddings.dim(0) != rank) {
    return errors::InvalidArgument("The first dimension of paddings must be the rank of inputs",
                                   paddings.shape(), " ", shape);
  }
  const int64_t skipped = mode == MirrorMode::kReflect ? 1 : 0;  // border elements that are not repeated
  Dims bare, padded, befores;
  for (int d = 0; d < rank; ++d) {
    const int64_t before = IntValue(paddings, 2 * d), after = IntValue(paddings, 2 * d + 1);
    if (before < 0 || after < 0)
      return errors::InvalidArgument("paddings must be non-negative: ", before, " ", after);
    int64_t sum, size;
    if (__builtin_add_overflow(before, after, &sum) ||
        (is_padded ? __builtin_sub_overflow(shape.dim(d), sum, &size)
                   : __builtin_add_overflow(shape.dim(d), sum, &size))) {
      return errors::InvalidArgument("paddings are too large: ", before, " ", after);
    }
    const int64_t inner = is_padded ? size : shape.dim(d);
    // Without elements nothing can be mirrored, and nothing has to be.
    if (before > inner - skipped || after > inner - skipped) {
      const bool nothing = before == 0 && after == 0 && inner >= 0;
      if (!nothing && mode == MirrorMode::kSymmetric) {
        return errors::InvalidArgument("paddings must be no greater than the dimension size: ", before, ", ",
                                       after, " greater than ", inner);
      }
      if (!nothing) {
        return errors::InvalidArgument("paddings must be less than the dimension size: ", before, ", ", after,
                                       " not less than ", inner);
      }
    }
    bare.push_back(inner);
    padded.push_back(is_padded ? shape.dim(d) : size);
    befores.push_back(before);
  }
  MirrorMap map;
  MR_ASSIGN_OR_RETURN(map.bare, ShapeFromValues(bare));
  MR_ASSIGN_OR_RETURN(map.padded, ShapeFromValues(padded));
  if (map.padded.num_elements() == 0) return map;
  map.before = rank == 0 ? 0 : befores.back();
  for (int d = 0; d < rank; ++d) {
    std::vector<int64_t> sources(static_cast<size_t>(padded[d]));
    for (int64_t i = 0; i < padded[d]; ++i) {
      int64_t at = i - befores[d];
      if (at < 0) at = -at - 1 + skipped;
      if (at >= bare[d]) at = 2 * bare[d] - 1 - skipped - at;
      sources[static_cast<size_t>(i)] = at;
    }
    map.sources.push_back(std::move(sources));
  }
  return map;
}

void MirrorPad(const KernelContext& context, const MirrorMap& map, const Tensor& in, Tensor* out) {
  if (out->num_elements() == 0) return;
  VisitDataType(in.dtype(), 0, [&]<typename T>() {
    if (map.padded.rank() == 0) {
      *out->data<T>() = *in.data<T>();
      return 0;
    }
    const std::vector<int64_t>& columns = map.sources.back();
    const auto width = static_cast<int64_t>(columns.size());
    const int64_t inside = map.bare.dim(map.bare.rank() - 1);
    context.ParallelFor(out->num_elements() / width, width, [&](int64_t begin, int64_t end) {
      ForMirroredRows(map, begin, end, [&](int64_t padded, int64_t bare) {
        const T* from = in.data<T>() + bare;
        T* to = out->data<T>() + padded;
        for (int64_t i = 0; i < map.before; ++i) to[i] = from[columns[static_cast<size_t>(i)]];
        std::copy_n(from, inside, to + map.before);
        for (int64_t i = map.before + inside; i < width; ++i) to[i] = from[columns[static_cast<size_t>(i)]];
      });
    });
    return 0;
  });
}

void RegisterMirrorPadKernels(KernelRegistry& registry) {
  registry.Register<MirrorPadKernel>(KernelDef("MirrorPad"));
  registry.Register<MirrorPadGradKernel>(KernelDef("MirrorPadGrad").Types("T", NumberTypes()));
}

}  // namespace millrace
