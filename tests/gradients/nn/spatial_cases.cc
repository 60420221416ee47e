// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;
constexpr DataType kInt32 = DataType::kInt32;

Tensor Floats(const TensorShape& shape, double low = -2, double high = 2, int seed = 1) {
  const Tensor values = Values(shape, low, high, seed);
  Tensor t(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.data<float>()[i] = static_cast<float>(values.data<double>()[i]);
  return t;
}

void AddDepthwise(const std::string& format, const std::string& padding, int64_t stride, int64_t dilation,
                  int64_t multiplier, std::vector<GradientCase>* cases) {
  const bool nhwc = format == "NHWC";
  const auto four = [&](int64_t v) {
    return nhwc ? std::vector<int64_t>{1, v, v, 1} : std::vector<int64_t>{1, 1, v, v};
  };
  const AttrMap attrs = {{"strides", four(stride)},
                         {"padding", padding},
                         {"data_format", format},
                         {"dilations", four(dilation)}};
  const std::string label =
      StrCat(format, padding, " stride ", stride, " dilation ", dilation, " times ", multiplier);
  const TensorShape image = nhwc ? TensorShape({2, 5, 4, 3}) : TensorShape({2, 3, 5, 4});
  const TensorShape filter({2, 3, 3, multiplier});
  const auto side = [&](int64_t in, int64_t window) {
    const int64_t reach = (window - 1) * dilation + 1;
    return padding == "SAME" ? (in + stride - 1) / stride : (in - reach) / stride + 1;
  };
  const int64_t rows = side(5, 2), columns = side(4, 3), depth = 3 * multiplier;
  const TensorShape result =
      nhwc ? TensorShape({2, rows, columns, depth}) : TensorShape({2, depth, rows, columns});
  const auto sizes = [](GraphBuilder& b, const TensorShape& shape) {
    return Vector(b, kInt32, {shape.dims().begin(), shape.dims().end()});
  };
  cases->push_back(OneOp("DepthwiseConv2dNative", {Values(image), Values(filter, -1, 1, 2)}, attrs));
  cases->back().label = label;
  cases->push_back(
      {.op = "DepthwiseConv2dNativeBackpropInput",
       .label = label,
       .xs = {Values(filter), Values(result, -1, 1, 2)},
       .ys = [=](GraphBuilder& b, auto& x) {
         return Exprs{Op("DepthwiseConv2dNativeBackpropInput", {sizes(b, image), x[0], x[1]}, attrs)};
       }});
  cases->push_back(
      {.op = "DepthwiseConv2dNativeBackpropFilter",
       .label = label,
       .xs = {Values(image), Values(result, -1, 1, 2)},
       .ys = [=](GraphBuilder& b, auto& x) {
         return Exprs{Op("DepthwiseConv2dNativeBackpropFilter", {x[0], sizes(b, filter), x[1]}, attrs)};
       }});
}

// Single precision, and steep in places.
GradientCase Rough(GradientCase c) {
  c.second = false;
  c.delta = 4e-3;
  c.tolerance = 2e-2;
  return c;
}

GradientCase MaxPoolCase(bool batch, bool gradient) {
  const AttrMap attrs = {{"ksize", std::vector<int64_t>{1, 2, 2, 1}},
                         {"strides", std::vector<int64_t>{1, 2, 1, 1}},
                         {"padding", "SAME"},
                         {"include_batch_in_index", batch}};
  const TensorShape shape({2, 3, 4, 2});
  if (!gradient) {
    return {.op = "MaxPoolWithArgmax",
            .label = batch ? "batch" : "",
            .xs = {Values(shape)},
            .ys = [=](GraphBuilder&, auto& x) { return Exprs{Op("MaxPoolWithArgmax", {x[0]}, attrs)}; }};
  }
  return {.op = "MaxPoolGradWithArgmax",
          .label = batch ? "batch" : "",
          .xs = {Values(shape), Values({2, 2, 4, 2}, -1, 1, 2)},
          .ys =
              [=](GraphBuilder&, auto& x) {
                const Expr argmax = Op("MaxPoolWithArgmax", {x[0]}, attrs).Sibling(1);
                return Exprs{Op("MaxPoolGradWithArgmax", {x[0], x[1], argmax}, attrs)};
              },
          .second = false};
}

std::vector<GradientCase> NnSpatialCases() {
  std::vector<GradientCase> cases;
  AddDepthwise("NHWC", "SAME", 1, 1, 1, &cases);
  AddDepthwise("NHWC", "SAME", 2, 1, 2, &cases);
  AddDepthwise("NHWC", "VALID", 1, 1, 2, &cases);
  AddDepthwise("NHWC", "SAME", 1, 2, 1, &cases);
  AddDepthwise("NCHW", "SAME", 2, 1, 1, &cases);
  AddDepthwise("NCHW", "VALID", 1, 1, 2, &cases);
  cases.push_back(OneOp("Dilation2D", {Values({1, 4, 3, 2}), Values({2, 2, 2}, -0.7, 0.7, 3)},
                        {{"strides", std::vector<int64_t>{1, 1, 2, 1}},
                         {"rates", std::vector<int64_t>{1, 2, 1, 1}},
                         {"padding", "SAME"}}));
  cases.back().second = false;
  cases.push_back(MaxPoolCase(false, false));
  cases.push_back(MaxPoolCase(true, false));
  cases.push_back(MaxPoolCase(false, true));
  cases.push_back(MaxPoolCase(true, true));
  cases.push_back(Rough(OneOp("LRN", {Floats({1, 2, 2, 6})},
                              {{"depth_radius", 2}, {"bias", 1.5f}, {"alpha", 0.3f}, {"beta", 0.7f}})));
  return cases;
}
const GradientCaseList kNnSpatialCases(NnSpatialCases);

}  // namespace
}  // namespace millrace
