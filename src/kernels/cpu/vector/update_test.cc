// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/update.h"

#include <complex>

#include "kernels/cpu/vector/cast.h"
#include "kernels/cpu/vector/stream.h"
#include "kernels/cpu/vector/vector_testing.h"

namespace millrace::cpu {
namespace {

class UpdateTest : public VectorTest {};

constexpr int64_t kLengths[] = {0, 1, 3, 8, 15, 16, 17, 31, 33, 100, 127, 9001};
constexpr int kRules = static_cast<int>(UpdateRule::kCount);

using L = long double;

L Sign(L x) { return static_cast<L>(x > 0) - static_cast<L>(x < 0); }
L Shrunk(L x, L by) { return by > 0 ? Sign(x) * std::max(std::fabs(x) - by, L(0)) : x; }

void FtrlReference(L* v, L g, L lr, L l1, L l2, L shrinkage, L power) {
  const L with = g + 2 * shrinkage * v[0];
  const L sum = v[1] + g * g;
  v[2] += with - (std::pow(sum, -power) - std::pow(v[1], -power)) / lr * v[0];
  const L quadratic = std::pow(sum, -power) / lr + 2 * l2;
  v[0] = std::fabs(v[2]) > l1 ? (Sign(v[2]) * l1 - v[2]) / quadratic : 0;
  v[1] = sum;
}

void AdaptiveReference(UpdateRule rule, L* v, L g, const L* s) {
  switch (rule) {
    case UpdateRule::kAdagrad:
    case UpdateRule::kAdagradV2:
    case UpdateRule::kAdagradFixed:
    case UpdateRule::kAdagradV2Fixed: {
      const bool second = rule == UpdateRule::kAdagradV2 || rule == UpdateRule::kAdagradV2Fixed;
      if (rule == UpdateRule::kAdagrad || rule == UpdateRule::kAdagradV2) v[1] += g * g;
      v[0] -= s[0] * g / (std::sqrt(v[1]) + (second ? s[1] : 0));
      break;
    }
    case UpdateRule::kAdagradDualAveraging:
      v[1] += g;
      v[2] += g * g;
      v[0] = -Shrunk(v[1], s[1] * s[3]) * s[0] / (s[2] * s[3] * s[0] + std::sqrt(v[2]));
      break;
    case UpdateRule::kAdadelta: {
      v[1] = s[1] * v[1] + (1 - s[1]) * g * g;
      const L update = std::sqrt(v[2] + s[2]) / std::sqrt(v[1] + s[2]) * g;
      v[2] = s[1] * v[2] + (1 - s[1]) * update * update;
      v[0] -= s[0] * update;
      break;
    }
    case UpdateRule::kRmsProp:
      v[1] = s[1] * v[1] + (1 - s[1]) * g * g;
      v[2] = s[2] * v[2] + s[0] * g / std::sqrt(v[1] + s[3]);
      v[0] -= v[2];
      break;
    case UpdateRule::kCenteredRmsProp:
      v[1] = s[1] * v[1] + (1 - s[1]) * g;
      v[2] = s[1] * v[2] + (1 - s[1]) * g * g;
      v[3] = s[2] * v[3] + s[0] * g / std::sqrt(v[2] - v[1] * v[1] + s[3]);
      v[0] -= v[3];
      break;
    case UpdateRule::kProximalAdagrad: {
      v[1] += g * g;
      const L rate = s[0] / std::sqrt(v[1]);
      v[0] = Shrunk(v[0] - rate * g, rate * s[1]) / (1 + rate * s[2]);
      break;
    }
    default:
      FAIL() << "no such rule";
  }
}

void MomentumReference(UpdateRule rule, L* v, L g, const L* s) {
  switch (rule) {
    case UpdateRule::kMomentum:
    case UpdateRule::kMomentumNesterov:
      v[1] = v[1] * s[1] + g;
      v[0] -= rule == UpdateRule::kMomentum ? s[0] * v[1] : s[0] * g + s[0] * s[1] * v[1];
      break;
    case UpdateRule::kKerasMomentum:
    case UpdateRule::kKerasMomentumNesterov:
      v[1] = v[1] * s[1] - s[0] * g;
      v[0] += rule == UpdateRule::kKerasMomentum ? v[1] : v[1] * s[1] - s[0] * g;
      break;
    case UpdateRule::kAdam:
    case UpdateRule::kAdamNesterov:
    case UpdateRule::kAdamWithAmsgrad: {
      const L alpha = s[2] * std::sqrt(1 - s[1]) / (1 - s[0]);
      v[1] = s[3] * v[1] + (1 - s[3]) * g;
      v[2] = s[4] * v[2] + (1 - s[4]) * g * g;
      L square = v[2];
      if (rule == UpdateRule::kAdamWithAmsgrad) square = v[3] = std::max(v[3], v[2]);
      const L direction = rule == UpdateRule::kAdamNesterov ? (1 - s[3]) * g + s[3] * v[1] : v[1];
      v[0] -= alpha * direction / (std::sqrt(square) + s[5]);
      break;
    }
    case UpdateRule::kAdaMax:
      v[1] = s[2] * v[1] + (1 - s[2]) * g;
      v[2] = std::max(s[3] * v[2], std::fabs(g));
      v[0] -= s[1] / (1 - s[0]) * v[1] / (v[2] + s[4]);
      break;
    case UpdateRule::kAddSign:
      v[1] = s[3] * v[1] + (1 - s[3]) * g;
      v[0] -= s[0] * (s[1] + s[2] * Sign(g) * Sign(v[1])) * g;
      break;
    case UpdateRule::kPowerSign:
      v[1] = s[3] * v[1] + (1 - s[3]) * g;
      v[0] -= s[0] * std::exp(s[1] * s[2] * Sign(g) * Sign(v[1])) * g;
      break;
    default:
      AdaptiveReference(rule, v, g, s);
  }
}

// The definitions, in long double.
void Reference(UpdateRule rule, L* v, L g, const L* s) {
  if (rule == UpdateRule::kGradientDescent) {
    v[0] -= s[0] * g;
  } else if (rule == UpdateRule::kProximalGradientDescent) {
    v[0] = Shrunk(v[0] - s[0] * g, s[0] * s[1]) / (1 + s[0] * s[2]);
  } else if (rule == UpdateRule::kFtrl) {
    FtrlReference(v, g, s[0], s[1], s[2], 0, s[3]);
  } else if (rule == UpdateRule::kFtrlV2) {
    FtrlReference(v, g, s[0], s[1], s[2], s[3], s[4]);
  } else {
    MomentumReference(rule, v, g, s);
  }
}

template <typename T>
std::vector<T> Numbers(int64_t n, uint32_t seed, double lo, double hi) {
  std::minstd_rand random(seed);
  std::vector<T> values(static_cast<size_t>(n));
  for (T& x : values) x = static_cast<T>(lo + (hi - lo) * static_cast<double>(random() % 10007) / 10007);
  return values;
}

// Arguments of a rule over n elements, and the arrays they point to.
template <typename T>
struct Case {
  Case(UpdateRule rule, DataType type, int64_t n, std::vector<T> s) : scalars(std::move(s)) {
    args.rule = rule;
    args.type = type;
    args.step = 7;
    grad = Numbers<T>(n, 4, -2, 2);
    if (n > 8) grad[5] = T(0);
    for (int k = 0; k < kMaxUpdateSlots; ++k) {
      // The mean of squares is larger than the square of the mean.
      slots.push_back(Numbers<T>(n, 5 + static_cast<uint32_t>(k), k == 0 ? -1 : 0.25, k < 2 ? 0.5 : 1));
    }
    before = slots;
    for (size_t i = 0; i < scalars.size(); ++i) args.scalars[i] = &scalars[i];
    args.grad = grad.data();
    for (int k = 0; k < kMaxUpdateSlots; ++k) args.slots[k] = slots[static_cast<size_t>(k)].data();
  }
  std::vector<T> scalars, grad;
  std::vector<std::vector<T>> slots, before;
  UpdateArgs args;
};

std::vector<std::vector<double>> ScalarsOf(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kAdam:
    case UpdateRule::kAdamNesterov:
    case UpdateRule::kAdamWithAmsgrad:
      return {{0.81, 0.998001, 0.01, 0.9, 0.999, 1e-8}};
    case UpdateRule::kAdaMax:
      return {{0.81, 0.01, 0.9, 0.999, 1e-8}};
    case UpdateRule::kAdagradDualAveraging:
      return {{0.1, 0.02, 0.3, 7}, {0.1, 0, 0.3, 7}};
    case UpdateRule::kFtrl:
      return {{0.1, 0.5, 0.3, -0.5}, {0.1, 0, 0, -0.5}, {0.2, 0.1, 0.1, -0.75}, {0.2, 0.1, 0.1, 0}};
    case UpdateRule::kFtrlV2:
      return {{0.1, 0.5, 0.3, 0.25, -0.5}, {0.2, 0.1, 0.1, 0.125, -0.75}};
    case UpdateRule::kProximalAdagrad:
    case UpdateRule::kProximalGradientDescent:
      return {{0.1, 0.5, 0.25}, {0.1, 0, 0.25}, {0.1, 0, 0}};
    default:
      return {{0.05, 0.9, 0.8, 0.7, 1e-3}};
  }
}

template <typename T>
void ExpectUpdates(DataType type) {
  for (int r = 0; r < kRules; ++r) {
    const auto rule = static_cast<UpdateRule>(r);
    SCOPED_TRACE(r);
    for (const auto& exact : ScalarsOf(rule)) {
      for (const int64_t n : kLengths) {
        Case<T> c(rule, type, n, std::vector<T>(exact.begin(), exact.end()));
        UnevenParallel parallel(5);
        Update(c.args, n, parallel);
        const std::vector<L> s(c.scalars.begin(), c.scalars.end());
        for (size_t i = 0; i < c.grad.size(); ++i) {
          L v[kMaxUpdateSlots];
          for (size_t k = 0; k < kMaxUpdateSlots; ++k) v[k] = c.before[k][i];
          Reference(rule, v, c.grad[i], s.data());
          for (size_t k = 0; k < kMaxUpdateSlots; ++k) {
            ASSERT_NEAR(static_cast<double>(c.slots[k][i]), static_cast<double>(v[k]),
                        64 * std::numeric_limits<T>::epsilon() * (1 + std::fabs(static_cast<double>(v[k]))))
                << "slot " << k << ", " << i << " of " << n;
          }
        }
      }
    }
  }
}

TEST_P(UpdateTest, Floats) { ExpectUpdates<float>(DataType::kFloat); }
TEST_P(UpdateTest, Doubles) { ExpectUpdates<double>(DataType::kDouble); }

TEST_P(UpdateTest, RealNumbersAreComplexNumbersToo) {
  const int64_t n = 40;
  int rules = 0;
  for (int r = 0; r < kRules; ++r) {
    const auto rule = static_cast<UpdateRule>(r);
    if (!HasUpdate(rule, DataType::kComplex64)) continue;
    ++rules;
    const auto exact = ScalarsOf(rule)[0];
    Case<double> real(rule, DataType::kDouble, n, exact);
    const auto widen = [](const std::vector<double>& from) {
      return std::vector<std::complex<double>>(from.begin(), from.end());
    };
    const auto scalars = widen(exact), grad = widen(real.grad);
    std::vector<std::vector<std::complex<double>>> slots;
    for (const auto& slot : real.slots) slots.push_back(widen(slot));
    UpdateArgs args{.rule = rule, .type = DataType::kComplex128, .grad = grad.data()};
    for (size_t i = 0; i < scalars.size(); ++i) args.scalars[i] = &scalars[i];
    for (int k = 0; k < kMaxUpdateSlots; ++k) args.slots[k] = slots[static_cast<size_t>(k)].data();
    UnevenParallel parallel(3);
    Update(args, n, parallel);
    Update(real.args, n, parallel);
    for (size_t k = 0; k < kMaxUpdateSlots; ++k) {
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        EXPECT_NEAR(slots[k][i].real(), real.slots[k][i], 1e-14);
        EXPECT_NEAR(slots[k][i].imag(), 0, 1e-14);
      }
    }
  }
  EXPECT_EQ(rules, 10);
}

