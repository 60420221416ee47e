// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// StringNGrams: joins adjacent strings in each row of a ragged tensor.
#include <algorithm>
#include <vector>

#include "kernels/cpu/strings/util.h"

namespace millrace {
namespace {

// The limits of the output of one op.
constexpr int64_t kMostPieces = int64_t{1} << 28;
constexpr int64_t kMostBytes = int64_t{1} << 31;

class StringNGramsKernel final : public OpKernel {
 public:
  explicit StringNGramsKernel(KernelConstruction& c)
      : OpKernel(c),
        separator_(c.Attr<std::string>("separator")),
        left_pad_(c.Attr<std::string>("left_pad")),
        right_pad_(c.Attr<std::string>("right_pad")),
        widths_(c.Attr<std::vector<int64_t>>("ngram_widths")),
        pad_width_(c.Attr<int64_t>("pad_width")),
        preserve_short_(c.Attr<bool>("preserve_short_sequences")) {
    for (const int64_t width : widths_) {
      if (width < 1 || width > INT32_MAX)
        c.SetError(errors::InvalidArgument("ngram_widths must be positive, got ", width));
    }
    if (pad_width_ > INT32_MAX) c.SetError(errors::InvalidArgument("pad_width is too large: ", pad_width_));
    if (preserve_short_ && pad_width_ < 0 && widths_.empty()) {
      c.SetError(
          errors::InvalidArgument("Pad width should be >= 0 when preserve_short_sequences is True and "
                                  "ngram_widths are not provided, got ",
                                  pad_width_));
    }
  }
  Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const Tensor& splits = context.input(1);
    if (data.rank() != 1 || splits.rank() != 1) {
      return errors::InvalidArgument("data and data_splits must be vectors, got shapes ", data.shape(),
                                     " and ", splits.shape());
    }
    MR_RETURN_IF_ERROR(CheckSplits(splits, data.num_elements()));
    MR_ASSIGN_OR_RETURN(Tensor * out_splits, context.AllocateOutput(1, splits.shape()));
    MR_ASSIGN_OR_RETURN(const int64_t count, Count(context, splits, out_splits));
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape({count})));
    std::string* to = out->data<std::string>();
    int64_t bytes = 0;
    for (int64_t row = 0; row + 1 < splits.num_elements(); ++row) {
      if (context.cancellation().IsCancelled())
        return errors::Cancelled("The step was cancelled while n-grams were joined");
      const int64_t begin = IntValue(splits, row), length = IntValue(splits, row + 1) - begin;
      const Row tokens{data.data<std::string>() + begin, length};
      std::string* const first = to;
      for (const int64_t width : widths_) {
        const int64_t grams = NumGrams(length, width);
        for (int64_t i = 0; i < grams; ++i) MR_RETURN_IF_ERROR(Make(tokens, i, grams, width, &bytes, to++));
      }
      if (preserve_short_ && to == first && length > 0)
        MR_RETURN_IF_ERROR(Make(tokens, 0, 1, ShortWidth(length), &bytes, to++));
    }
    return Status();
  }

 private:
  struct Row {
    const std::string* tokens;
    int64_t length;
  };

  static Status CheckSplits(const Tensor& splits, int64_t size) {
    for (int64_t i = 0; i < splits.num_elements(); ++i) {
      const int64_t split = IntValue(splits, i);
      if (i == 0 && split != 0) return errors::InvalidArgument("First split value must be 0, got ", split);
      if (i > 0 && (split < IntValue(splits, i - 1) || split > size)) {
        return errors::InvalidArgument("Invalid split value ", split, ", must be in [",
                                       IntValue(splits, i - 1), ", ", size, "]");
      }
    }
    const int64_t last = splits.num_elements() == 0 ? 0 : IntValue(splits, splits.num_elements() - 1);
    if (last == size || splits.num_elements() == 0) return Status();
    return errors::InvalidArgument("Last split value must be data size. Expected ", size, ", got ", last);
  }

  // The padding on each side; at least one element of an n-gram is not padding.
  int64_t PadWidth(int64_t width) const {
    return std::min(pad_width_ < 0 ? width - 1 : pad_width_, width - 1);
  }
  int64_t NumGrams(int64_t length, int64_t width) const {
    return std::max<int64_t>(0, length + 2 * PadWidth(width) - width + 1);
  }
  int64_t ShortWidth(int64_t length) const { return length + 2 * std::max<int64_t>(0, pad_width_); }

  // Returns the number of n-grams and writes the ends of the rows.
  StatusOr<int64_t> Count(const KernelContext& context, const Tensor& splits, Tensor* out) const {
    int64_t total = 0, pieces = 0;
    const int64_t most = splits.dtype() == DataType::kInt32 ? INT32_MAX : INT64_MAX;
    for (int64_t i = 0; i < splits.num_elements(); ++i) {
      // There may be very many rows and widths without n-grams.
      if (context.cancellation().IsCancelled())
        return errors::Cancelled("The step was cancelled while n-grams were counted");
      const int64_t length = i == 0 ? 0 : IntValue(splits, i) - IntValue(splits, i - 1);
      int64_t grams = 0;
      for (size_t w = 0; i > 0 && w < widths_.size() && pieces <= kMostPieces; ++w) {
        const int64_t more = NumGrams(length, widths_[w]);
        grams += more;
        pieces += more > kMostPieces / widths_[w] ? kMostPieces + 1 : more * widths_[w];
      }
      if (preserve_short_ && grams == 0 && length > 0) {
        grams = 1;
        pieces += ShortWidth(length);
      }
      total += grams;
      if (pieces > kMostPieces || total > most) {
        return errors::ResourceExhausted("The n-grams would have more than ", kMostPieces, " parts");
      }
      if (splits.dtype() == DataType::kInt32) {
        out->data<int32_t>()[i] = static_cast<int32_t>(total);
      } else {
        out->data<int64_t>()[i] = total;
      }
    }
    return total;
  }

  // N-gram `i` of `count` of that width. `bytes` counts the bytes of all n-grams so far.
  Status Make(const Row& row, int64_t i, int64_t count, int64_t width, int64_t* bytes,
              std::string* out) const {
    const int64_t pad = PadWidth(width);
    const int64_t left = std::max<int64_t>(0, pad - i), right = std::max<int64_t>(0, pad - (count - i - 1));
    const int64_t tokens = width - left - right;
    const std::string* const first = row.tokens + (left > 0 ? 0 : i - pad);
    const auto piece = [&](int64_t k) -> const std::string& {
      return k < left ? left_pad_ : k < left + tokens ? first[k - left] : right_pad_;
    };
    for (int64_t k = 0; k < width && *bytes <= kMostBytes; ++k)
      *bytes += static_cast<int64_t>(piece(k).size() + (k > 0 ? separator_.size() : 0));
    if (*bytes > kMostBytes)
      return errors::ResourceExhausted("The n-grams would have more than ", kMostBytes, " bytes");
    for (int64_t k = 0; k < width; ++k) {
      if (k > 0) out->append(separator_);
      out->append(piece(k));
    }
    return Status();
  }

  const std::string separator_, left_pad_, right_pad_;
  const std::vector<int64_t> widths_;
  const int64_t pad_width_;
  const bool preserve_short_;
};

}  // namespace

void RegisterStringNGramsKernels(KernelRegistry& registry) {
  registry.Register<StringNGramsKernel>(KernelDef("StringNGrams").Types("Tsplits", IndexTypes()));
}

}  // namespace millrace
