// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// CropAndResize and its gradients.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/loop.h"
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

// The pixels around a position along a side, at multiples of `unit`; the nearest one for that method.
struct Place {
  bool inside = false;
  int64_t lower = 0, upper = 0;
  float share = 0;
};

Place PlaceOf(const Side& side, int64_t i, int64_t unit, bool nearest) {
  const float at = side.At(i);
  if (!side.Inside(at)) return {};
  if (nearest) {
    const int64_t pixel = static_cast<int64_t>(std::round(at)) * unit;
    return {true, pixel, pixel, 0};
  }
  const float lower = std::floor(at);
  return {true, static_cast<int64_t>(lower) * unit, static_cast<int64_t>(std::ceil(at)) * unit, at - lower};
}

// A row of a crop that is inside the image: the rows around it and the positions of its pixels in them.
struct CropRow {
  int64_t y, offset;  // the offset of its first number in the crops
  int64_t top, bottom;
  float share;
  const Place* columns;
};

// Calls row(CropRow) for the rows of crop b whose position is inside the image and outside(offset) for the
// others.
template <typename Row, typename Outside>
void ForRows(const CropSizes& s, const float* box, int64_t b, int64_t image, bool nearest, Row row,
             Outside outside) {
  const Side rows(box[0], box[2], s.height, s.crop_h), columns(box[1], box[3], s.width, s.crop_w);
  std::vector<Place> places(static_cast<size_t>(s.crop_w));
  for (int64_t x = 0; x < s.crop_w; ++x)
    places[static_cast<size_t>(x)] = PlaceOf(columns, x, s.channels, nearest);
  const int64_t width = s.width * s.channels, first = image * s.height * width;
  for (int64_t y = 0; y < s.crop_h; ++y) {
    const int64_t offset = b * s.crop_samples() + y * s.crop_w * s.channels;
    const Place place = PlaceOf(rows, y, width, nearest);
    if (place.inside) {
      row(CropRow{y, offset, first + place.lower, first + place.upper, place.share, places.data()});
    } else {
      outside(offset);
    }
  }
}

