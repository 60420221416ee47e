// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/kernel_util.h"
#include "kernels/cpu/tensor_list/tensor_list.h"
#include "kernels/cpu/vector/binary.h"
#include "tensor/variant.h"

namespace millrace {
namespace {

// Sums its inputs from left to right, block by block so that the sum stays in the cache.
class AddNKernel final : public OpKernel {
 public:
  explicit AddNKernel(KernelConstruction& c)
      : OpKernel(c),
        add_(cpu::FindBinary(cpu::BinaryOp::kAdd, output_type(0))),
        size_(static_cast<int64_t>(ElementSize(output_type(0)))) {
    if (add_ == nullptr)
      c.SetError(errors::Unimplemented("AddN has no CPU kernel for ", DataTypeName(output_type(0))));
  }
  Status Compute(KernelContext& context) override {
    const int count = context.num_inputs();
    const TensorShape shape = context.input(0).shape();
    for (int i = 1; i < count; ++i) {
      if (context.input(i).shape() != shape) {
        return errors::InvalidArgument("Inputs to operation ", name(), " of type ", op_name(),
                                       " must have the same size and shape.  Input 0: ", shape, " != input ",
                                       i, ": ", context.input(i).shape());
      }
    }
    if (count == 1) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    // Only the first two may be overwritten: the others are read after the sum has begun.
    MR_ASSIGN_OR_RETURN(Tensor * out, context.ForwardInputOrAllocateOutput({0, 1}, 0, shape));
    const int64_t n = shape.num_elements();
    const int64_t blocks = (n + kBlock - 1) / kBlock;
    char* to = static_cast<char*>(out->raw_data());
    const double cost_ns = cpu::BinaryCostNs(cpu::BinaryOp::kAdd, out->dtype()) * kBlock * (count - 1);
    const auto run = [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t at = b * kBlock * size_, len = std::min(kBlock, n - b * kBlock);
        add_->same(Data(context, 0) + at, Data(context, 1) + at, to + at, len);
        for (int i = 2; i < count; ++i) add_->same(to + at, Data(context, i) + at, to + at, len);
      }
    };
    if (blocks <= 4) {
      run(0, blocks);
    } else {
      context.ParallelFor(blocks, static_cast<int64_t>(cost_ns) + 1, run);
    }
    return Status();
  }

 private:
  static const char* Data(const KernelContext& context, int i) {
    return static_cast<const char*>(context.input(i).raw_data());
  }
  static constexpr int64_t kBlock = 2048;  // elements
  const cpu::BinaryFns* const add_;
  const int64_t size_;
};

// Adds lists of tensors, element by element.
class AddVariantsKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    for (int i = 0; i < context.num_inputs(); ++i) {
      if (context.input(i).shape().IsScalar()) continue;
      return errors::InvalidArgument(
          "AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; inputs[", i,
          "] has shape: ", context.input(i).shape(), ".");
    }
    if (context.num_inputs() == 1) {
      context.set_output(0, context.TakeInput(0));
      return Status();
    }
    Variant sum = context.input(0).scalar<Variant>();
    for (int i = 1; i < context.num_inputs(); ++i) {
      MR_ASSIGN_OR_RETURN(sum, AddVariants(context, sum, context.input(i).scalar<Variant>()));
    }
    MR_ASSIGN_OR_RETURN(Tensor * out, context.AllocateOutput(0, TensorShape()));
    out->scalar<Variant>() = std::move(sum);
    return Status();
  }
};

}  // namespace

void RegisterAddNKernels(KernelRegistry& registry) {
  registry.Register<AddNKernel>(KernelDef("AddN").Types("T", NumberTypes()));
  registry.Register<AddNKernel>(KernelDef("AccumulateNV2").Types("T", NumberTypes()));
  registry.Register<AddVariantsKernel>(KernelDef("AddN").Type<Variant>("T"));
}

}  // namespace millrace
