// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// UnsortedSegmentJoin: joins the strings of each segment, in their order.
#include <string>
#include <vector>

#include "kernels/cpu/strings/util.h"

namespace millrace {
namespace {

class UnsortedSegmentJoinKernel final : public OpKernel {
 public:
  explicit UnsortedSegmentJoinKernel(KernelConstruction& c)
      : OpKernel(c), separator_(c.Attr<std::string>("separator")) {}
  Status Compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& ids = context.input(1);
    const Tensor& count = context.input(2);
    if (count.num_elements() == 0) return errors::InvalidArgument("Number of segments cannot be empty.");
    if (count.num_elements() != 1) {
      return errors::InvalidArgument("Number of segments must be a scalar, got shape ", count.shape());
    }
    const int64_t segments = IntValue(count);
    if (segments < 0)
      return errors::InvalidArgument("Input num_segments == ", segments, " must not be negative.");
    MR_RETURN_IF_ERROR(CheckIds(in, ids, segments));
    Dims dims{segments};
    for (int i = ids.rank(); i < in.rank(); ++i) dims.push_back(in.dim(i));
    MR_ASSIGN_OR_RETURN(const TensorShape shape, ShapeFromValues(dims));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, shape));
    const int64_t row = ProductOf(in.shape().dims(), ids.rank(), in.rank());
    if (row == 0) return Status();
    std::vector<bool> begun(static_cast<size_t>(segments));
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      const int64_t id = IntValue(ids, i);
      if (id < 0) continue;
      for (int64_t k = 0; k < row; ++k) {
        std::string& to = out->data<std::string>()[id * row + k];
        if (begun[static_cast<size_t>(id)]) to += separator_;
        to += in.data<std::string>()[i * row + k];
      }
      begun[static_cast<size_t>(id)] = true;
    }
    return Status();
  }

 private:
  static Status CheckIds(const Tensor& in, const Tensor& ids, int64_t segments) {
    if (ids.rank() == 0) return errors::InvalidArgument("Segment_id cannot have rank 0");
    if (ids.rank() > in.rank()) {
      return errors::InvalidArgument("Invalid segment_id rank ", ids.rank(), " for input with ", in.rank(),
                                     " dimension(s)");
    }
    for (int i = 0; i < ids.rank(); ++i) {
      if (ids.dim(i) != in.dim(i)) {
        return errors::InvalidArgument("Segment dimension is ", ids.dim(i), " while input dimension is ",
                                       in.dim(i), " in rank ", i);
      }
    }
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      if (IntValue(ids, i) >= segments) {
        return errors::InvalidArgument("segment_ids", IndexText(ids.shape(), i), " = ", IntValue(ids, i),
                                       " is out of range [0, ", segments, ")");
      }
    }
    return Status();
  }

  const std::string separator_;
};

}  // namespace

void RegisterSegmentJoinKernels(KernelRegistry& registry) {
  registry.Register<UnsortedSegmentJoinKernel>(
      KernelDef("UnsortedSegmentJoin").Types("Tindices", IndexTypes()).Types("Tnumsegments", IndexTypes()));
}

}  // namespace millrace
