// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// SpaceToBatch, BatchToSpace, SpaceToDepth, DepthToSpace and ExtractImagePatches.
#include <algorithm>

#include "kernels/cpu/move.h"
#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

// Blocks and margins of the dimensions after the first.
struct Blocks {
  Dims sizes;
  Dims before, after;
  int count() const { return static_cast<int>(sizes.size()); }
};

StatusOr<Blocks> ReadMargins(Dims sizes, const Tensor& margins, const char* name, int rank) {
  const auto count = static_cast<int64_t>(sizes.size());
  if (rank < 1 + count)
    return errors::InvalidArgument("input rank should be >= ", 1 + count, " instead of ", rank);
  if (!margins.shape().IsMatrix() || margins.dim(0) != count || margins.dim(1) != 2) {
    return errors::InvalidArgument(name, " should have shape [", count, ", 2] instead of ", margins.shape());
  }
  Blocks blocks{std::move(sizes), {}, {}};
  for (int i = 0; i < count; ++i) {
    if (blocks.sizes[i] < 1)
      return errors::InvalidArgument("All values in block_shape must be positive, got value, ",
                                     blocks.sizes[i], " at index ", i, ".");
    blocks.before.push_back(IntValue(margins, 2 * i));
    blocks.after.push_back(IntValue(margins, 2 * i + 1));
    if (blocks.before[i] < 0 || blocks.after[i] < 0) {
      return errors::InvalidArgument(name[0] == 'p' ? "Paddings" : "Crops", " must be non-negative");
    }
  }
  return blocks;
}

// The sizes from attribute or input 1; margins are the last input.
StatusOr<Blocks> ReadBlocks(const KernelContext& context, int64_t block_size, const char* name) {
  const Tensor& in = context.input(0);
  const Tensor& margins = context.input(context.num_inputs() - 1);
  if (context.num_inputs() == 2) {
    if (in.rank() != 4) return errors::InvalidArgument("Input rank should be: 4 instead of: ", in.rank());
    return ReadMargins({block_size, block_size}, margins, name, in.rank());
  }
  const Tensor& sizes = context.input(1);
  if (!sizes.shape().IsVector())
    return errors::InvalidArgument("block_shape rank should be 1 instead of ", sizes.rank());
  return ReadMargins(IntValues(sizes), margins, name, in.rank());
}

// Copies between the tensor in batches and the one in space: element o of a block dimension in batch part
// `part` is element o * size + part - before of the space.
void MoveParts(const Blocks& blocks, const Tensor& space, const Tensor& batches, bool to_batch, void* to,
               ContextParallel& parallel) {
  const Tensor& in = to_batch ? space : batches;
  const int rank = space.rank(), count = blocks.count();
  const Dims space_strides = RowMajorStrides(space.shape().dims());
  const Dims batch_strides = RowMajorStrides(batches.shape().dims());
  const int64_t images = space.dim(0), parts = batches.dim(0) / images;
  for (int64_t part = 0; part < parts; ++part) {
    Dims dims, space_steps, batch_steps;
    int64_t space_at = 0, batch_at = part * images * batch_strides[0];
    Dims offsets(blocks.sizes);
    int64_t rest = part;
    for (int i = count - 1; i >= 0; --i) {
      offsets[i] = rest % blocks.sizes[i];
      rest /= blocks.sizes[i];
    }
    bool empty = false;
    for (int d = 0; d < rank; ++d) {
      const bool cut = d >= 1 && d <= count;
      const int64_t size = cut ? blocks.sizes[d - 1] : 1;
      const int64_t shift = cut ? offsets[d - 1] - blocks.before[d - 1] : 0;
      // 0 <= o * size + shift < space
      const int64_t first = shift < 0 ? (-shift + size - 1) / size : 0;
      const int64_t limit = space.dim(d) - shift;
      const int64_t last =
          std::min(d == 0 ? images : batches.dim(d), limit <= 0 ? 0 : (limit - 1) / size + 1);
      empty |= first >= last;
      dims.push_back(last - first);
      space_steps.push_back(space_strides[d] * size);
      batch_steps.push_back(batch_strides[d]);
      space_at += (first * size + shift) * space_strides[d];
      batch_at += first * batch_strides[d];
    }
    if (empty) continue;
    const DataType type = in.dtype();
    if (to_batch) {
      MoveBox(type, ElementAt(space.raw_data(), type, space_at), space_steps, ElementAt(to, type, batch_at),
              batch_steps, dims, parallel);
    } else {
      MoveBox(type, ElementAt(batches.raw_data(), type, batch_at), batch_steps, ElementAt(to, type, space_at),
              space_steps, dims, parallel);
    }
  }
}