// Calls fn(lanes, first channel) for blocks of `lanes` channels, which are a constant.
template <typename Fn>
inline MR_INLINE_LAMBDA void ForChannels(int64_t channels, const Fn& fn) {
  int64_t c = 0;
  for (; c + 16 <= channels; c += 16) fn(std::integral_constant<int, 16>(), c);
  for (; c + 4 <= channels; c += 4) fn(std::integral_constant<int, 4>(), c);
  for (; c < channels; ++c) fn(std::integral_constant<int, 1>(), c);
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
    const int64_t crop_row = s.crop_w * s.channels;
    context.ParallelFor(s.boxes, s.crop_samples() * 4, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        ForRows(
            s, boxes.data<float>() + 4 * b, b, numbers.data<int32_t>()[b], nearest_,
            [&](const CropRow& row) { Sample(s, row, from, to + row.offset); },
            [&](int64_t offset) { std::fill_n(to + offset, crop_row, outside_); });
      }
    });
    return Status();
  }

 private:
  void Sample(const CropSizes& s, const CropRow& row, const float* from, float* to) const {
    RunLoop([=, columns = s.crop_w, channels = s.channels, nearest = nearest_, outside = outside_]()
                MR_INLINE_LAMBDA {
                  for (int64_t x = 0; x < columns; ++x) {
                    const Place& place = row.columns[x];
                    const float *top = from + row.top, *bottom = from + row.bottom;
                    ForChannels(channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
                      float* const pixel = to + x * channels + c;
                      float sums[lanes()];
                      ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { sums[l] = outside; });
                      if (place.inside) {
                        const float *tl = top + place.lower + c, *tr = top + place.upper + c;
                        const float *bl = bottom + place.lower + c, *br = bottom + place.upper + c;
                        ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { sums[l] = tl[l]; });
                        if (!nearest) {
                          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
                            const float above = tl[l] + (tr[l] - tl[l]) * place.share;
                            const float below = bl[l] + (br[l] - bl[l]) * place.share;
                            sums[l] = above + (below - above) * row.share;
                          });
                        }
                      }
                      ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { pixel[l] = sums[l]; });
                    });
                  }
                });
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
  // Boxes may overlap, so one thread adds all gradients.
  template <typename T>
  void Add(const CropSizes& s, const Tensor& boxes, const Tensor& numbers, const float* grads,
           std::span<T> sums) const {
    std::fill(sums.begin(), sums.end(), T(0));
    if (s.channels == 0) return;  // there is no other bound for the sizes of the crops
    for (int64_t b = 0; b < s.boxes; ++b) {
      ForRows(
          s, boxes.data<float>() + 4 * b, b, numbers.data<int32_t>()[b], nearest_,
          [&](const CropRow& row) { Spread(s, row, grads + row.offset, sums.data()); }, [](int64_t) {});
    }
  }

  template <typename T>
  void Spread(const CropSizes& s, const CropRow& row, const float* grads, T* sums) const {
    RunLoop([=, columns = s.crop_w, channels = s.channels, nearest = nearest_]() MR_INLINE_LAMBDA {
      for (int64_t x = 0; x < columns; ++x) {
        const Place& place = row.columns[x];
        if (!place.inside) continue;
        const T below = static_cast<T>(row.share), above = static_cast<T>(1 - row.share);
        const T right = static_cast<T>(place.share), left = static_cast<T>(1 - place.share);
        ForChannels(channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
          const float* const from = grads + x * channels + c;
          T dy[lanes()], part[lanes()];
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { dy[l] = static_cast<T>(from[l]); });
          // Corner by corner, some of which may be the same pixel.
          const auto add = [&](T weight, T* to) MR_INLINE_LAMBDA {
            T now[lanes()];
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { now[l] = to[l] + weight * part[l]; });
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { to[l] = now[l]; });
          };
          T *const top = sums + row.top + c, *const bottom = sums + row.bottom + c;
          if (nearest) {
            ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { part[l] = dy[l]; });
            add(T(1), top + place.lower);
            return;
          }
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { part[l] = above * dy[l]; });
          add(left, top + place.lower);
          add(right, top + place.upper);
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { part[l] = below * dy[l]; });
          add(left, bottom + place.lower);
          add(right, bottom + place.upper);
        });
      }
    });
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
        AddBox(s, boxes.data<float>() + 4 * b, b, numbers.data<int32_t>()[b], grads.data<float>(),
               floats.data<float>(), out->data<float>() + 4 * b);
      }
    });
    return Status();
  }

 private:
  // Sums over a row of the gradients by its position, and of its pixels' gradients by the left and the right
  // end of the box.
  struct Sums {
    float along_y = 0, left = 0, right = 0;
  };

  static void AddBox(const CropSizes& s, const float* box, int64_t b, int64_t image, const float* grads,
                     const float* from, float* sums) {
    const Side rows(0, 1, s.height, s.crop_h);
    ForRows(
        s, box, b, image, /*nearest=*/false,
        [&](const CropRow& row) {
          const Sums of_row = RowSums(s, row, grads + row.offset, from);
          const float upper = s.crop_h > 1 ? static_cast<float>(row.y) * rows.step : 0.5f * rows.last;
          sums[0] += of_row.along_y * (rows.last - upper);
          sums[2] += of_row.along_y * upper;
          sums[1] += of_row.left;
          sums[3] += of_row.right;
        },
        [](int64_t) {});
  }

  static Sums RowSums(const CropSizes& s, const CropRow& row, const float* grads, const float* from) {
    Sums of_row;
    RunLoop([=, sums = &of_row, unit = Side(0, 1, s.width, s.crop_w), width = s.crop_w,
             channels = s.channels]() MR_INLINE_LAMBDA {
      const float *top = from + row.top, *bottom = from + row.bottom;
      ForChannels(channels, [&](auto lanes, int64_t c) MR_INLINE_LAMBDA {
        float along_y[lanes()], left[lanes()], right[lanes()];
        ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA { along_y[l] = left[l] = right[l] = 0; });
        for (int64_t x = 0; x < width; ++x) {
          const Place& place = row.columns[x];
          if (!place.inside) continue;
          const float* const dy = grads + x * channels + c;
          const float *tl = top + place.lower + c, *tr = top + place.upper + c;
          const float *bl = bottom + place.lower + c, *br = bottom + place.upper + c;
          const float upper = width > 1 ? static_cast<float>(x) * unit.step : 0.5f * unit.last;
          const float lower = unit.last - upper;
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
            along_y[l] += dy[l] * ((1 - place.share) * (bl[l] - tl[l]) + place.share * (br[l] - tr[l]));
          });
          ForLanes<lanes()>([&](int l) MR_INLINE_LAMBDA {
            const float along_x = dy[l] * ((1 - row.share) * (tr[l] - tl[l]) + row.share * (br[l] - bl[l]));
            left[l] += along_x * lower;
            right[l] += along_x * upper;
          });
        }
        for (int l = 0; l < lanes(); ++l) {
          sums->along_y += along_y[l];
          sums->left += left[l];
          sums->right += right[l];
        }
      });
    });
    return of_row;
  }
};

}  // namespace

void RegisterCropKernels(KernelRegistry& registry) {
  registry.Register<CropAndResizeKernel>(KernelDef("CropAndResize"));
  registry.Register<CropGradBoxesKernel>(KernelDef("CropAndResizeGradBoxes"));
  registry.Register<CropGradImageKernel>(KernelDef("CropAndResizeGradImage"));
}

}  // namespace millrace
