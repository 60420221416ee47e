// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;
constexpr DataType kInt32 = DataType::kInt32;

// On both sides of the kinks at 0 and 6, and not too near.
Tensor AroundBends() { return Tensor::From<double>({-1.5, -0.4, 0.5, 1.2, 5.2, 6.8}, TensorShape({2, 3})); }

GradientCase CrossEntropy(const char* label, std::vector<int> outputs) {
  // The derivatives assume that the labels of a row sum to 1.
  const Tensor labels = Tensor::From<double>({0.2, 0.5, 0.3, 0.1, 0.15, 0.75}, TensorShape({2, 3}));
  return {.op = "SoftmaxCrossEntropyWithLogits",
          .label = label,
          .xs = {Values({2, 3}), labels},
          .ys = [=](GraphBuilder&, auto& x) {
            const Expr loss = Op("SoftmaxCrossEntropyWithLogits", {x[0], x[1]});
            Exprs ys;
            for (const int i : outputs) ys.push_back(loss.Sibling(i));
            return ys;
          }};
}

GradientCase SparseCrossEntropy(const char* label, std::vector<int> outputs) {
  return {.op = "SparseSoftmaxCrossEntropyWithLogits",
          .label = label,
          .xs = {Values({2, 3})},
          .ys = [=](GraphBuilder& b, auto& x) {
            const Expr loss = Op("SparseSoftmaxCrossEntropyWithLogits", {x[0], Vector(b, kInt32, {2, 0})});
            Exprs ys;
            for (const int i : outputs) ys.push_back(loss.Sibling(i));
            return ys;
          }};
}

GradientCase TopK(const char* label, const Tensor& x, int k) {
  return {.op = "TopKV2", .label = label, .xs = {x}, .ys = [=](GraphBuilder& b, auto& e) {
            return Exprs{Op("TopKV2", {e[0], Scalar(b, kInt32, k)})};
          }};
}

std::vector<GradientCase> NnCases() {
  std::vector<GradientCase> cases;
  for (const char* op : {"Elu", "Relu", "Relu6", "Selu", "Softplus", "Softsign"}) {
    cases.push_back(OneOp(op, {AroundBends()}));
    // The gradient as a function of both inputs; outputs of Elu and Selu are above -1 and -1.76.
    cases.push_back(OneOp(StrCat(op, "Grad"), {Values({2, 3}), Values({2, 3}, 0.1, 0.9)}));
    cases.push_back(OneOp(StrCat(op, "Grad"), {Values({2, 3}), BothSigns({2, 3}, 0.1, 0.9)}));
    cases.back().label = "of both signs";
  }
  for (const char* op : {"LeakyRelu", "LeakyReluGrad"}) {
    std::vector<Tensor> xs = {AroundBends()};
    if (std::string(op) == "LeakyReluGrad") xs = {Values({2, 3}), BothSigns({2, 3}, 0.1, 0.9)};
    cases.push_back(OneOp(op, xs, {{"alpha", 0.3f}}));
  }
  for (const bool scaled : {false, true}) {
    cases.push_back(OneOp("BatchNormWithGlobalNormalization",
                          {Values({2, 2, 1, 3}), Values({3}, -1, 1, 2), Values({3}, 0.5, 2, 3),
                           Values({3}, -1, 1, 4), Values({3}, 1, 2, 5)},
                          {{"variance_epsilon", 0.01f}, {"scale_after_normalization", scaled}}));
    cases.back().label = scaled ? "scaled" : "not scaled";
  }
  cases.push_back(OneOp("Softmax", {Values({2, 3})}));
  cases.push_back(OneOp("LogSoftmax", {Values({2, 3})}));
  cases.push_back(OneOp("L2Loss", {Values({2, 3})}));
  cases.push_back(CrossEntropy("", {0}));
  cases.push_back(CrossEntropy("gradient", {1}));
  cases.push_back(CrossEntropy("both", {0, 1}));
  cases.push_back(SparseCrossEntropy("", {0}));
  cases.push_back(SparseCrossEntropy("gradient", {1}));
  cases.push_back(SparseCrossEntropy("both", {0, 1}));
  cases.push_back(OneOp("BiasAdd", {Values({2, 3}), Values({3})}));
  cases.push_back(OneOp("BiasAdd", {Values({2, 2, 2, 3}), Values({3})}));
  cases.back().label = "NHWC";
  cases.push_back(OneOp("BiasAdd", {Values({2, 3, 2, 2}), Values({3})}, {{"data_format", "NCHW"}}));
  cases.back().label = "NCHW";
  cases.push_back(OneOp("BiasAddV1", {Values({2, 3}), Values({3})}));
  cases.push_back(OneOp("BiasAddGrad", {Values({2, 2, 2, 3})}));
  cases.push_back(OneOp("BiasAddGrad", {Values({2, 3, 2, 2})}, {{"data_format", "NCHW"}}));
  cases.back().label = "NCHW";
  cases.push_back(TopK("of a vector", Values({5}), 2));
  cases.push_back(TopK("of rows", Values({2, 4}), 3));
  cases.push_back(TopK("of rank 3", Values({2, 2, 3}), 2));
  cases.push_back(TopK("none", Values({2, 3}), 0));
  cases.push_back(OneOp("TopK", {Values({2, 4})}, {{"k", 2}}));
  return cases;
}
const GradientCaseList kNnCases(NnCases);

