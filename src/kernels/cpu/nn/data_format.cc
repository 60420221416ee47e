// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// DataFormatDimMap and DataFormatVecPermute: dimension numbers and lists of sizes in another image layout.
#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/cpu/kernel_util.h"

namespace millrace {
namespace {

// The position of dimension i of the source layout in the other one.
class DataFormatKernel : public OpKernel {
 public:
  explicit DataFormatKernel(KernelConstruction& c) : OpKernel(c) {
    const auto from = c.Attr<std::string>("src_format"), to = c.Attr<std::string>("dst_format");
    if (from.size() != 4) {
      c.SetError(errors::InvalidArgument("Source format must of length 4, received src_format = ", from));
    } else if (to.size() != 4) {
      c.SetError(errors::InvalidArgument("Destination format must of length 4, received dst_format = ", to));
    } else {
      for (size_t i = 0; i < 4; ++i) {
        const size_t place = to.find(from[i]);
        // A repeated dimension would leave another one without a position.
        if (place == std::string::npos || from.find(from[i]) != i) {
          c.SetError(errors::InvalidArgument(
              "Destination format and source format must have the same dimensions: ", from, " and ", to));
          return;
        }
        places_[i] = static_cast<int>(place);
      }
    }
  }

 protected:
  template <typename Fn>
  static void Visit(DataType t, Fn fn) {
    if (t == DataType::kInt32) {
      fn.template operator()<int32_t>();
    } else {
      fn.template operator()<int64_t>();
    }
  }
  std::array<int, 4> places_{};
};

class DimMapKernel final : public DataFormatKernel {
 public:
  using DataFormatKernel::DataFormatKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    int64_t wrong = -1;
    Visit(in.dtype(), [&]<typename T>() {
      using U = std::make_unsigned_t<T>;
      const T* const from = in.data<T>();
      T* const to = out->data<T>();
      const std::array<T, 4> places = {static_cast<T>(places_[0]), static_cast<T>(places_[1]),
                                       static_cast<T>(places_[2]), static_cast<T>(places_[3])};
      for (int64_t i = 0, n = in.num_elements(); i < n; ++i) {
        const U moved = static_cast<U>(from[i]) + 4;
        if (moved >= 8) {
          wrong = i;
          return;
        }
        to[i] = places[moved & 3];
      }
    });
    if (wrong < 0) return Status();
    return errors::InvalidArgument("Dimension ", IntValue(in, wrong), " is not in [-4, 4)");
  }
};

// Permutes a vector of sizes, or of pairs of them.
class VecPermuteKernel final : public DataFormatKernel {
 public:
  using DataFormatKernel::DataFormatKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() != 1 && in.rank() != 2) {
      return errors::InvalidArgument("input must be a vector or 2D tensor, but got shape ", in.shape());
    }
    if (in.dim(0) != 4) {
      return errors::InvalidArgument(in.rank() == 1
                                         ? "1D input must be of size 4, but got shape "
                                         : "First dimension of 2D input must be of size 4, but got shape ",
                                     in.shape());
    }
    if (in.rank() == 2 && in.dim(1) != 2) {
      return errors::InvalidArgument("Second dimension of 2D input must be of size 2, but got shape ",
                                     in.shape());
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, in.shape()));
    const int64_t row = in.num_elements() / 4;
    Visit(in.dtype(), [&]<typename T>() {
      for (int i = 0; i < 4; ++i) {
        std::copy_n(in.data<T>() + i * row, row, out->data<T>() + places_[static_cast<size_t>(i)] * row);
      }
    });
    return Status();
  }
};

}  // namespace

void RegisterDataFormatKernels(KernelRegistry& registry) {
  registry.Register<DimMapKernel>(KernelDef("DataFormatDimMap").Types("T", IndexTypes()));
  registry.Register<VecPermuteKernel>(KernelDef("DataFormatVecPermute").Types("T", IndexTypes()));
}

}  // namespace millrace
