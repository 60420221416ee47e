// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/binary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/cpu/vector/binary_scalar.h"
#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

bool WritesBool(BinaryOp op) { return op >= BinaryOp::kEqual && op <= BinaryOp::kLogicalOr; }

constexpr double kFloatNs[] = {
#define MR_BINARY_ROW(name, types, ns, ...) ns,
    MR_BINARY_OPS(MR_BINARY_ROW)
#undef MR_BINARY_ROW
};

enum class Form { kSame, kLeft, kRight };

template <DataType kType, Form kForm, int kOp>
bool ThroughFloat(const void* a, const void* b, void* out, int64_t n) {
  constexpr auto op = static_cast<BinaryOp>(kOp);
  const BinaryFns& fns = *FindBinary(op, DataType::kFloat);
  const BinaryFn function =
      kForm == Form::kSame ? fns.same : (kForm == Form::kLeft ? fns.scalar_left : fns.scalar_right);
  const auto* x = static_cast<const uint16_t*>(a);
  const auto* y = static_cast<const uint16_t*>(b);
  std::array<float, kHalfBlock> left, right;
  if (n > 0 && kForm == Form::kLeft) HalfToFloat(kType, x, left.data(), 1);
  if (n > 0 && kForm == Form::kRight) HalfToFloat(kType, y, right.data(), 1);
  bool ok = true;
  for (int64_t i = 0; i < n; i += kHalfBlock) {
    const int64_t size = std::min(kHalfBlock, n - i);
    if (kForm != Form::kLeft) HalfToFloat(kType, x + i, left.data(), size);
    if (kForm != Form::kRight) HalfToFloat(kType, y + i, right.data(), size);
    if (WritesBool(op)) {
      ok &= function(left.data(), right.data(), static_cast<uint8_t*>(out) + i, size);
    } else {
      std::array<float, kHalfBlock> result;
      ok &= function(left.data(), right.data(), result.data(), size);
      FloatToHalf(kType, result.data(), static_cast<uint16_t*>(out) + i, size);
    }
  }
  return ok;
}

template <DataType kType, int... kOps>
constexpr std::array<BinaryFns, kBinaryOps> HalfTable(std::integer_sequence<int, kOps...>) {
  return {BinaryFns{ThroughFloat<kType, Form::kSame, kOps>, ThroughFloat<kType, Form::kLeft, kOps>,
                    ThroughFloat<kType, Form::kRight, kOps>}...};
}
constexpr auto kOpSequence = std::make_integer_sequence<int, kBinaryOps>();
constexpr auto kHalfTable = HalfTable<DataType::kHalf>(kOpSequence);
constexpr auto kBfloat16Table = HalfTable<DataType::kBfloat16>(kOpSequence);

}  // namespace

const BinaryFns* FindBinary(BinaryOp op, DataType type) {
  const auto index = static_cast<size_t>(op);
  if (index >= static_cast<size_t>(kBinaryOps)) return nullptr;
  if (IsHalfType(type)) {
    if (FindBinary(op, DataType::kFloat) == nullptr) return nullptr;
    return &(type == DataType::kHalf ? kHalfTable : kBfloat16Table)[index];
  }
  const IsaTables& tables = ActiveTables();
  const BinaryFns* fns = nullptr;
  if (type == DataType::kFloat) fns = &tables.binary_real.f32[index];
  if (type == DataType::kDouble) fns = &tables.binary_real.f64[index];
  if (fns != nullptr && fns->same != nullptr) return fns;
  if (const PlainType plain = PlainTypeOf(type); plain != PlainType::kCount) {
    fns = &tables.binary_plain.of[static_cast<int>(plain)][index];
    if (fns->same != nullptr) return fns;
  }
  return FindScalarBinary(op, type);
}

DataType BinaryResultType(BinaryOp op, DataType type) { return WritesBool(op) ? DataType::kBool : type; }

double BinaryCostNs(BinaryOp op, DataType type) {
  const double ns = kFloatNs[static_cast<size_t>(op)];
  if (op == BinaryOp::kPow && type != DataType::kFloat) return 5 * ns;
  if ((op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv) && IsIntegerPlainType(PlainTypeOf(type)))
    return 10 * ns;
  return IsComplex(type) ? std::max(ns, 1.0) : ns;
}

}  // namespace millrace::cpu