class SpaceToBatchKernel final : public OpKernel {
 public:
  explicit SpaceToBatchKernel(KernelConstruction& c)
      : OpKernel(c), block_size_(c.HasAttr("block_size") ? c.Attr<int64_t>("block_size") : 0) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Blocks blocks, ReadBlocks(context, block_size_, "paddings"));
    Dims dims;
    dims.assign(in.shape().dims().begin(), in.shape().dims().end());
    bool padded = false;
    for (int i = 0; i < blocks.count(); ++i) {
      int64_t sum, size;
      if (__builtin_add_overflow(blocks.before[i], blocks.after[i], &sum) ||
          __builtin_add_overflow(sum, in.dim(i + 1), &size) || size > kMostSize ||
          !MultiplyFits(dims[0], blocks.sizes[i], &dims[0])) {
        return errors::InvalidArgument("The paddings or blocks of dimension ", i + 1, " are too large");
      }
      if (size % blocks.sizes[i] != 0) {
        return errors::InvalidArgument("padded_shape[", i, "]=", size, " is not divisible by block_shape[", i,
                                       "]=", blocks.sizes[i]);
      }
      padded |= sum > 0;
      dims[i + 1] = size / blocks.sizes[i];
    }
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    if (padded) ZeroElements(in.dtype(), out->raw_data(), out->num_elements(), parallel);
    if (in.num_elements() > 0) MoveParts(blocks, in, *out, /*to_batch=*/true, out->raw_data(), parallel);
    return Status();
  }

 private:
  static constexpr int64_t kMostSize = int64_t{1} << 60;
  const int64_t block_size_;
};

class BatchToSpaceKernel final : public OpKernel {
 public:
  explicit BatchToSpaceKernel(KernelConstruction& c)
      : OpKernel(c), block_size_(c.HasAttr("block_size") ? c.Attr<int64_t>("block_size") : 0) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Blocks blocks, ReadBlocks(context, block_size_, "crops"));
    Dims dims;
    dims.assign(in.shape().dims().begin(), in.shape().dims().end());
    int64_t product = 1;
    for (int i = 0; i < blocks.count(); ++i) {
      int64_t size, sum;
      if (!MultiplyFits(product, blocks.sizes[i], &product) ||
          !MultiplyFits(in.dim(i + 1), blocks.sizes[i], &size) ||
          __builtin_add_overflow(blocks.before[i], blocks.after[i], &sum)) {
        return errors::InvalidArgument("The crops or blocks of dimension ", i + 1, " are too large");
      }
      if (size < sum) {
        return errors::InvalidArgument("cropped_shape[", i, "]=", size - sum, " must be non-negative");
      }
      dims[i + 1] = size - sum;
    }
    if (in.dim(0) % product != 0) {
      return errors::InvalidArgument("Input batch dimension (", in.dim(0),
                                     ") is not divisible by product of block sizes (", product, ")");
    }
    dims[0] = in.dim(0) / product;
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    ContextParallel parallel(context);
    MoveParts(blocks, *out, in, /*to_batch=*/false, out->raw_data(), parallel);
    return Status();
  }

 private:
  const int64_t block_size_;
};

// Both directions between space and depth are one permutation of six dimensions; in NHWC between [batch,
// height, row of block, width, column of block, channel] and [batch, height, width, row, column,
// channel].
template <bool kToDepth>
class DepthKernel final : public OpKernel {
 public:
  explicit DepthKernel(KernelConstruction& c) : OpKernel(c), block_(c.Attr<int64_t>("block_size")) {
    const auto format = c.Attr<std::string>("data_format");
    nchw_ = format == "NCHW";
    if (format == "NCHW_VECT_C")
      c.SetError(errors::InvalidArgument("Only NHWC and NCHW data_format supported on CPU. Got ", format));
    if (block_ < 2) c.SetError(errors::InvalidArgument("Block size should be > 1, but was: ", block_));
  }
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 4) return errors::InvalidArgument("Input rank should be: 4 instead of: ", in.rank());
    const ImageDims axes{nchw_};
    const int64_t batch = in.dim(0), in_h = in.dim(axes.height()), in_w = in.dim(axes.width());
    const int64_t in_c = in.dim(axes.channel());
    int64_t h, w, c;  // of the tensor with the blocks in the depth, and the channels of the other
    TensorShape shape;
    if (kToDepth) {
      if (in_h % block_ != 0 || in_w % block_ != 0) {
        return errors::InvalidArgument("Image width ", in_w, " and height ", in_h,
                                       " should be divisible by block_size: ", block_);
      }
      h = in_h / block_;
      w = in_w / block_;
      c = in_c;
    } else {
      int64_t area;
      if (!MultiplyFits(block_, block_, &area) || in_c % area != 0) {
        return errors::InvalidArgument("Input depth dimension ", in_c, " should be divisible by: block_size ",
                                       block_, " squared");
      }
      h = in_h;
      w = in_w;
      c = in_c / area;
    }
    MR_ASSIGN_OR_RETURN(shape, OutputShape(axes, batch, h, w, c));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return Status();
    const int64_t b = block_;
    // Strides of [batch, h, w, row of block, column of block, channel] on both sides.
    const Dims space = nchw_ ? Dims{c * h * b * w * b, b * w * b, b, w * b, 1, h * b * w * b}
                             : Dims{h * b * w * b * c, b * w * b * c, b * c, w * b * c, c, 1};
    const Dims depth = nchw_ ? Dims{c * h * b * w * b, w, 1, b * c * h * w, c * h * w, h * w}
                             : Dims{h * b * w * b * c, w * b * b * c, b * b * c, b * c, c, 1};
    ContextParallel parallel(context);
    MoveBox(in.dtype(), in.raw_data(), kToDepth ? space : depth, out->raw_data(), kToDepth ? depth : space,
            Dims{batch, h, w, b, b, c}, parallel);
    return Status();
  }

 private:
  StatusOr<TensorShape> OutputShape(const ImageDims& axes, int64_t batch, int64_t h, int64_t w,
                                    int64_t c) const {
    Dims dims;
    dims.resize(4);
    dims[0] = batch;
    bool fits = true;
    if (kToDepth) {
      dims[axes.height()] = h;
      dims[axes.width()] = w;
      fits = MultiplyFits(c, block_, &dims[axes.channel()]) &&
             MultiplyFits(dims[axes.channel()], block_, &dims[axes.channel()]);
    } else {
      fits = MultiplyFits(h, block_, &dims[axes.height()]) && MultiplyFits(w, block_, &dims[axes.width()]);
      dims[axes.channel()] = c;
    }
    if (!fits) return errors::InvalidArgument("The output is too large for block_size ", block_);
    return ShapeFromValues(dims);
  }

  const int64_t block_;
  bool nchw_ = false;
};

