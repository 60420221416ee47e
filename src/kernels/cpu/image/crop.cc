// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CropAndResize and its gradients.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/nn/util.h"

namespace millrace {
namespace {

struct CropSizes {
  int64_t batch, height, width, channels;
  int64_t boxes = 0, crop_h = 0, crop_w = 0;
  int64_t crop_samples() const { return crop_h * crop_w * channels; }
};

Status CheckBoxes(const Tensor& boxes, const Tensor& numbers, CropSizes* s) {
  if (boxes.num_elements() == 0 && numbers.num_elements() == 0) return Status();
  if (boxes.rank() != 2) return errors::InvalidArgument("boxes must be 2-D", boxes.shape());
  if (boxes.dim(1) != 4) return errors::InvalidArgument("boxes must have 4 columns");
  if (numbers.rank() != 1) return errors::InvalidArgument("box_index must be 1-D", numbers.shape());
  if (numbers.dim(0) != boxes.dim(0)) return errors::InvalidArgument("box_index has incompatible shape");
  s->boxes = boxes.dim(0);
  for (int64_t i = 0; i < s->boxes; ++i) {
    const int32_t number = numbers.data<int32_t>()[i];
    if (number < 0 || number >= s->batch)
      return errors::OutOfRange("box_index has values outside [0, batch_size)");
  }
  return Status();
}

Status CheckImage(const TensorShape& image, CropSizes* s) {
  if (image.rank() != 4) return errors::InvalidArgument("input image must be 4-D", image);
  *s = {image.dim(0), image.dim(1), image.dim(2), image.dim(3)};
  if (s->height <= 0 || s->width <= 0) return errors::InvalidArgument("image dimensions must be positive");
  if (s->height > INT32_MAX || s->width > INT32_MAX)
    return errors::InvalidArgument("image dimensions must not be over max int32");
  return Status();
}

// The source positions of a crop's pixels, along one side of the image.
struct Side {
  Side(float from, float to, int64_t image, int64_t crop)
      : last(static_cast<float>(image - 1)),
        step(crop > 1 ? (to - from) * last / static_cast<float>(crop - 1) : 0),
        start(crop > 1 ? from * last : 0.5f * (from + to) * last) {}
  float At(int64_t i) const { return start + static_cast<float>(i) * step; }
  // NaN is outside.
  bool Inside(float at) const { return at >= 0 && at <= last; }
  const float last, step, start;
};

struct Tap {
  explicit Tap(float at)
      : lower(static_cast<int64_t>(std::floor(at))),
        upper(static_cast<int64_t>(std::ceil(at))),
        share(at - std::floor(at)) {}
  int64_t lower, upper;
  float share;
};

// Calls pixel(offset of the crop's pixel, y, x, positions in the image) for the pixels of box b whose origin
// lies in the image, and outside(offset, pixels) for the others.
template <typename Pixel, typename Outside>
void ForCrop(const CropSizes& s, const float* box, int64_t offset, Pixel pixel, Outside outside) {
  const Side rows(box[0], box[2], s.height, s.crop_h), columns(box[1], box[3], s.width, s.crop_w);
  for (int64_t y = 0; y < s.crop_h; ++y, offset += s.crop_w * s.channels) {
    const float in_y = rows.At(y);
    if (!rows.Inside(in_y)) {
      outside(offset, s.crop_w);
      continue;
    }
    for (int64_t x = 0; x < s.crop_w; ++x) {
      const float in_x = columns.At(x);
      const int64_t at = offset + x * s.channels;
      if (columns.Inside(in_x)) {
        pixel(at, y, x, in_y, in_x);
      } else {
        outside(at, 1);
      }
    }
  }
}

// The four pixels around a position.
struct Corners {
  Corners(const CropSizes& s, int64_t image, float y, float x) : rows(y), columns(x) {
    const int64_t top = (image * s.height + rows.lower) * s.width;
    const int64_t bottom = (image * s.height + rows.upper) * s.width;
    top_left = (top + columns.lower) * s.channels;
    top_right = (top + columns.upper) * s.channels;
    bottom_left = (bottom + columns.lower) * s.channels;
    bottom_right = (bottom + columns.upper) * s.channels;
  }
  Tap rows, columns;
  int64_t top_left, top_right, bottom_left, bottom_right;
};

int64_t NearestPixel(const CropSizes& s, int64_t image, float y, float x) {
  const auto row = static_cast<int64_t>(std::round(y)), column = static_cast<int64_t>(std::round(x));
  return ((image * s.height + row) * s.width + column) * s.channels;
}

class CropAndResizeKernel final : public OpKernel {
 public:
  explicit CropAndResizeKernel(KernelConstruction& c)
      : OpKernel(c),
        nearest_(c.Attr<std::string>("method") == "nearest"),
        outside_(c.Attr<float>("extrapolation_value")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(0);
    const Tensor& boxes = context.input(1);
    const Tensor& numbers = context.input(2);
    const Tensor& size = context.input(3);
    CropSizes s{};
    MR_RETURN_IF_ERROR(CheckImage(images.shape(), &s));
    MR_RETURN_IF_ERROR(CheckBoxes(boxes, numbers, &s));
    if (size.rank() != 1) return errors::InvalidArgument("crop_size must be 1-D", size.shape());
    if (size.dim(0) != 2) return errors::InvalidArgument("crop_size must have two elements", size.shape());
    s.crop_h = IntValue(size, 0);
    s.crop_w = IntValue(size, 1);
    if (s.crop_h <= 0 || s.crop_w <= 0) return errors::InvalidArgument("crop dimensions must be positive");
    MR_RETURN_IF_ERROR(CheckImageSize("The crops", s.boxes, s.crop_h, s.crop_w, s.channels));
    MR_ASSIGN_OR_RETURN(Tensor * out,
                        context.AllocateOutput(0, TensorShape({s.boxes, s.crop_h, s.crop_w, s.channels})));
    if (out->num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, images));
    const float* from = floats.data<float>();
    float* to = out->data<float>();
    context.ParallelFor(s.boxes, s.crop_samples() * 4, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t image = numbers.data<int32_t>()[b];
        ForCrop(
            s, boxes.data<float>() + 4 * b, b * s.crop_samples(),
            [&](int64_t at, int64_t, int64_t, float y, float x) { Sample(s, image, y, x, from, to + at); },
            [&](int64_t at, int64_t pixels) { std::fill_n(to + at, pixels * s.channels, outside_); });
      }
    });
    return Status();
  }

 private:
  void Sample(const CropSizes& s, int64_t image, float y, float x, const float* from, float* to) const {
    if (nearest_) {
      std::copy_n(from + NearestPixel(s, image, y, x), s.channels, to);
      return;
    }
    const Corners p(s, image, y, x);
    for (int64_t c = 0; c < s.channels; ++c) {
      const float top =
          from[p.top_left + c] + (from[p.top_right + c] - from[p.top_left + c]) * p.columns.share;
      const float bottom =
          from[p.bottom_left + c] + (from[p.bottom_right + c] - from[p.bottom_left + c]) * p.columns.share;
      to[c] = top + (bottom - top) * p.rows.share;
    }
  }

  const bool nearest_;
  const float outside_;
};

