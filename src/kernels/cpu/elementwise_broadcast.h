// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/kernel_context.h"
#include "kernels/cpu/elementwise_code.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {

// One run of a program on inputs of any shapes. Steps whose result has the largest shape go block by block,
// so that what they hand to each other stays in the cache; smaller results, and all of them when one has no
// elements, are computed first and as a whole. One thread calls; blocks are spread over the pool.
class BroadcastElementwise {
 public:
  BroadcastElementwise(const ElementwiseCode& code, KernelContext& context);

  Status Run();

 private:
  // A value that the blocks read and that isn't of their shape.
  struct Operand {
    int value = 0;
    const char* data = nullptr;
    int64_t size = 0;        // bytes an element
    bool is_select = false;  // a condition, which is taken as an array only
    Dims strides = {};       // in elements, by main_ and then by dims_; 0 where it is repeated
    int slot = -1;           // of the scratch, when it is written there as it is repeated, for each block
    bool once = false;       // … which is the same for all blocks
  };

  Status InferShapes();
  StatusOr<TensorShape> ShapeOf(int step) const;
  void ChooseBlockSteps();
  StatusOr<Tensor> ComputeWhole(int step) const;
  Tensor SelectWhole(int step, Tensor out) const;
  const Tensor& tensor(int value) const;
  const TensorShape& shape(int value) const { return shapes_[static_cast<size_t>(value)]; }

  // The blocks.
  void FindOperands();
  Dims StridesOf(int value, bool is_select) const;
  Status PrepareOutputs();
  void MergeDims();
  void ChooseBlockSize();
  Status RunBlocks();
  int RunShard(int64_t begin, int64_t end) const;
  // The element of the operand that element 0 of a row of dims_[0] meets.
  int64_t StartOfRow(const Operand& operand, int64_t row) const;
  void Fill(const Operand& operand, int64_t at, int64_t n, char* to) const;

  const ElementwiseCode& code_;
  KernelContext& context_;
  const int inputs_;
  std::vector<TensorShape> shapes_;  // by value
  std::vector<Tensor> whole_;        // by step, of those that don't go block by block
  uint64_t block_steps_ = 0;
  TensorShape main_;  // the shape of their results

  std::vector<int64_t> dims_;  // of main_, innermost first, those merged that all operands walk alike
  std::vector<Operand> operands_;
  uint64_t full_ = 0;    // values in memory of the main shape: inputs, and outputs of the blocks
  uint64_t arrays_ = 0;  // as ElementwiseCode::Run wants it
  ElementwiseCode::Addresses base_ = {};  // of full_
  bool by_row_ = true;  // blocks don't cross rows of dims_[0]; otherwise they are of whole rows
  int64_t block_ = ElementwiseCode::kMaxBlock;
  int64_t slot_bytes_ = 1;
};

}  // namespace millrace
