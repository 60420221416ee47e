// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/update.h"

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>

#include "kernels/cpu/vector/dispatch.h"
#include "kernels/cpu/vector/stream.h"
#include "kernels/cpu/vector/update_complex.h"

namespace millrace::cpu {
namespace {

constexpr double kCostNs = 0.5;
constexpr uintptr_t kRegisterBytes = 64;  // of the widest instruction set
// Fewer elements than this are not worth a second thread.
constexpr int64_t kSerialElements = 1 << 15;

const UpdateFns* FindUpdate(UpdateRule rule, DataType type) {
  const auto i = static_cast<size_t>(rule);
  const UpdateFns* fns = nullptr;
  if (type == DataType::kComplex64 || type == DataType::kComplex128) {
    fns = FindComplexUpdate(rule, type);
  } else if (type == DataType::kDouble) {
    fns = &ActiveTables().update.f64[i];
  } else if (type == DataType::kFloat || IsHalfType(type)) {
    fns = &ActiveTables().update.f32[i];
  }
  return fns != nullptr && fns->run != nullptr ? fns : nullptr;
}

// Converts blocks of half or bfloat16 to float.
void RunHalf(const UpdateFns& fns, DataType type, void* const* slots, const void* const* from,
             const void* grad, const void* scalars, int64_t n) {
  using Block = std::array<float, kHalfBlock>;
  std::array<Block, kMaxUpdateSlots> wide;
  Block wide_grad;
  void* wide_slots[kMaxUpdateSlots];
  for (int k = 0; k < kMaxUpdateSlots; ++k) wide_slots[k] = wide[k].data();
  for (int64_t at = 0; at < n; at += kHalfBlock) {
    const int64_t size = std::min(kHalfBlock, n - at);
    for (int k = 0; k < fns.slots; ++k) {
      HalfToFloat(type, static_cast<const uint16_t*>(from[k]) + at, wide[k].data(), size);
    }
    HalfToFloat(type, static_cast<const uint16_t*>(grad) + at, wide_grad.data(), size);
    fns.run(wide_slots, wide_slots, wide_grad.data(), scalars, size, false);
    for (int k = 0; k < fns.slots; ++k) {
      FloatToHalf(type, wide[k].data(), static_cast<uint16_t*>(slots[k]) + at, size);
    }
  }
}

// A rule with its scalars, for any part of the arrays.
class Updater {
 public:
  explicit Updater(const UpdateArgs& args)
      : args_(args), fns_(*FindUpdate(args.rule, args.type)), size_(ElementSize(args.type)) {
    const int64_t width = IsHalfType(args.type) ? static_cast<int64_t>(sizeof(float)) : size_;
    int given = fns_.scalars;
    if (args.rule == UpdateRule::kAdagradDualAveraging) {
      --given;
      if (args.type == DataType::kDouble) {
        Put(given, static_cast<double>(args.step));
      } else {
        Put(given, static_cast<float>(args.step));
      }
    }
    for (int i = 0; i < given; ++i) {
      if (IsHalfType(args.type)) {
        float wide;
        HalfToFloat(args.type, args.scalars[i], &wide, 1);
        Put(i, wide);
      } else {
        std::memcpy(scalars_ + i * width, args.scalars[i], static_cast<size_t>(width));
      }
    }
  }

  // Updates n elements: of the slots from `at`, of the gradient from `grad_at`.
  void Run(int64_t at, int64_t grad_at, int64_t n) const {
    void* slots[kMaxUpdateSlots];
    const void* from[kMaxUpdateSlots];
    for (int k = 0; k < fns_.slots; ++k) {
      slots[k] = static_cast<char*>(args_.slots[k]) + at * size_;
      from[k] = args_.from[k] == nullptr ? slots[k] : static_cast<const char*>(args_.from[k]) + at * size_;
    }
    const void* grad = static_cast<const char*>(args_.grad) + grad_at * size_;
    if (IsHalfType(args_.type)) {
      RunHalf(fns_, args_.type, slots, from, grad, scalars_, n);
    } else {
      fns_.run(slots, from, grad, scalars_, n, stream_);
    }
  }
  // For n elements in all, parts of which Run gets: writes around the caches if none of the arrays would stay
  // there, and none is read again.
  void ChooseStreaming(int64_t n) {
    stream_ = n * size_ >= kMinStreamBytes;
    for (int k = 0; k < fns_.slots; ++k) {
      const auto past = reinterpret_cast<uintptr_t>(args_.slots[k]) % kRegisterBytes;
      stream_ = stream_ && args_.from[k] != nullptr && past == 0;
    }
  }

 private:
  template <typename T>
  void Put(int i, T value) {
    std::memcpy(scalars_ + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }

  const UpdateArgs& args_;
  const UpdateFns& fns_;
  const int64_t size_;
  bool stream_ = false;
  alignas(16) char scalars_[kMaxUpdateScalars * sizeof(std::complex<double>)];
};

}  // namespace

bool HasUpdate(UpdateRule rule, DataType type) { return FindUpdate(rule, type) != nullptr; }

int NumUpdateSlots(UpdateRule rule) { return FindUpdate(rule, DataType::kFloat)->slots; }

void Update(const UpdateArgs& args, int64_t n, Parallel& parallel) {
  Updater updater(args);
  updater.ChooseStreaming(n);
  const double cost = IsHalfType(args.type) ? 2 * kCostNs : kCostNs;
  ForElements(parallel, n, cost, [&](int64_t begin, int64_t end) { updater.Run(begin, begin, end - begin); });
}

void UpdateRows(const UpdateArgs& args, std::span<const int64_t> indices, int64_t rows, int64_t row_size,
                Parallel& parallel) {
  const Updater updater(args);
  // Each part has some rows of the variable and skips indices of others: so a row that occurs twice is
  // updated in the order of the indices.
  const auto change = [&](int64_t first, int64_t last) {
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < first || indices[i] >= last) continue;
      updater.Run(indices[i] * row_size, static_cast<int64_t>(i) * row_size, row_size);
    }
  };
  const int64_t elements = static_cast<int64_t>(indices.size()) * row_size;
  const int64_t parts = std::min<int64_t>(parallel.num_threads(), rows);
  if (parts <= 1 || elements < kSerialElements) {
    change(0, rows);
    return;
  }
  const auto bound = [&](int64_t part) { return rows / parts * part + std::min(part, rows % parts); };
  const int64_t per_part = elements / parts;
  ForUnits(parallel, parts, 2 * kCostNs * static_cast<double>(per_part),
           [&](int64_t begin, int64_t end) { change(bound(begin), bound(end)); });
}

}  // namespace millrace::cpu
