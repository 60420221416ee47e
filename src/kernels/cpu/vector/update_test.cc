// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/update.h"

#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class UpdateTest : public VectorTest {};

constexpr int64_t kLengths[] = {0, 1, 3, 8, 15, 16, 17, 31, 33, 64, 100, 127, 130, 9001};

template <typename T>
std::vector<T> Numbers(int64_t n, uint32_t seed, double lo, double hi) {
  std::minstd_rand random(seed);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& x : values) x = static_cast<T>(lo + (hi - lo) * static_cast<double>(random() % 10007) / 10007);
  return values;
}

template <typename T>
void ExpectNear(const std::vector<T>& got, const std::vector<long double>& want) {
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), static_cast<double>(want[i]),
                8 * std::numeric_limits<T>::epsilon() * (1 + std::fabs(static_cast<double>(want[i]))))
        << i << " of " << got.size();
  }
}

template <typename T>
void ExpectUpdates(DataType type) {
  using L = long double;
  const T lr = T(0.01), momentum = T(0.9), beta1 = T(0.9), beta2 = T(0.999), epsilon = T(1e-8);
  const T power1 = T(0.81), power2 = T(0.998001);
  for (const int64_t n : kLengths) {
    const auto var = Numbers<T>(n, 1, -1, 1), accum = Numbers<T>(n, 2, -1, 1),
               square = Numbers<T>(n, 3, 0.01, 1), grad = Numbers<T>(n, 4, -2, 2);
    UnevenParallel parallel(5);
    std::vector<T> x = var;
    std::vector<L> want(var.size()), want_accum(var.size()), want_square(var.size());
    ApplyGradientDescent(type, x.data(), &lr, grad.data(), n, parallel);
    for (size_t i = 0; i < var.size(); ++i) want[i] = var[i] - L(lr) * grad[i];
    ExpectNear(x, want);
    for (const bool nesterov : {false, true}) {
      x = var;
      std::vector<T> a = accum, s = square;
      ApplyMomentum(type, x.data(), a.data(), {.lr = &lr, .momentum = &momentum, .nesterov = nesterov},
                    grad.data(), n, parallel);
      for (size_t i = 0; i < var.size(); ++i) {
        want_accum[i] = L(accum[i]) * momentum + grad[i];
        want[i] =
            var[i] - (nesterov ? L(lr) * grad[i] + L(lr) * momentum * want_accum[i] : L(lr) * want_accum[i]);
      }
      ExpectNear(x, want);
      ExpectNear(a, want_accum);
      x = var;
      a = accum;
      const AdamScalars scalars{.beta1_power = &power1,
                                .beta2_power = &power2,
                                .lr = &lr,
                                .beta1 = &beta1,
                                .beta2 = &beta2,
                                .epsilon = &epsilon,
                                .nesterov = nesterov};
      ApplyAdam(type, x.data(), a.data(), s.data(), scalars, grad.data(), n, parallel);
      const L alpha = L(lr) * std::sqrt(L(1) - power2) / (L(1) - power1);
      for (size_t i = 0; i < var.size(); ++i) {
        want_accum[i] = accum[i] + (L(grad[i]) - accum[i]) * (1 - L(beta1));
        want_square[i] = square[i] + (L(grad[i]) * grad[i] - square[i]) * (1 - L(beta2));
        const L direction = nesterov ? L(grad[i]) * (1 - L(beta1)) + beta1 * want_accum[i] : want_accum[i];
        want[i] = var[i] - alpha * direction / (std::sqrt(want_square[i]) + epsilon);
      }
      ExpectNear(a, want_accum);
      ExpectNear(s, want_square);
      ExpectNear(x, want);
    }
  }
}

TEST_P(UpdateTest, Floats) { ExpectUpdates<float>(DataType::kFloat); }
TEST_P(UpdateTest, Doubles) { ExpectUpdates<double>(DataType::kDouble); }

TEST_P(UpdateTest, AnyNumberOfShardsGivesTheSameBits) {
  const int64_t n = 50021;
  const float lr = 0.1f, momentum = 0.9f;
  const auto grad = Numbers<float>(n, 4, -2, 2);
  auto x = Numbers<float>(n, 1, -1, 1), a = Numbers<float>(n, 2, -1, 1);
  auto y = x, b = a;
  SerialParallel one;
  UnevenParallel many(7);
  ApplyMomentum(DataType::kFloat, x.data(), a.data(), {&lr, &momentum, true}, grad.data(), n, one);
  ApplyMomentum(DataType::kFloat, y.data(), b.data(), {&lr, &momentum, true}, grad.data(), n, many);
  EXPECT_EQ(x, y);
  EXPECT_EQ(a, b);
}

TEST_P(UpdateTest, HalfTypesGoThroughFloat) {
  const int64_t n = 1100;
  UnevenParallel parallel(4);
  for (const DataType type : {DataType::kHalf, DataType::kBfloat16}) {
    const auto narrow = [&](const std::vector<float>& from) {
      std::vector<uint16_t> to(from.size());
      FindCast(DataType::kFloat, type)(from.data(), to.data(), static_cast<int64_t>(from.size()));
      return to;
    };
    const auto wide = [&](const std::vector<uint16_t>& from) {
      std::vector<float> to(from.size());
      FindCast(type, DataType::kFloat)(from.data(), to.data(), static_cast<int64_t>(from.size()));
      return to;
    };
    const auto scalars = narrow({0.5f, 0.75f, 0.25f, 0.5f, 0.75f, 0.0009765625f});
    const auto exact = wide(scalars);
    const auto grad = narrow(Numbers<float>(n, 4, -2, 2));
    std::vector<uint16_t> x = narrow(Numbers<float>(n, 1, -1, 1)), m = narrow(Numbers<float>(n, 2, -1, 1)),
                          v = narrow(Numbers<float>(n, 3, 0.25, 1));
    std::vector<float> fx = wide(x), fm = wide(m), fv = wide(v);
    ApplyAdam(type, x.data(), m.data(), v.data(),
              {&scalars[0], &scalars[1], &scalars[2], &scalars[3], &scalars[4], &scalars[5], false},
              grad.data(), n, parallel);
    ApplyAdam(DataType::kFloat, fx.data(), fm.data(), fv.data(),
              {&exact[0], &exact[1], &exact[2], &exact[3], &exact[4], &exact[5], false}, wide(grad).data(), n,
              parallel);
    EXPECT_EQ(x, narrow(fx));
    EXPECT_EQ(m, narrow(fm));
    EXPECT_EQ(v, narrow(fv));
    ApplyGradientDescent(type, x.data(), &scalars[0], grad.data(), n, parallel);
    fx = wide(narrow(fx));
    ApplyGradientDescent(DataType::kFloat, fx.data(), &exact[0], wide(grad).data(), n, parallel);
    EXPECT_EQ(x, narrow(fx));
    ApplyMomentum(type, x.data(), m.data(), {&scalars[0], &scalars[1], true}, grad.data(), n, parallel);
    fx = wide(narrow(fx));
    fm = wide(narrow(fm));
    ApplyMomentum(DataType::kFloat, fx.data(), fm.data(), {&exact[0], &exact[1], true}, wide(grad).data(), n,
                  parallel);
    EXPECT_EQ(x, narrow(fx));
    EXPECT_EQ(m, narrow(fm));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, UpdateTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