TEST_P(UpdateTest, AnyNumberOfShardsGivesTheSameBits) {
  const int64_t n = 50021;
  for (int r = 0; r < kRules; ++r) {
    const auto rule = static_cast<UpdateRule>(r);
    const auto exact = ScalarsOf(rule)[0];
    Case<float> a(rule, DataType::kFloat, n, std::vector<float>(exact.begin(), exact.end()));
    Case<float> b(rule, DataType::kFloat, n, std::vector<float>(exact.begin(), exact.end()));
    SerialParallel one;
    UnevenParallel many(7);
    Update(a.args, n, one);
    Update(b.args, n, many);
    EXPECT_EQ(a.slots, b.slots) << r;
  }
}

// Each row equals the result of one dense step, in order, with any number of threads.
TEST_P(UpdateTest, RowsAreChangedInTheOrderOfTheIndices) {
  const int64_t rows = 37;
  for (const int64_t width : {int64_t{1}, int64_t{5}, int64_t{64}, int64_t{200}}) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < 300; ++i) indices.push_back(i * i % rows);
    const auto n = static_cast<int64_t>(indices.size()) * width;
    for (int r = 0; r < kRules; ++r) {
      const auto rule = static_cast<UpdateRule>(r);
      const auto exact = ScalarsOf(rule)[0];
      Case<float> a(rule, DataType::kFloat, n, std::vector<float>(exact.begin(), exact.end()));
      Case<float> b(rule, DataType::kFloat, n, std::vector<float>(exact.begin(), exact.end()));
      UnevenParallel parallel(7);
      UpdateRows(a.args, indices, rows, width, parallel);
      for (size_t i = 0; i < indices.size(); ++i) {
        UpdateArgs row = b.args;
        row.grad = b.grad.data() + static_cast<int64_t>(i) * width;
        for (size_t k = 0; k < kMaxUpdateSlots; ++k) row.slots[k] = b.slots[k].data() + indices[i] * width;
        Update(row, width, parallel);
      }
      EXPECT_EQ(a.slots, b.slots) << r;
    }
  }
}