Status CheckGrads(const Tensor& grads, CropSizes* s) {
  if (grads.rank() != 4) return errors::InvalidArgument("grads image must be 4-D", grads.shape());
  s->crop_h = grads.dim(1);
  s->crop_w = grads.dim(2);
  if (s->crop_h <= 0 || s->crop_w <= 0) return errors::InvalidArgument("grads dimensions must be positive");
  if (grads.dim(0) != s->boxes) return errors::InvalidArgument("boxes and grads have incompatible shape");
  if (grads.dim(3) != s->channels) return errors::InvalidArgument("image_size and grads are incompatible");
  return Status();
}

class CropGradImageKernel final : public OpKernel {
 public:
  explicit CropGradImageKernel(KernelConstruction& c)
      : OpKernel(c), nearest_(c.Attr<std::string>("method") == "nearest") {}
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& boxes = context.input(1);
    const Tensor& numbers = context.input(2);
    const Tensor& size = context.input(3);
    if (size.rank() != 1) return errors::InvalidArgument("image_size must be 1-D", size.shape());
    if (size.dim(0) != 4) return errors::InvalidArgument("image_size must have 4 elements", size.shape());
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromTensor(size, "image_size"));
    CropSizes s{};
    MR_RETURN_IF_ERROR(CheckImage(shape, &s));
    MR_RETURN_IF_ERROR(CheckBoxes(boxes, numbers, &s));
    MR_RETURN_IF_ERROR(CheckGrads(grads, &s));
    MR_RETURN_IF_ERROR(CheckImageSize("The image", s.batch, s.height, s.width, s.channels));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, shape));
    if (out->dtype() == DataType::kDouble) {
      Add(s, boxes, numbers, grads.data<float>(), out->flat<double>());
    } else if (out->dtype() == DataType::kFloat) {
      Add(s, boxes, numbers, grads.data<float>(), out->flat<float>());
    } else {
      MR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemp(DataType::kFloat, shape));
      Add(s, boxes, numbers, grads.data<float>(), sums.flat<float>());
      FromFloat(context, sums, out);
    }
    return Status();
  }

 private:
  // Boxes may overlap, so one thread adds them all.
  template <typename T>
  void Add(const CropSizes& s, const Tensor& boxes, const Tensor& numbers, const float* grads,
           std::span<T> sums) const {
    std::fill(sums.begin(), sums.end(), T(0));
    const auto nothing = [](int64_t, int64_t) {};
    for (int64_t b = 0; b < s.boxes; ++b) {
      const int64_t image = numbers.data<int32_t>()[b];
      ForCrop(
          s, boxes.data<float>() + 4 * b, b * s.crop_samples(),
          [&](int64_t at, int64_t, int64_t, float y, float x) {
            Spread(s, image, y, x, grads + at, sums.data());
          },
          nothing);
    }
  }

  template <typename T>
  void Spread(const CropSizes& s, int64_t image, float y, float x, const float* dy, T* sums) const {
    if (nearest_) {
      T* pixel = sums + NearestPixel(s, image, y, x);
      for (int64_t c = 0; c < s.channels; ++c) pixel[c] += static_cast<T>(dy[c]);
      return;
    }
    const Corners p(s, image, y, x);
    for (int64_t c = 0; c < s.channels; ++c) {
      const T top = (1 - p.rows.share) * static_cast<T>(dy[c]), bottom = p.rows.share * static_cast<T>(dy[c]);
      sums[p.top_left + c] += (1 - p.columns.share) * top;
      sums[p.top_right + c] += p.columns.share * top;
      sums[p.bottom_left + c] += (1 - p.columns.share) * bottom;
      sums[p.bottom_right + c] += p.columns.share * bottom;
    }
  }

  const bool nearest_;
};

class CropGradBoxesKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& grads = context.input(0);
    const Tensor& images = context.input(1);
    const Tensor& boxes = context.input(2);
    const Tensor& numbers = context.input(3);
    CropSizes s{};
    MR_RETURN_IF_ERROR(CheckImage(images.shape(), &s));
    MR_RETURN_IF_ERROR(CheckBoxes(boxes, numbers, &s));
    MR_RETURN_IF_ERROR(CheckGrads(grads, &s));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, boxes.shape()));
    if (out->num_elements() == 0) return Status();
    std::fill_n(out->data<float>(), out->num_elements(), 0.0f);
    if (grads.num_elements() == 0) return Status();
    MR_ASSIGN_OR_RETURN(const Tensor floats, ToFloat(context, images));
    context.ParallelFor(s.boxes, s.crop_samples() * 6, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        AddBox(s, boxes.data<float>() + 4 * b, numbers.data<int32_t>()[b], b * s.crop_samples(),
               grads.data<float>(), floats.data<float>(), out->data<float>() + 4 * b);
      }
    });
    return Status();
  }

 private:
  static void AddBox(const CropSizes& s, const float* box, int64_t image, int64_t offset, const float* grads,
                     const float* from, float* sums) {
    const Side rows(0, 1, s.height, s.crop_h), columns(0, 1, s.width, s.crop_w);
    ForCrop(
        s, box, offset,
        [&](int64_t at, int64_t y, int64_t x, float in_y, float in_x) {
          const Corners p(s, image, in_y, in_x);
          float along_y = 0, along_x = 0;
          for (int64_t c = 0; c < s.channels; ++c) {
            const float tl = from[p.top_left + c], tr = from[p.top_right + c];
            const float bl = from[p.bottom_left + c], br = from[p.bottom_right + c];
            along_y += grads[at + c] * ((1 - p.columns.share) * (bl - tl) + p.columns.share * (br - tr));
            along_x += grads[at + c] * ((1 - p.rows.share) * (tr - tl) + p.rows.share * (br - bl));
          }
          AddSide(rows, s.crop_h, y, along_y, sums, 0);
          AddSide(columns, s.crop_w, x, along_x, sums, 1);
        },
        [](int64_t, int64_t) {});
  }

  // The derivatives of a position by the two ends of its side of the box, which are sums[first] and
  // sums[first + 2].
  static void AddSide(const Side& unit, int64_t crop, int64_t i, float grad, float* sums, int first) {
    const float upper = crop > 1 ? static_cast<float>(i) * unit.step : 0.5f * unit.last;
    sums[first] += grad * (unit.last - upper);
    sums[first + 2] += grad * upper;
  }
};

}  // namespace

void RegisterCropKernels(KernelRegistry& registry) {
  registry.Register<CropAndResizeKernel>(KernelDef("CropAndResize"));
  registry.Register<CropGradBoxesKernel>(KernelDef("CropAndResizeGradBoxes"));
  registry.Register<CropGradImageKernel>(KernelDef("CropAndResizeGradImage"));
}

}  // namespace millrace