class PatchesKernel final : public OpKernel {
 public:
  explicit PatchesKernel(KernelConstruction& c)
      : OpKernel(c),
        window_(ReadSpatialAttr(c, "ksizes", {})),
        strides_(ReadSpatialAttr(c, "strides", {})),
        rates_(ReadSpatialAttr(c, "rates", {})),
        padding_(ReadPadding(c)) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 4) return errors::InvalidArgument("input must be 4-dimensional", in.shape());
    MR_ASSIGN_OR_RETURN(const WindowedOutput rows,
                        GetWindowedOutput(in.dim(1), window_.h, rates_.h, strides_.h, padding_));
    MR_ASSIGN_OR_RETURN(const WindowedOutput columns,
                        GetWindowedOutput(in.dim(2), window_.w, rates_.w, strides_.w, padding_));
    int64_t depth = in.dim(3);
    if (!MultiplyFits(depth, window_.h, &depth) || !MultiplyFits(depth, window_.w, &depth))
      return errors::InvalidArgument("The patches are too large");
    MR_RETURN_IF_ERROR(CheckImageSize("The patches", in.dim(0), rows.size, columns.size, depth));
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.AllocateOutput(0, TensorShape({in.dim(0), rows.size, columns.size, depth})));
    if (out->num_elements() == 0) return Status();
    const auto pixel = static_cast<int64_t>(ElementSize(in.dtype())) * in.dim(3);
    const auto* from = static_cast<const char*>(in.raw_data());
    auto* to = static_cast<char*>(out->raw_data());
    const int64_t patch = window_.h * window_.w * pixel;
    context.ParallelFor(in.dim(0) * rows.size, columns.size * patch / 4 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t image = r / rows.size, top = r % rows.size * strides_.h - rows.pad_before;
        for (int64_t c = 0; c < columns.size; ++c) {
          const int64_t left = c * strides_.w - columns.pad_before;
          CopyPatch(in.shape(), from, image, top, left, pixel, to + (r * columns.size + c) * patch);
        }
      }
    });
    return Status();
  }

 private:
  void CopyPatch(const TensorShape& shape, const char* from, int64_t image, int64_t top, int64_t left,
                 int64_t pixel, char* to) const {
    for (int64_t i = 0; i < window_.h; ++i) {
      const int64_t y = top + i * rates_.h;
      for (int64_t j = 0; j < window_.w; ++j, to += pixel) {
        const int64_t x = left + j * rates_.w;
        if (y < 0 || y >= shape.dim(1) || x < 0 || x >= shape.dim(2)) {
          std::fill_n(to, pixel, '\0');
        } else {
          std::copy_n(from + ((image * shape.dim(1) + y) * shape.dim(2) + x) * pixel, pixel, to);
        }
      }
    }
  }

  const SpatialAttr window_, strides_, rates_;
  const Padding padding_;
};

}  // namespace

void RegisterSpaceBlockKernels(KernelRegistry& registry) {
  for (const char* op : {"SpaceToBatch", "SpaceToBatchND"})
    registry.Register<SpaceToBatchKernel>(KernelDef(op));
  for (const char* op : {"BatchToSpace", "BatchToSpaceND"})
    registry.Register<BatchToSpaceKernel>(KernelDef(op));
  registry.Register<DepthKernel<true>>(KernelDef("SpaceToDepth"));
  registry.Register<DepthKernel<false>>(KernelDef("DepthToSpace"));
  registry.Register<PatchesKernel>(KernelDef("ExtractImagePatches"));
}

}  // namespace millrace