// Sizes at which values are written through the caches or bypass them; parts with any begin.
TEST_P(UpdateTest, NewValuesBesideTheOldOnesAreThoseInPlace) {
  for (const int64_t n : {int64_t{1}, int64_t{33}, int64_t{5000}, (kMinStreamBytes >> 2) + 77}) {
    for (int r = 0; r < kRules; ++r) {
      const auto rule = static_cast<UpdateRule>(r);
      const auto exact = ScalarsOf(rule)[0];
      Case<float> a(rule, DataType::kFloat, n, std::vector<float>(exact.begin(), exact.end()));
      Case<float> b(rule, DataType::kFloat, n, std::vector<float>(exact.begin(), exact.end()));
      const auto old = b.slots;
      // With some rules every second slot is changed in place.
      const size_t every = r % 3 == 0 ? 2 : 1;
      std::vector<std::vector<float>> room(kMaxUpdateSlots);
      for (size_t k = 0; k < kMaxUpdateSlots; k += every) {
        constexpr size_t kRegister = 64 / sizeof(float);
        room[k].assign(static_cast<size_t>(n) + kRegister, -1.f);
        b.args.from[k] = b.slots[k].data();
        const auto past = reinterpret_cast<uintptr_t>(room[k].data()) / sizeof(float) % kRegister;
        b.args.slots[k] = room[k].data() + (kRegister - past) % kRegister;
      }
      UnevenParallel parallel(5);
      Update(a.args, n, parallel);
      Update(b.args, n, parallel);
      for (int k = 0; k < NumUpdateSlots(rule); ++k) {
        const auto slot = static_cast<size_t>(k);
        if (b.args.from[k] != nullptr) {
          EXPECT_EQ(b.slots[slot], old[slot]) << r;
        }
        const auto* const got = static_cast<const float*>(b.args.slots[k]);
        EXPECT_TRUE(std::equal(a.slots[slot].begin(), a.slots[slot].end(), got)) << r << " " << n;
      }
    }
  }
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
    for (int r = 0; r < kRules; ++r) {
      const auto rule = static_cast<UpdateRule>(r);
      const auto exact = ScalarsOf(rule)[0];
      const auto scalars = narrow(std::vector<float>(exact.begin(), exact.end()));
      Case<float> c(rule, DataType::kFloat, n, wide(scalars));
      const auto grad = narrow(c.grad);
      c.grad = wide(grad);
      c.args.grad = c.grad.data();
      UpdateArgs args{.rule = rule, .type = type, .grad = grad.data()};
      args.step = c.args.step;
      std::vector<std::vector<uint16_t>> slots;
      for (size_t k = 0; k < kMaxUpdateSlots; ++k) {
        slots.push_back(narrow(c.slots[k]));
        c.slots[k] = wide(slots[k]);
        c.args.slots[k] = c.slots[k].data();
      }
      for (size_t i = 0; i < scalars.size(); ++i) args.scalars[i] = &scalars[i];
      for (size_t k = 0; k < kMaxUpdateSlots; ++k) args.slots[k] = slots[k].data();
      Update(args, n, parallel);
      Update(c.args, n, parallel);
      for (size_t k = 0; k < kMaxUpdateSlots; ++k) EXPECT_EQ(slots[k], narrow(c.slots[k])) << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, UpdateTest, EachIsa(), IsaName);

}  // namespace
}  // namespace millrace::cpu
