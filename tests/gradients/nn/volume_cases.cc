// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

namespace millrace {
namespace {

using Exprs = std::vector<Expr>;
using Ints = std::vector<int64_t>;
constexpr DataType kInt32 = DataType::kInt32;

// As float, for ops without doubles: differences are less exact.
Tensor Floats(const Tensor& t) {
  std::vector<float> values;
  for (const double v : t.flat<double>()) values.push_back(static_cast<float>(v));
  return Tensor::From<float>(values, t.shape());
}
GradientCase InFloat(GradientCase c) {
  c.tolerance = 2e-3;
  c.delta = 1e-2;
  return c;
}

void AddConvolutions(std::vector<GradientCase>* cases) {
  struct Form {
    const char* label;
    AttrMap attrs;
    TensorShape x, filter, y;
  };
  const Form forms[] = {
      {"valid",
       {{"strides", Ints{1, 1, 1, 1, 1}}, {"padding", "VALID"}},
       {1, 3, 2, 2, 2},
       {2, 1, 2, 2, 1},
       {1, 2, 2, 1, 1}},
      {"same",
       {{"strides", Ints{1, 2, 1, 2, 1}}, {"padding", "SAME"}},
       {2, 3, 2, 3, 1},
       {2, 2, 2, 1, 2},
       {2, 2, 2, 2, 2}},
      {"channels first",
       {{"strides", Ints{1, 1, 1, 1, 1}}, {"padding", "VALID"}, {"data_format", "NCDHW"}},
       {1, 2, 3, 2, 2},
       {2, 2, 1, 2, 2},
       {1, 2, 2, 1, 2}},
  };
  for (const Form& f : forms) {
    const Tensor x = Values(f.x), w = Values(f.filter, -1, 1, 3), y = Values(f.y, -1, 1, 5);
    cases->push_back(OneOp("Conv3D", {x, w}, f.attrs));
    cases->back().label = f.label;
    cases->push_back(
        {.op = "Conv3DBackpropInputV2",
         .label = f.label,
         .xs = {w, y},
         .ys = [f](GraphBuilder& b, const Exprs& e) {
           const Ints sizes(f.x.dims().begin(), f.x.dims().end());
           return Exprs{Op("Conv3DBackpropInputV2", {Vector(b, kInt32, sizes), e[0], e[1]}, f.attrs)};
         }});
    cases->push_back(
        {.op = "Conv3DBackpropFilterV2",
         .label = f.label,
         .xs = {x, y},
         .ys = [f](GraphBuilder& b, const Exprs& e) {
           const Ints sizes(f.filter.dims().begin(), f.filter.dims().end());
           return Exprs{Op("Conv3DBackpropFilterV2", {e[0], Vector(b, kInt32, sizes), e[1]}, f.attrs)};
         }});
  }
}

void AddVolumePools(std::vector<GradientCase>* cases) {
  for (const char* format : {"NDHWC", "NCDHW"}) {
    const bool first = std::string(format) == "NCDHW";
    const Ints ksize = first ? Ints{1, 1, 2, 1, 2} : Ints{1, 2, 1, 2, 1};
    const Ints strides = first ? Ints{1, 1, 1, 1, 2} : Ints{1, 1, 1, 2, 1};
    const AttrMap attrs = {
        {"ksize", ksize}, {"strides", strides}, {"padding", "SAME"}, {"data_format", format}};
    const TensorShape in = first ? TensorShape({1, 2, 3, 1, 3}) : TensorShape({1, 3, 1, 3, 2});
    const TensorShape out = first ? TensorShape({1, 2, 3, 1, 2}) : TensorShape({1, 3, 1, 2, 2});
    cases->push_back(OneOp("AvgPool3D", {Values(in)}, attrs));
    cases->back().label = format;
    cases->push_back({.op = "AvgPool3DGrad",
                      .label = format,
                      .xs = {Values(out)},
                      .ys = [=](GraphBuilder& b, const Exprs& e) {
                        const Ints sizes(in.dims().begin(), in.dims().end());
                        return Exprs{Op("AvgPool3DGrad", {Vector(b, kInt32, sizes), e[0]}, attrs)};
                      }});
    cases->push_back(InFloat(OneOp("MaxPool3D", {Floats(Values(in))}, attrs)));
    cases->back().label = format;
    for (const bool grad : {true, false}) {
      const char* op = grad ? "MaxPool3DGrad" : "MaxPool3DGradGrad";
      cases->push_back(InFloat({.op = op,
                                .label = format,
                                .xs = {Floats(Values(in)), Floats(Values(grad ? out : in, -1, 1, 3))},
                                .ys = [=](GraphBuilder&, const Exprs& e) {
                                  const Expr y = Op("MaxPool3D", {e[0]}, attrs);
                                  return Exprs{Op(op, {e[0], y, e[1]}, attrs)};
                                }}));
    }
  }
}

void AddImagePools(std::vector<GradientCase>* cases) {
  const AttrMap attrs = {{"padding", "SAME"}};
  const auto pool = [=](GraphBuilder& b, const char* op, std::vector<Expr> x) {
    const Expr ksize = Vector(b, kInt32, {1, 2, 2, 1}), strides = Vector(b, kInt32, {1, 2, 1, 1});
    return x.size() == 1 ? Op(op, {x[0], ksize, strides}, attrs)
                         : Op(op, {x[0], x[1], x[2], ksize, strides}, attrs);
  };
  cases->push_back({.op = "MaxPoolV2",
                    .label = "",
                    .xs = {Values({1, 3, 3, 2})},
                    .ys = [=](GraphBuilder& b, const Exprs& e) { return Exprs{pool(b, "MaxPoolV2", e)}; }});
  for (const bool grad : {true, false}) {
    const char* op = grad ? "MaxPoolGradV2" : "MaxPoolGradGradV2";
    const TensorShape shape = grad ? TensorShape({1, 2, 3, 2}) : TensorShape({1, 3, 3, 2});
    cases->push_back({.op = op,
                      .label = "",
                      .xs = {Values({1, 3, 3, 2}), Values(shape, -1, 1, 3)},
                      .ys = [=](GraphBuilder& b, const Exprs& e) {
                        return Exprs{pool(b, op, {e[0], pool(b, "MaxPoolV2", {e[0]}), e[1]})};
                      }});
  }
  for (const char* op : {"FractionalMaxPool", "FractionalAvgPool"}) {
    for (const bool overlapping : {false, true}) {
      cases->push_back({.op = op,
                        .label = overlapping ? "overlapping" : "",
                        .xs = {Values({2, 5, 4, 2})},
                        .ys =
                            [=](GraphBuilder&, const Exprs& e) {
                              return Exprs{Op(op, {e[0]},
                                              {{"pooling_ratio", std::vector<float>{1, 1.5f, 1.4f, 1}},
                                               {"deterministic", true},
                                               {"overlapping", overlapping},
                                               {"seed", int64_t{3}},
                                               {"seed2", int64_t{7}}})};
                            },
                        .second = false});
    }
  }
}

void AddPatches(std::vector<GradientCase>* cases) {
  for (const char* padding : {"SAME", "VALID"}) {
    const AttrMap attrs = {{"ksizes", std::vector<int64_t>{1, 2, 1, 2, 1}},
                           {"strides", std::vector<int64_t>{1, 1, 2, 1, 1}},
                           {"padding", padding}};
    cases->push_back(OneOp("ExtractVolumePatches", {Values({2, 3, 2, 3, 2})}, attrs));
    cases->back().label = padding;
  }
}

std::vector<GradientCase> VolumeCases() {
  std::vector<GradientCase> cases;
  AddPatches(&cases);
  AddConvolutions(&cases);
  AddVolumePools(&cases);
  AddImagePools(&cases);
  return cases;
}
const GradientCaseList kVolumeCases(VolumeCases);

}  // namespace
}  // namespace millrace
