// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector/softmax.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/vector/dispatch.h"

namespace millrace::cpu {
namespace {

constexpr double kCostNs = 0.8;  // of an element

// Blocks of rows, so that shards of short rows are worth their overhead; fn gets ranges of rows.
void ForRows(Parallel& parallel, int64_t rows, int64_t cols, ShardFn fn) {
  const int64_t block = std::max<int64_t>(1, 2048 / std::max<int64_t>(1, cols));
  if (rows <= block) {
    if (rows > 0) fn(0, rows);
    return;
  }
  ForUnits(parallel, (rows - 1) / block + 1, kCostNs * static_cast<double>(block * cols),
           [&](int64_t begin, int64_t end) { fn(begin * block, std::min(rows, end * block)); });
}

using RowsFn = void (*)(const float*, float*, int64_t, int64_t);

// Converts to float, one row at a time.
void HalfRows(DataType type, RowsFn function, const void* logits, void* out, int64_t rows, int64_t cols,
              Parallel& parallel) {
  ForRows(parallel, rows, cols, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = begin; r < end; ++r) {
      HalfToFloat(type, static_cast<const uint16_t*>(logits) + r * cols, row.data(), cols);
      function(row.data(), row.data(), 1, cols);
      FloatToHalf(type, row.data(), static_cast<uint16_t*>(out) + r * cols, cols);
    }
  });
}

template <typename T>
void RealRows(void (*function)(const T*, T*, int64_t, int64_t), const void* logits, void* out, int64_t rows,
              int64_t cols, Parallel& parallel) {
  const auto* x = static_cast<const T*>(logits);
  auto* y = static_cast<T*>(out);
  ForRows(parallel, rows, cols, [&](int64_t begin, int64_t end) {
    function(x + begin * cols, y + begin * cols, end - begin, cols);
  });
}

template <typename T>
void RealXent(const SoftmaxFns<T>& fns, const XentShape& shape, const void* logits, const void* labels,
              void* loss, void* backprop, Parallel& parallel) {
  ForRows(parallel, shape.rows, shape.cols, [&](int64_t begin, int64_t end) {
    fns.xent(static_cast<const T*>(logits) + begin * shape.logits_row_stride, shape.logits_row_stride,
             static_cast<const T*>(labels) + begin * shape.labels_row_stride, shape.labels_row_stride,
             static_cast<T*>(loss) + begin, static_cast<T*>(backprop) + begin * shape.cols, end - begin,
             shape.cols);
  });
}

void HalfXent(DataType type, const XentShape& shape, const uint16_t* logits, const uint16_t* labels,
              uint16_t* loss, uint16_t* backprop, Parallel& parallel) {
  const SoftmaxFns<float>& fns = ActiveTables().neural.softmax_f32;
  const int64_t cols = shape.cols;
  ForRows(parallel, shape.rows, cols, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(cols)), y(static_cast<size_t>(cols));
    for (int64_t r = begin; r < end; ++r) {
      HalfToFloat(type, logits + r * shape.logits_row_stride, x.data(), cols);
      HalfToFloat(type, labels + r * shape.labels_row_stride, y.data(), cols);
      float row_loss;
      fns.xent(x.data(), cols, y.data(), cols, &row_loss, x.data(), 1, cols);
      FloatToHalf(type, &row_loss, loss + r, 1);
      FloatToHalf(type, x.data(), backprop + r * cols, cols);
    }
  });
}

int64_t LabelAt(DataType label_type, const void* labels, int64_t row) {
  return label_type == DataType::kInt32 ? static_cast<const int32_t*>(labels)[row]
                                        : static_cast<const int64_t*>(labels)[row];
}

template <typename T>
void RealSparseXent(const SoftmaxFns<T>& fns, const void* logits, DataType label_type, const void* labels,
                    void* loss, void* backprop, int64_t rows, int64_t cols, Parallel& parallel) {
  ForRows(parallel, rows, cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      fns.sparse_xent(static_cast<const T*>(logits) + r * cols, LabelAt(label_type, labels, r),
                      static_cast<T*>(loss) + r, static_cast<T*>(backprop) + r * cols, cols);
    }
  });
}

void HalfSparseXent(DataType type, const uint16_t* logits, DataType label_type, const void* labels,
                    uint16_t* loss, uint16_t* backprop, int64_t rows, int64_t cols, Parallel& parallel) {
  const SoftmaxFns<float>& fns = ActiveTables().neural.softmax_f32;
  ForRows(parallel, rows, cols, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(cols));
    for (int64_t r = begin; r < end; ++r) {
      HalfToFloat(type, logits + r * cols, x.data(), cols);
      float row_loss;
      fns.sparse_xent(x.data(), LabelAt(label_type, labels, r), &row_loss, x.data(), cols);
      FloatToHalf(type, &row_loss, loss + r, 1);
      FloatToHalf(type, x.data(), backprop + r * cols, cols);
    }
  });
}

}  // namespace

void Softmax(DataType type, const void* logits, void* out, int64_t rows, int64_t cols, Parallel& parallel) {
  if (cols == 0) return;
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    RealRows(table.softmax_f32.softmax, logits, out, rows, cols, parallel);
  } else if (type == DataType::kDouble) {
    RealRows(table.softmax_f64.softmax, logits, out, rows, cols, parallel);
  } else {
    HalfRows(type, table.softmax_f32.softmax, logits, out, rows, cols, parallel);
  }
}

void LogSoftmax(DataType type, const void* logits, void* out, int64_t rows, int64_t cols,
                Parallel& parallel) {
  if (cols == 0) return;
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    RealRows(table.softmax_f32.log_softmax, logits, out, rows, cols, parallel);
  } else if (type == DataType::kDouble) {
    RealRows(table.softmax_f64.log_softmax, logits, out, rows, cols, parallel);
  } else {
    HalfRows(type, table.softmax_f32.log_softmax, logits, out, rows, cols, parallel);
  }
}

void SoftmaxXent(DataType type, const XentShape& shape, const void* logits, const void* labels, void* loss,
                 void* backprop, Parallel& parallel) {
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    RealXent(table.softmax_f32, shape, logits, labels, loss, backprop, parallel);
  } else if (type == DataType::kDouble) {
    RealXent(table.softmax_f64, shape, logits, labels, loss, backprop, parallel);
  } else {
    HalfXent(type, shape, static_cast<const uint16_t*>(logits), static_cast<const uint16_t*>(labels),
             static_cast<uint16_t*>(loss), static_cast<uint16_t*>(backprop), parallel);
  }
}

int64_t SparseSoftmaxXent(DataType type, const void* logits, DataType label_type, const void* labels,
                          void* loss, void* backprop, int64_t rows, int64_t cols, Parallel& parallel) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t label = LabelAt(label_type, labels, r);
    if (label < 0 || label >= cols) return r;
  }
  const NeuralTable& table = ActiveTables().neural;
  if (type == DataType::kFloat) {
    RealSparseXent(table.softmax_f32, logits, label_type, labels, loss, backprop, rows, cols, parallel);
  } else if (type == DataType::kDouble) {
    RealSparseXent(table.softmax_f64, logits, label_type, labels, loss, backprop, rows, cols, parallel);
  } else {
    HalfSparseXent(type, static_cast<const uint16_t*>(logits), label_type, labels,
                   static_cast<uint16_t*>(loss), static_cast<uint16_t*>(backprop), rows, cols, parallel);
  }
  return -1;
}

}  // namespace millrace::cpu