// Convolutions exist for single precision only. They are linear, so that a wide difference is exact except
// for rounding.
Tensor Floats(const TensorShape& shape, int seed = 1) {
  const Tensor values = Values(shape, -2, 2, seed);
  Tensor t(DataType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.data<float>()[i] = static_cast<float>(values.data<double>()[i]);
  return t;
}

GradientCase Wide(GradientCase c) {
  c.delta = 0.5;
  c.tolerance = 2e-5;
  return c;
}

std::vector<int64_t> Window(const std::string& format, int64_t rows, int64_t columns) {
  return format == "NHWC" ? std::vector<int64_t>{1, rows, columns, 1}
                          : std::vector<int64_t>{1, 1, rows, columns};
}

TensorShape Image(const std::string& format, int64_t n, int64_t rows, int64_t columns, int64_t channels) {
  return format == "NHWC" ? TensorShape({n, rows, columns, channels})
                          : TensorShape({n, channels, rows, columns});
}

void AddConvolutions(const std::string& format, const std::string& padding, int64_t stride,
                     std::vector<GradientCase>* cases) {
  const AttrMap attrs = {
      {"strides", Window(format, stride, stride)}, {"padding", padding}, {"data_format", format}};
  const std::string label = StrCat(format, padding, " stride ", stride);
  const TensorShape image = Image(format, 2, 4, 3, 2), filter({2, 2, 2, 3});
  const int64_t rows = padding == "SAME" ? (4 + stride - 1) / stride : (4 - 2) / stride + 1;
  const int64_t columns = padding == "SAME" ? (3 + stride - 1) / stride : (3 - 2) / stride + 1;
  const TensorShape result = Image(format, 2, rows, columns, 3);
  const auto sizes = [](GraphBuilder& b, const TensorShape& shape) {
    return Vector(b, kInt32, {shape.dims().begin(), shape.dims().end()});
  };
  cases->push_back(Wide(OneOp("Conv2D", {Floats(image), Floats(filter, 2)}, attrs)));
  cases->back().label = label;
  cases->push_back(Wide({.op = "Conv2DBackpropInput",
                         .label = label,
                         .xs = {Floats(filter), Floats(result, 2)},
                         .ys = [=](GraphBuilder& b, auto& x) {
                           return Exprs{Op("Conv2DBackpropInput", {sizes(b, image), x[0], x[1]}, attrs)};
                         }}));
  cases->push_back(Wide({.op = "Conv2DBackpropFilter",
                         .label = label,
                         .xs = {Floats(image), Floats(result, 2)},
                         .ys = [=](GraphBuilder& b, auto& x) {
                           return Exprs{Op("Conv2DBackpropFilter", {x[0], sizes(b, filter), x[1]}, attrs)};
                         }}));
}

// Features added after 1.2: dilations, explicit paddings, and depthwise convolutions. These ops have double
// precision.
void AddLaterConvolutions(std::vector<GradientCase>* cases) {
  const auto sizes = [](GraphBuilder& b, const TensorShape& shape) {
    return Vector(b, kInt32, {shape.dims().begin(), shape.dims().end()});
  };
  const auto add = [&](const std::string& op, const std::string& label, const AttrMap& attrs,
                       const TensorShape& image, const TensorShape& filter, const TensorShape& result) {
    cases->push_back(OneOp(op, {Values(image), Values(filter, -1, 1, 2)}, attrs));
    cases->back().label = label;
    cases->push_back({.op = op + "BackpropInput",
                      .label = label,
                      .xs = {Values(filter), Values(result, -1, 1, 2)},
                      .ys = [=](GraphBuilder& b, auto& x) {
                        return Exprs{Op(op + "BackpropInput", {sizes(b, image), x[0], x[1]}, attrs)};
                      }});
    cases->push_back({.op = op + "BackpropFilter",
                      .label = label,
                      .xs = {Values(image), Values(result, -1, 1, 2)},
                      .ys = [=](GraphBuilder& b, auto& x) {
                        return Exprs{Op(op + "BackpropFilter", {x[0], sizes(b, filter), x[1]}, attrs)};
                      }});
  };
  const std::vector<int64_t> ones = {1, 1, 1, 1};
  add("Conv2D", "dilated",
      {{"strides", ones}, {"padding", "VALID"}, {"dilations", std::vector<int64_t>{1, 2, 1, 1}}},
      {1, 5, 3, 2}, {2, 2, 2, 3}, {1, 3, 2, 3});
  add("Conv2D", "explicit paddings",
      {{"strides", ones},
       {"padding", "EXPLICIT"},
       {"explicit_paddings", std::vector<int64_t>{0, 0, 1, 0, 0, 2, 0, 0}}},
      {1, 2, 2, 1}, {2, 2, 1, 2}, {1, 2, 3, 2});
}

// The parameters are inputs, too; running estimates are not differentiated.
void AddNorms(const std::string& op, const std::string& format, bool training,
              std::vector<GradientCase>* cases) {
  const AttrMap attrs = {{"epsilon", 0.01f}, {"data_format", format}, {"is_training", training}};
  GradientCase c{.op = op,
                 .label = StrCat(format, training ? " training" : " inference"),
                 .xs = {Floats(Image(format, 2, 4, 3, 2)), Floats({2}, 2), Floats({2}, 3)},
                 .ys = [=](GraphBuilder& b, auto& x) {
                   const auto constant = [&](float value) {
                     Tensor t(DataType::kFloat, TensorShape({training ? 0 : 2}));
                     for (float& v : t.flat<float>()) v = value;
                     return Expr(b, b.Constant(t));
                   };
                   return Exprs{Op(op, {x[0], x[1], x[2], constant(0.5f), constant(2.0f)}, attrs)};
                 }};
  c.second = false;
  c.delta = 0.02;
  c.tolerance = 1e-3;
  cases->push_back(std::move(c));
}

// The gradient of the gradient. The statistics of a training step are those of x.
void AddNormGrads(const std::string& version, const std::string& format, bool training,
                  std::vector<GradientCase>* cases) {
  const AttrMap attrs = {{"epsilon", 0.01f}, {"data_format", format}, {"is_training", training}};
  const TensorShape image = Image(format, 2, 3, 2, 2);
  cases->push_back(
      {.op = "FusedBatchNormGrad" + version,
       .label = StrCat(format, training ? " training" : " inference"),
       .xs = {Floats(image, 4), Floats(image), Floats({2}, 2)},
       .ys =
           [=](GraphBuilder& b, auto& x) {
             const auto constant = [&](float value) {
               Tensor t(DataType::kFloat, TensorShape({training ? 0 : 2}));
               for (float& v : t.flat<float>()) v = value;
               return Expr(b, b.Constant(t));
             };
             const Expr y =
                 Op("FusedBatchNorm" + version, {x[1], x[2], x[2], constant(0.5f), constant(2.0f)}, attrs);
             const Expr mean = training ? y.Sibling(3) : constant(0.5f);
             const Expr variance = training ? y.Sibling(4) : constant(2.0f);
             const Expr dx =
                 version == "V3"
                     ? Op("FusedBatchNormGradV3", {x[0], x[1], x[2], mean, variance, y.Sibling(5)}, attrs)
                     : Op("FusedBatchNormGrad" + version, {x[0], x[1], x[2], mean, variance}, attrs);
             return Exprs{dx, dx.Sibling(1), dx.Sibling(2)};
           },
       .second = false,
       .tolerance = 2e-3,
       .delta = 0.02});
}

void AddPools(const std::string& format, const std::string& padding, int64_t stride,
              std::vector<GradientCase>* cases) {
  const AttrMap attrs = {{"ksize", Window(format, 2, 2)},
                         {"strides", Window(format, stride, stride)},
                         {"padding", padding},
                         {"data_format", format}};
  const std::string label = StrCat(format, padding, " stride ", stride);
  const TensorShape image = Image(format, 2, 4, 3, 2);
  const int64_t rows = padding == "SAME" ? (4 + stride - 1) / stride : (4 - 2) / stride + 1;
  const int64_t columns = padding == "SAME" ? (3 + stride - 1) / stride : (3 - 2) / stride + 1;
  const TensorShape result = Image(format, 2, rows, columns, 2);
  for (const char* op : {"AvgPool", "MaxPool"}) {
    cases->push_back(OneOp(op, {Values(image)}, attrs));
    cases->back().label = label;
  }
  cases->push_back(
      {.op = "AvgPoolGrad", .label = label, .xs = {Values(result)}, .ys = [=](GraphBuilder& b, auto& x) {
         return Exprs{
             Op("AvgPoolGrad", {Vector(b, kInt32, {image.dims().begin(), image.dims().end()}), x[0]}, attrs)};
       }});
  cases->push_back({.op = "MaxPoolGrad",
                    .label = label,
                    .xs = {Values(image), Values(result, -1, 1, 2)},
                    .ys = [=](GraphBuilder&, auto& x) {
                      return Exprs{Op("MaxPoolGrad", {x[0], Op("MaxPool", {x[0]}, attrs), x[1]}, attrs)};
                    }});
  cases->push_back({.op = "MaxPoolGradGrad",
                    .label = label,
                    .xs = {Values(image), Values(image, -1, 1, 2)},
                    .ys = [=](GraphBuilder&, auto& x) {
                      return Exprs{Op("MaxPoolGradGrad", {x[0], Op("MaxPool", {x[0]}, attrs), x[1]}, attrs)};
                    }});
}

std::vector<GradientCase> ConvolutionCases() {
  std::vector<GradientCase> cases;
  for (const char* format : {"NHWC", "NCHW"}) {
    for (const char* padding : {"SAME", "VALID"}) {
      for (const int64_t stride : {1, 2}) {
        AddConvolutions(format, padding, stride, &cases);
        AddPools(format, padding, stride, &cases);
      }
    }
    for (const bool training : {false, true}) {
      for (const char* op : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}) {
        AddNorms(op, format, training, &cases);
      }
      for (const char* version : {"", "V2", "V3"}) AddNormGrads(version, format, training, &cases);
    }
  }
  AddLaterConvolutions(&cases);
  cases.push_back(
      {.op = "NthElement", .label = "", .xs = {Values({2, 3})}, .ys = [](GraphBuilder& b, const auto& e) {
         return std::vector<Expr>{Op("NthElement", {e[0], Scalar(b, DataType::kInt32, 1)})};
       }});
  return cases;
}
const GradientCaseList kConvolutionCases(ConvolutionCases);

}  // namespace
}  // namespace millrace
