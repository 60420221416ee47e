// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// ReverseSequence and Roll.
#include <algorithm>

#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/move.h"

namespace millrace {
namespace {

// Reverses the first seq_lengths[b] slices along seq_dim, for each b along batch_dim.
class ReverseSequenceKernel final : public OpKernel {
 public:
  explicit ReverseSequenceKernel(KernelConstruction& c)
      : OpKernel(c), batch_dim_(c.Attr<int64_t>("batch_dim")), seq_dim_(c.Attr<int64_t>("seq_dim")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& lengths = context.input(1);
    MR_RETURN_IF_ERROR(Check(in, lengths));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (in.num_elements() == 0) return Status();
    const int first = static_cast<int>(std::min(batch_dim_, seq_dim_));
    const int second = static_cast<int>(std::max(batch_dim_, seq_dim_));
    const auto dims = in.shape().dims();
    const int64_t row = ProductOf(dims, second + 1, in.rank()), rows = in.num_elements() / row;
    const int64_t between = ProductOf(dims, first + 1, second), line = dims[second];
    // Lines along the second of the two dimensions.
    context.ParallelFor(rows / line, (row + 4) * line, [&](int64_t begin, int64_t end) {
      for (int64_t l = begin; l < end; ++l) {
        const int64_t i = l / between % dims[first], start = l * line;
        if (batch_dim_ < seq_dim_) {
          ReverseRows(in, start, IntValue(lengths, i), row, out);
          const int64_t rest = start + IntValue(lengths, i);
          MoveRows(in, rest, start + line - rest, row, out, rest);
          continue;
        }
        for (int64_t j = 0; j < line; ++j) {
          const int64_t length = IntValue(lengths, j);
          const int64_t away = i < length ? (length - 1 - 2 * i) * line * between : 0;
          MoveRows(in, start + j + away, 1, row, out, start + j);
        }
      }
    });
    return Status();
  }

 private:
  static void MoveRows(const Tensor& in, int64_t from, int64_t count, int64_t row, Tensor* out, int64_t to) {
    cpu::SerialParallel serial;
    MoveElements(in.dtype(), ElementAt(in.raw_data(), in.dtype(), from * row),
                 ElementAt(out->raw_data(), in.dtype(), to * row), count * row, serial);
  }

  // `count` rows from number `start` on.
  static void ReverseRows(const Tensor& in, int64_t start, int64_t count, int64_t row, Tensor* out) {
    if (row == 1 && in.dtype() != DataType::kString && ElementSize(in.dtype()) == 4) {
      const auto* const from = static_cast<const uint32_t*>(in.raw_data()) + start;
      std::reverse_copy(from, from + count, static_cast<uint32_t*>(out->raw_data()) + start);
      return;
    }
    for (int64_t k = 0; k < count; ++k) MoveRows(in, start + count - 1 - k, 1, row, out, start + k);
  }

  Status Check(const Tensor& in, const Tensor& lengths) const {
    if (!lengths.shape().IsVector()) {
      return errors::InvalidArgument("seq_lens input must be 1-dim, not ", lengths.rank());
    }
    if (batch_dim_ == seq_dim_) return errors::InvalidArgument("batch_dim == seq_dim == ", seq_dim_);
    if (seq_dim_ < 0 || seq_dim_ >= in.rank()) {
      return errors::InvalidArgument("seq_dim must be < input rank ( ", seq_dim_, " vs. ", in.rank(), ")");
    }
    if (batch_dim_ < 0 || batch_dim_ >= in.rank()) {
      return errors::InvalidArgument("batch_dim must be < input rank ( ", batch_dim_, " vs. ", in.rank(),
                                     ")");
    }
    const int64_t batches = in.dim(static_cast<int>(batch_dim_)), most = in.dim(static_cast<int>(seq_dim_));
    if (lengths.num_elements() != batches) {
      return errors::InvalidArgument("Length of seq_lens != input.dims(", batch_dim_, "), (",
                                     lengths.num_elements(), " vs. ", batches, ")");
    }
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t length = IntValue(lengths, b);
      if (length < 0) return errors::InvalidArgument("seq_lens(", b, ") < 0");
      if (length > most) return errors::InvalidArgument("seq_lens(", b, ") > input.dims(", seq_dim_, ")");
    }
    return Status();
  }

  const int64_t batch_dim_, seq_dim_;
};

// Shifts elements along axes, around the end.
class RollKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(const Dims shifts, ReadShifts(in, context.input(1), context.input(2)));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    if (in.num_elements() == 0) return Status();
    const auto dims = in.shape().dims();
    // Elements of the inner dimensions that are not shifted are copied in one piece.
    int last = in.rank() - 1;
    while (last > 0 && shifts[last] == 0) --last;
    const int64_t row = ProductOf(dims, last + 1, in.rank()), size = dims[last];
    const int64_t lines = in.num_elements() / (row * size), turn = (size - shifts[last]) * row;
    context.ParallelFor(lines, size * row + 20, [&](int64_t begin, int64_t end) {
      cpu::SerialParallel serial;
      const auto move = [&](int64_t from, int64_t to, int64_t n) {
        MoveElements(in.dtype(), ElementAt(in.raw_data(), in.dtype(), from),
                     ElementAt(out->raw_data(), in.dtype(), to), n, serial);
      };
      for (int64_t line = begin; line < end; ++line) {
        int64_t target = 0, rest = line, stride = 1;
        for (int d = last - 1; d >= 0; --d) {
          target += (rest % dims[d] + shifts[d]) % dims[d] * stride;
          rest /= dims[d];
          stride *= dims[d];
        }
        const int64_t from = line * size * row, to = target * size * row;
        move(from, to + size * row - turn, turn);
        move(from + turn, to, size * row - turn);
      }
    });
    return Status();
  }

 private:
  // By dimension, in [0, size). The shifts of an axis that is named twice are added.
  static StatusOr<Dims> ReadShifts(const Tensor& in, const Tensor& shift, const Tensor& axis) {
    if (in.rank() < 1) return errors::InvalidArgument("input must be 1-D or higher");
    if (shift.rank() > 1) {
      return errors::InvalidArgument("shift must be a scalar or a 1-D vector. Found: ", shift.shape());
    }
    if (axis.rank() > 1) {
      return errors::InvalidArgument("axis must be a scalar or a 1-D vector. Found: ", axis.shape());
    }
    if (shift.shape() != axis.shape()) {
      return errors::InvalidArgument("shift and axis must have the same size");
    }
    Dims shifts;
    for (int d = 0; d < in.rank(); ++d) shifts.push_back(0);
    for (int64_t i = 0; i < axis.num_elements(); ++i) {
      int64_t a = IntValue(axis, i);
      if (a < 0) a += in.rank();
      if (a < 0 || a >= in.rank()) return errors::InvalidArgument("axis ", a, " is out of range");
      const int64_t size = std::max<int64_t>(1, in.dim(static_cast<int>(a)));
      shifts[a] = ((shifts[a] + IntValue(shift, i) % size) % size + size) % size;
    }
    return shifts;
  }
};

}  // namespace

void RegisterReverseSequenceKernels(KernelRegistry& registry) {
  registry.Register<ReverseSequenceKernel>(KernelDef("ReverseSequence").Types("Tlen", IndexTypes()));
  registry.Register<RollKernel>(KernelDef("Roll").Types("Tshift", IndexTypes()).Types("Taxis", IndexTypes()));
}

}  // namespace millrace
