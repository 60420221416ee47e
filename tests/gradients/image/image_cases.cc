// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;
constexpr DataType kInt32 = DataType::kInt32;

Tensor Floats(const TensorShape& shape, int seed = 1) {
  const Tensor values = Values(shape, -2, 2, seed);
  Tensor t(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.data<float>()[i] = static_cast<float>(values.data<double>()[i]);
  return t;
}

// Resizing is linear, so that a wide difference is exact except for rounding.
void AddResize(const std::string& op, bool corners, bool half_pixel, int64_t rows, int64_t columns,
               std::vector<GradientCase>* cases) {
  const AttrMap attrs = {{"align_corners", corners}, {"half_pixel_centers", half_pixel}};
  const std::string label = StrCat(rows, " x ", columns, corners ? " corners" : half_pixel ? " centres" : "");
  const TensorShape image({2, 3, 4, 2}), resized({2, rows, columns, 2});
  cases->push_back({.op = op,
                    .label = label,
                    .xs = {Floats(image)},
                    .ys =
                        [=](GraphBuilder& b, auto& x) {
                          return Exprs{Op(op, {x[0], Vector(b, kInt32, {rows, columns})}, attrs)};
                        },
                    .tolerance = 2e-5,
                    .delta = 0.5});
  const bool nearest = op == "ResizeNearestNeighbor";
  cases->push_back(
      {.op = op + "Grad",
       .label = label,
       .xs = {Floats(resized)},
       .ys =
           [=](GraphBuilder& b, auto& x) {
             const Expr size = Vector(b, kInt32, {3, 4});
             const Expr original = Fill(Vector(b, kInt32, {2, 3, 4, 2}), Scalar(b, DataType::kFloat, 0));
             return Exprs{Op(op + "Grad", {x[0], nearest ? size : original}, attrs)};
           },
       .tolerance = 2e-5,
       .delta = 0.5});
}

GradientCase CropCase(const std::string& label, const std::vector<float>& box, int64_t size) {
  return {.op = "CropAndResize",
          .label = label,
          .xs = {Floats({2, 5, 6, 2}), Tensor::From<float>(box, TensorShape({1, 4}))},
          .ys =
              [=](GraphBuilder& b, auto& x) {
                return Exprs{Op("CropAndResize",
                                {x[0], x[1], Vector(b, kInt32, {1}), Vector(b, kInt32, {size, size})})};
              },
          .second = false,
          .tolerance = 2e-2,
          .delta = 2e-3};
}

// Colours with all orders of the channels.
GradientCase RgbCase() {
  const std::vector<double> colours = {0.9, 0.5, 0.2, 0.8, 0.1, 0.4, 0.3, 0.7, 0.6,
                                       0.1, 0.6, 0.3, 0.2, 0.4, 0.9, 0.5, 0.1, 0.7};
  return {.op = "RGBToHSV",
          .label = "",
          .xs = {Tensor::From<double>(colours, TensorShape({2, 3, 3}))},
          .ys = [](GraphBuilder&, auto& x) { return Exprs{Op("RGBToHSV", x[0])}; },
          .tolerance = 1e-5};
}

// Linear, too.
GradientCase ScaleCase(const char* kernel, bool antialias) {
  return {.op = "ScaleAndTranslate",
          .label = kernel,
          .xs = {Floats({2, 3, 4, 2})},
          .ys =
              [=](GraphBuilder& b, auto& x) {
                const Expr scale(b, b.Constant(Tensor::Vector<float>({0.6f, 1.4f})));
                const Expr shift(b, b.Constant(Tensor::Vector<float>({0.2f, -0.7f})));
                return Exprs{Op("ScaleAndTranslate", {x[0], Vector(b, kInt32, {2, 6}), scale, shift},
                                {{"kernel_type", kernel}, {"antialias", antialias}})};
              },
          .second = false,
          .tolerance = 2e-5,
          .delta = 0.5};
}

std::vector<GradientCase> ImageCases() {
  std::vector<GradientCase> cases;
  cases.push_back(RgbCase());
  for (const char* op : {"ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor"}) {
    AddResize(op, false, false, 5, 6, &cases);
    AddResize(op, true, false, 2, 7, &cases);
    AddResize(op, false, true, 4, 3, &cases);
  }
  // Positions away from whole pixels, where the derivatives jump.
  cases.push_back(CropCase("inside", {0.13f, 0.11f, 0.83f, 0.72f}, 3));
  cases.push_back(CropCase("beyond", {-0.37f, 0.21f, 0.83f, 1.3f}, 4));
  cases.push_back(CropCase("one pixel", {0.13f, 0.11f, 0.8f, 0.7f}, 1));
  cases.push_back(ScaleCase("lanczos3", true));
  cases.push_back(ScaleCase("triangle", false));
  return cases;
}
const GradientCaseList kImageCases(ImageCases);

}  // namespace
}  // namespace millrace
