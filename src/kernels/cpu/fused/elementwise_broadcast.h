// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/kernel_context.h"
#include "kernels/cpu/fused/elementwise_code.h"
#include "kernels/cpu/kernel_util.h"

namespace millrace {

// The plan of a program for inputs of certain shapes. Steps whose result has the largest shape go block by
// block, so that intermediate results stay in the cache; smaller results, and all of them when one
// has no elements, are computed first and as a whole. Immutable once made.
class ElementwiseLayout {
 public:
  // A value that the blocks read and that isn't of the shape of the blocks.
  struct Operand {
    int value = 0;
    int64_t size = 0;        // bytes an element
    bool is_select = false;  // a condition, which must be an array
    Dims strides = {};       // in elements, by main() and then by dims(); 0 where it is repeated
    int slot = -1;           // of the scratch, if it is repeated there for each block
    bool once = false;       // … and is the same for all blocks
  };

  // The error of the first instruction whose operands are incompatible. `node` is for messages.
  static StatusOr<std::shared_ptr<const ElementwiseLayout>> Make(const ElementwiseCode& code,
                                                                 const KernelContext& context);
  // Made for inputs of these shapes.
  bool Fits(const KernelContext& context) const;

  const TensorShape& shape(int value) const { return shapes_[static_cast<size_t>(value)]; }
  uint64_t block_steps() const { return block_steps_; }
  const TensorShape& main() const { return main_; }  // the shape of their results
  // The dimensions of main(), innermost first; those that all operands traverse alike are merged.
  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<Operand>& operands() const { return operands_; }
  uint64_t full() const { return full_; }      // values in memory of as many elements as main()
  uint64_t arrays() const { return arrays_; }  // as ElementwiseCode::Run requires it
  bool by_row() const {
    return by_row_;
  }  // blocks don't cross rows of dims()[0]; otherwise they consist of whole rows
  int64_t block() const { return block_; }  // elements
  int64_t slot_bytes() const { return slot_bytes_; }

  // The operand's element for element 0 of a row of dims()[0].
  int64_t StartOfRow(const Operand& operand, int64_t row) const {
    int64_t at = 0;
    for (size_t d = 1; d < dims_.size(); ++d) {
      at += row % dims_[d] * operand.strides[d];
      row /= dims_[d];
    }
    return at;
  }

 private:
  explicit ElementwiseLayout(const ElementwiseCode& code) : code_(code), inputs_(code.num_inputs()) {}

  Status InferShapes(const KernelContext& context);
  StatusOr<TensorShape> ShapeOf(int step, const std::string& node) const;
  void ChooseBlockSteps();
  void FindOperands();
  void AddOperand(int value, bool is_select);
  Dims StridesOf(int value, bool is_select) const;
  void MergeDims();
  void ChooseBlockSize();

  const ElementwiseCode& code_;
  const int inputs_;
  std::vector<TensorShape> shapes_;  // by value
  uint64_t block_steps_ = 0;
  TensorShape main_;
  std::vector<int64_t> dims_;
  std::vector<Operand> operands_;
  uint64_t full_ = 0, arrays_ = 0;
  bool by_row_ = true;
  int64_t block_ = ElementwiseCode::kMaxBlock;
  int64_t slot_bytes_ = 1;
};

// One run of a program with a layout. One thread calls; blocks are spread over the pool.
class BroadcastElementwise {
 public:
  BroadcastElementwise(const ElementwiseCode& code, const ElementwiseLayout& layout, KernelContext& context)
      : code_(code), layout_(layout), context_(context), inputs_(code.num_inputs()) {}

  Status Run();

 private:
  StatusOr<Tensor> ComputeWhole(int step) const;
  Tensor SelectWhole(int step, Tensor out) const;
  const Tensor& tensor(int value) const;
  Status PrepareOutputs();
  Status RunBlocks();
  int RunShard(int64_t begin, int64_t end) const;
  void Fill(const ElementwiseLayout::Operand& operand, int64_t at, int64_t n, char* to) const;

  const ElementwiseCode& code_;
  const ElementwiseLayout& layout_;
  KernelContext& context_;
  const int inputs_;
  std::vector<Tensor> whole_;        // by step, of those that are not computed block by block
  ElementwiseCode::Addresses base_;  // of values in memory
};

}  // namespace millrace
