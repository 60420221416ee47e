// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/unary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/vector/dispatch.h"
#include "kernels/cpu/vector/unary_scalar.h"

namespace millrace::cpu {
namespace {

bool WritesBool(UnaryOp op) {
  return op == UnaryOp::kIsNan || op == UnaryOp::kIsInf || op == UnaryOp::kIsFinite ||
         op == UnaryOp::kLogicalNot;
}

constexpr double kFloatNs[] = {
#define MR_UNARY_ROW(name, types, ns, ...) ns,
    MR_UNARY_OPS(MR_UNARY_ROW)
#undef MR_UNARY_ROW
};

template <DataType kType, int kOp>
void ThroughFloat(const void* in, void* out, int64_t n) {
  constexpr auto op = static_cast<UnaryOp>(kOp);
  const UnaryFn function = FindUnary(op, DataType::kFloat);
  const auto* x = static_cast<const uint16_t*>(in);
  std::array<float, kHalfBlock> block;
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t size = std::min(kHalfBlock, n - i);
    HalfToFloat(kType, x + i, block.data(), size);
    if (WritesBool(op)) {
      function(block.data(), static_cast<uint8_t*>(out) + i, size);
    } else {
      function(block.data(), block.data(), size);
      FloatToHalf(kType, block.data(), static_cast<uint16_t*>(out) + i, size);
    }
  }
}

template <DataType kType, int... kOps>
constexpr std::array<UnaryFn, kUnaryOps> HalfTable(std::integer_sequence<int, kOps...>) {
  return {ThroughFloat<kType, kOps>...};
}
constexpr auto kHalfTable = HalfTable<DataType::kHalf>(std::make_integer_sequence<int, kUnaryOps>());
constexpr auto kBfloat16Table = HalfTable<DataType::kBfloat16>(std::make_integer_sequence<int, kUnaryOps>());

}  // namespace

UnaryFn FindUnary(UnaryOp op, DataType type) {
  const auto index = static_cast<size_t>(op);
  if (index >= static_cast<size_t>(kUnaryOps)) return nullptr;
  if (IsHalfType(type)) {
    if (FindUnary(op, DataType::kFloat) == nullptr) return nullptr;
    return type == DataType::kHalf ? kHalfTable[index] : kBfloat16Table[index];
  }
  const UnaryTable& table = ActiveTables().unary;
  UnaryFn function = nullptr;
  if (type == DataType::kFloat) function = table.f32[index];
  if (type == DataType::kDouble) function = table.f64[index];
  return function != nullptr ? function : FindScalarUnary(op, type);
}

DataType UnaryResultType(UnaryOp op, DataType type) {
  if (WritesBool(op)) return DataType::kBool;
  if (op == UnaryOp::kPopulationCount) return DataType::kUint8;
  const bool to_real =
      op == UnaryOp::kAbs || op == UnaryOp::kReal || op == UnaryOp::kImag || op == UnaryOp::kAngle;
  if (to_real && type == DataType::kComplex64) return DataType::kFloat;
  if (to_real && type == DataType::kComplex128) return DataType::kDouble;
  return type;
}

double UnaryCostNs(UnaryOp op, DataType type) {
  if (FindUnary(op, type) == nullptr) return 0;
  if (FindScalarUnary(op, type) != nullptr && !IsIntegerPlainType(PlainTypeOf(type)) &&
      type != DataType::kBool) {
    const bool vectorised =
        type == DataType::kFloat && ActiveTables().unary.f32[static_cast<int>(op)] != nullptr;
    return vectorised ? 1 : 15;
  }
  const double scale = type == DataType::kFloat ? 1 : 2;
  return scale * kFloatNs[static_cast<size_t>(op)];
}

void RunUnary(UnaryFn fn, const void* in, int64_t in_size, void* out, int64_t out_size, int64_t n,
              double cost_ns, Parallel& parallel) {
  ForElements(parallel, n, cost_ns, [&](int64_t begin, int64_t end) {
    fn(static_cast<const char*>(in) + begin * in_size, static_cast<char*>(out) + begin * out_size,
       end - begin);
  });
}

}  // namespace millrace::cpu
