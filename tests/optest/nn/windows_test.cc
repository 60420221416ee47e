// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Windows over images and volumes of any number of channels, compared with plain loops: blocks of channels
// and the rest, ties, NaN, infinity. The values are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernel/testing.h"
#include "tensor/testing.h"

namespace millrace {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
using Values = std::vector<double>;

Values Random(int64_t n, unsigned seed, bool special = false) {
  std::mt19937 random(seed);
  Values values;
  for (int64_t i = 0; i < n; ++i) {
    const auto draw = random() % 64;
    values.push_back(special && draw == 0   ? kNan
                     : special && draw == 1 ? kInf
                     : special && draw == 2 ? -kInf
                                            : static_cast<double>(random() % 15) - 7);
  }
  return values;
}
double LowestOf(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return std::numeric_limits<float>::lowest();
    case DataType::kDouble:
      return std::numeric_limits<double>::lowest();
    case DataType::kHalf:
      return -65504;
    default:
      return std::numeric_limits<int32_t>::min();
  }
}
Tensor Make(DataType type, const Values& values, const TensorShape& shape) {
  Tensor t = *Tensor::Allocate(type, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = values[static_cast<size_t>(i)];
    switch (type) {
      case DataType::kFloat:
        t.data<float>()[i] = static_cast<float>(v);
        break;
      case DataType::kDouble:
        t.data<double>()[i] = v;
        break;
      case DataType::kHalf:
        t.data<half>()[i] = static_cast<half>(static_cast<float>(v));
        break;
      case DataType::kBfloat16:
        t.data<bfloat16>()[i] = static_cast<bfloat16>(static_cast<float>(v));
        break;
      default:
        t.data<int32_t>()[i] = static_cast<int32_t>(v);
    }
  }
  return t;
}

// Output indices and the input indices in their windows along one side.
struct Side {
  int64_t in, window, stride, rate, out, before;
};
Side MakeSide(int64_t in, int64_t window, int64_t stride, int64_t rate, bool same) {
  const int64_t reach = (window - 1) * rate + 1;
  const int64_t out = same ? (in + stride - 1) / stride : (in - reach + stride) / stride;
  return {in,   window, stride,
          rate, out,    same ? std::max<int64_t>((out - 1) * stride + reach - in, 0) / 2 : 0};
}

class DilationTest : public testing::TestWithParam<int64_t> {};

TEST_P(DilationTest, ForwardAndGradientsAreThoseOfPlainLoops) {
  const int64_t depth = GetParam();
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kInt32}) {
    for (const bool same : {true, false}) {
      for (const bool special : {false, true}) {
        if (special && type == DataType::kInt32) continue;
        SCOPED_TRACE(testing::Message() << DataTypeName(type) << " same " << same << " special " << special);
        const Side y = MakeSide(6, 2, 2, 2, same), x = MakeSide(5, 3, 1, 1, same);
        const Values in = Random(2 * y.in * x.in * depth, 1, special), f = Random(6 * depth, 2);
        const Values grads = Random(2 * y.out * x.out * depth, 3);
        Values out(grads.size()), to_in(in.size()), to_filter(f.size());
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t i = 0; i < y.out * x.out * depth; ++i) {
            const int64_t c = i % depth, column = i / depth % x.out, row = i / depth / x.out;
            double largest = LowestOf(type);
            int64_t from = -1, filter = -1;
            for (int64_t a = 0; a < 2; ++a) {
              for (int64_t b = 0; b < 3; ++b) {
                const int64_t h = row * 2 - y.before + a * 2, v = column - x.before + b;
                if (h < 0 || h >= y.in || v < 0 || v >= x.in) continue;
                const int64_t at = ((n * y.in + h) * x.in + v) * depth + c, place = (a * 3 + b) * depth + c;
                const double sum = in[static_cast<size_t>(at)] + f[static_cast<size_t>(place)];
                const bool larger = largest < sum;  // never with NaN
                if (larger) largest = sum;
                if (from >= 0 && !larger) continue;
                from = at;
                filter = place;
              }
            }
            const auto o = static_cast<size_t>(n * y.out * x.out * depth + i);
            ASSERT_GE(from, 0);
            out[o] = largest;
            to_in[static_cast<size_t>(from)] += grads[o];
            to_filter[static_cast<size_t>(filter)] += grads[o];
          }
        }
        const TensorShape image({2, y.in, x.in, depth}), small({2, y.out, x.out, depth}),
            window({2, 3, depth});
        const auto run = [&](const char* op, bool gradient) {
          KernelRunner runner(op);
          runner.Attr("strides", std::vector<int64_t>{1, 2, 1, 1})
              .Attr("rates", std::vector<int64_t>{1, 2, 1, 1})
              .Attr("padding", same ? "SAME" : "VALID")
              .Input(Make(type, in, image))
              .Input(Make(type, f, window));
          if (gradient) runner.Input(Make(type, grads, small));
          return *runner.RunOne();
        };
        ExpectTensorEqual(Make(type, out, small), run("Dilation2D", false));
        ExpectTensorEqual(Make(type, to_in, image), run("Dilation2DBackpropInput", true));
        ExpectTensorEqual(Make(type, to_filter, window), run("Dilation2DBackpropFilter", true));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, DilationTest, testing::Values(1, 3, 4, 16, 21, 38));

