// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Resizing and cropping of images.
#include "gradients/family.h"

namespace millrace {
namespace {

using gradients::Row;

// Height and width of a batch of images, a vector.
Expr PlaneOf(const Expr& images) {
  GraphBuilder& b = *images.builder();
  return Op("Slice", {ShapeOf(images), Vector(b, DataType::kInt32, {1}), Vector(b, DataType::kInt32, {2})});
}

AttrMap Alignment(GradientContext& c) { return c.CopyAttrs({"align_corners", "half_pixel_centers"}); }

bool IsFloating(DataType t) {
  return t == DataType::kFloat || t == DataType::kDouble || t == DataType::kHalf || t == DataType::kBfloat16;
}

// The image itself is used only for its type and shape. Integers have no gradient.
template <const char* kGradient>
Status FloatResizeGrad(GradientContext& c) {
  if (!IsFloating(c.input(0).dtype())) return c.status();
  c.SetInputGrad(0, Op(kGradient, {c.grad(0), c.input(0)}, Alignment(c)));
  return c.status();
}

// Resizing is linear: the gradient of its gradient is the resize itself.
template <const char* kResize>
Status FloatResizeSecondGrad(GradientContext& c) {
  c.SetInputGrad(0, Op(kResize, {c.grad(0), PlaneOf(c.input(0))}, Alignment(c)));
  return c.status();
}

// Inputs: images, size, scale, translation.
Status ScaleAndTranslateGrad(GradientContext& c) {
  const Expr images = c.input(0);
  if (!IsFloating(images.dtype())) return c.status();
  const Expr original = CastTo(images, DataType::kFloat);
  const Expr dx = Op("ScaleAndTranslateGrad", {c.grad(0), original, c.input(2), c.input(3)},
                     c.CopyAttrs({"kernel_type", "antialias"}));
  c.SetInputGrad(0, CastTo(dx, images.dtype()));
  return c.status();
}

// ResizeNearestNeighbor and its gradient op are each other's gradients.
template <const char* kOther>
Status NearestGrad(GradientContext& c) {
  if (!IsFloating(c.input(0).dtype())) return c.status();
  c.SetInputGrad(0, Op(kOther, {c.grad(0), PlaneOf(c.input(0))}, Alignment(c)));
  return c.status();
}

// Inputs: image, boxes, box_ind, crop_size.
Status CropAndResizeGrad(GradientContext& c) {
  const Expr image = c.input(0), boxes = c.input(1), numbers = c.input(2), dy = c.grad(0);
  if (c.wants(0) && IsFloating(image.dtype())) {
    AttrMap attrs = c.CopyAttrs({"method"});
    attrs.Set("T", image.dtype());
    c.SetInputGrad(0, Op("CropAndResizeGradImage", {dy, boxes, numbers, ShapeOf(image)}, attrs));
  }
  if (c.wants(1)) c.SetInputGrad(1, Op("CropAndResizeGradBoxes", {dy, image, boxes, numbers}));
  return c.status();
}

// With V = max, C = max - min: S = C / V and H = n / (6 C) + a constant, n being the difference of the two
// channels beside the largest one. Of equal channels the first counts. Grey has no hue, black no saturation.
Status RgbToHsvGrad(GradientContext& c) {
  GraphBuilder& b = c.builder();
  const Expr x = c.input(0), dy = c.grad(0);
  const Expr last = Scalar(b, DataType::kInt32, -1), axes = Vector(b, DataType::kInt32, {-1});
  const Expr largest = Op("ArgMax", {x, last}), smallest = Op("ArgMin", {x, last});
  const auto pick = [&](const Expr& which) {
    return Op("OneHot", {which, Scalar(b, DataType::kInt32, 3), ScalarLike(x, 1), ScalarLike(x, 0)});
  };
  const Expr of_value = pick(largest), of_range = of_value - pick(smallest);
  const Expr order = CastTo(Reshape(Vector(b, DataType::kInt32, {0, 1, -1, -1, 0, 1, 1, -1, 0}),
                                    Vector(b, DataType::kInt32, {3, 3})),
                            x.dtype());
  const Expr of_n = GatherRows(order, largest);
  const Expr value = Sum(x * of_value, axes, true), range = Sum(x * of_range, axes, true);
  const Expr n = Sum(x * of_n, axes, true);
  const auto is_positive = [](const Expr& v) {
    return CastTo(Op("Greater", {v, ScalarLike(v, 0)}), v.dtype());
  };
  const auto inverse = [&](const Expr& v) { return is_positive(v) / (v + (1.0 - is_positive(v))); };
  const auto channel = [&](int64_t i) {
    return Sum(dy * Op("OneHot", {Vector(b, DataType::kInt32, {i}), Scalar(b, DataType::kInt32, 3),
                                  ScalarLike(x, 1), ScalarLike(x, 0)}),
               axes, true);
  };
  const Expr of_hue = (of_n - n * inverse(range) * of_range) * inverse(range) / ScalarLike(x, 6);
  const Expr of_saturation = (of_range - range * inverse(value) * of_value) * inverse(value);
  c.SetInputGrad(0, channel(0) * of_hue + channel(1) * of_saturation + channel(2) * of_value);
  return c.status();
}

constexpr char kBicubic[] = "ResizeBicubic";
constexpr char kBicubicGrad[] = "ResizeBicubicGrad";
constexpr char kBilinear[] = "ResizeBilinear";
constexpr char kBilinearGrad[] = "ResizeBilinearGrad";
constexpr char kNearest[] = "ResizeNearestNeighbor";
constexpr char kNearestGrad[] = "ResizeNearestNeighborGrad";

constexpr Row kRows[] = {
    {"CropAndResize", CropAndResizeGrad},
    {"RGBToHSV", RgbToHsvGrad},
    {"ResizeBicubic", FloatResizeGrad<kBicubicGrad>},
    {"ResizeBicubicGrad", FloatResizeSecondGrad<kBicubic>},
    {"ResizeBilinear", FloatResizeGrad<kBilinearGrad>},
    {"ResizeBilinearGrad", FloatResizeSecondGrad<kBilinear>},
    {"ResizeNearestNeighbor", NearestGrad<kNearestGrad>},
    {"ResizeNearestNeighborGrad", NearestGrad<kNearest>},
    {"ScaleAndTranslate", ScaleAndTranslateGrad},
};

}  // namespace

Status RegisterImageGradients(GradientRegistry& registry) { return gradients::RegisterEach(registry, kRows); }

}  // namespace millrace