// The windows of a volume.
struct Volume {
  Side sides[3];
  int64_t channels;

  int64_t inputs() const { return sides[0].in * sides[1].in * sides[2].in; }
  int64_t outputs() const { return sides[0].out * sides[1].out * sides[2].out; }
  // The indices inside the volume that the window of output o covers.
  std::vector<int64_t> Covered(int64_t o) const {
    int64_t at[3] = {o / sides[2].out / sides[1].out, o / sides[2].out % sides[1].out, o % sides[2].out};
    std::vector<int64_t> covered;
    int64_t k[3];
    for (k[0] = 0; k[0] < sides[0].window; ++k[0]) {
      for (k[1] = 0; k[1] < sides[1].window; ++k[1]) {
        for (k[2] = 0; k[2] < sides[2].window; ++k[2]) {
          int64_t place = 0;
          bool inside = true;
          for (int i = 0; i < 3; ++i) {
            const int64_t p = at[i] * sides[i].stride - sides[i].before + k[i];
            inside = inside && p >= 0 && p < sides[i].in;
            place = place * sides[i].in + p;
          }
          if (inside) covered.push_back(place);
        }
      }
    }
    return covered;
  }
};

class VolumePoolTest : public testing::TestWithParam<int64_t> {};

TEST_P(VolumePoolTest, ForwardAndGradientsAreThoseOfPlainLoops) {
  const int64_t channels = GetParam();
  for (const DataType type : {DataType::kFloat, DataType::kHalf, DataType::kBfloat16}) {
    for (const bool same : {true, false}) {
      for (const bool special : {false, true}) {
        SCOPED_TRACE(testing::Message() << DataTypeName(type) << " same " << same << " special " << special);
        const Volume v{{MakeSide(3, 2, 2, 1, same), MakeSide(5, 2, 1, 1, same), MakeSide(6, 4, 3, 1, same)},
                       channels};
        const int64_t inputs = v.inputs() * channels, outputs = v.outputs() * channels;
        const Values in = Random(2 * inputs, 1, special), plain = Random(2 * inputs, 4);
        const Values grad = Random(2 * outputs, 2), wide = Random(2 * inputs, 3);
        Values most(grad.size()), mean(grad.size()), taken(grad.size()), spread(in.size());
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t o = 0; o < outputs; ++o) {
            const auto covered = v.Covered(o / channels);
            const auto at = [&](int64_t place) {
              return static_cast<size_t>(n * inputs + place * channels + o % channels);
            };
            const auto to = static_cast<size_t>(n * outputs + o);
            int64_t best = covered[0];
            double sum = 0;
            for (const int64_t place : covered) {
              const double x = in[at(place)], y = in[at(best)];
              if (x > y || (std::isnan(x) && !std::isnan(y))) best = place;
              sum += plain[at(place)];
            }
            most[to] = in[at(best)];
            taken[to] = wide[at(best)];
            spread[at(best)] += grad[to];
            mean[to] = static_cast<double>(static_cast<float>(sum) / static_cast<float>(covered.size()));
          }
        }
        const TensorShape large({2, 3, 5, 6, channels});
        const TensorShape small({2, v.sides[0].out, v.sides[1].out, v.sides[2].out, channels});
        const auto run = [&](const char* op, const std::vector<Tensor>& arguments) {
          KernelRunner runner(op);
          runner.Attr("ksize", std::vector<int64_t>{1, 2, 2, 4, 1})
              .Attr("strides", std::vector<int64_t>{1, 2, 1, 3, 1})
              .Attr("padding", same ? "SAME" : "VALID");
          for (const Tensor& t : arguments) runner.Input(t);
          return *runner.RunOne();
        };
        const Tensor x = Make(type, in, large), y = Make(type, most, small), dy = Make(type, grad, small);
        ExpectTensorEqual(y, run("MaxPool3D", {x}));
        ExpectTensorEqual(Make(type, spread, large), run("MaxPool3DGrad", {x, y, dy}));
        ExpectTensorEqual(Make(type, taken, small),
                          run("MaxPool3DGradGrad", {x, y, Make(type, wide, large)}));
        ExpectTensorEqual(Make(type, mean, small), run("AvgPool3D", {Make(type, plain, large)}));
        if (special || type != DataType::kFloat) continue;
        Values back(in.size());
        for (int64_t n = 0; n < 2; ++n) {
          for (int64_t o = 0; o < outputs; ++o) {
            const auto covered = v.Covered(o / channels);
            for (const int64_t place : covered) {
              double& sum = back[static_cast<size_t>(n * inputs + place * channels + o % channels)];
              const auto share = static_cast<float>(grad[static_cast<size_t>(n * outputs + o)]) /
                                 static_cast<float>(covered.size());
              sum = static_cast<double>(static_cast<float>(sum) + share);
            }
          }
        }
        const Tensor sizes =
            Tensor::From<int32_t>({2, 3, 5, 6, static_cast<int32_t>(channels)}, TensorShape({5}));
        ExpectTensorEqual(Make(type, back, large), run("AvgPool3DGrad", {sizes, dy}));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, VolumePoolTest, testing::Values(1, 3, 4, 8, 16, 29));

}  // namespace
}  // namespace millrace
