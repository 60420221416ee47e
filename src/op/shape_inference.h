// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/shape.h"
#include "millrace/status.h"
#include "millrace/tensor.h"
#include "op/op_def.h"

namespace millrace {

struct DimNode {
  int64_t value;  // -1: unknown
};
// A size that may be unknown; two handles with the same node are the same size even when it is unknown.
class DimHandle {
 public:
  DimHandle() = default;
  bool SameAs(DimHandle o) const { return node_ == o.node_; }
  bool IsSet() const { return node_ != nullptr; }

 private:
  friend class InferenceContext;
  explicit DimHandle(const DimNode* node) : node_(node) {}
  const DimNode* node_ = nullptr;
};

struct ShapeNode {
  int32_t rank;  // -1: unknown
  std::span<const DimHandle> dims;
};
class ShapeHandle {
 public:
  ShapeHandle() = default;
  bool SameAs(ShapeHandle o) const { return node_ == o.node_; }
  bool IsSet() const { return node_ != nullptr; }

 private:
  friend class InferenceContext;
  explicit ShapeHandle(const ShapeNode* node) : node_(node) {}
  const ShapeNode* node_ = nullptr;
};

// Shape and type of the resource of a handle.
struct HandleShapeAndType {
  ShapeHandle shape;
  DataType dtype = DataType::kInvalid;
};

// The argument of a shape function: the node's attributes, the shapes (and where known the values) of its
// inputs, and the shapes of the outputs to be set. Owned by the caller of the shape function; one thread.
class InferenceContext {
 public:
  static constexpr int64_t kUnknownDim = -1;
  static constexpr int kUnknownRank = -1;

  // Keeps references to `op`, `attrs` and `node_name`. Copies shapes.
  InferenceContext(const OpDef& op, const AttrMap& attrs, std::string_view node_name, int num_outputs,
                   std::span<const PartialShape> input_shapes);
  InferenceContext(const InferenceContext&) = delete;
  InferenceContext& operator=(const InferenceContext&) = delete;

  std::string_view node_name() const { return node_name_; }

  // Inputs.
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  ShapeHandle input(int i) const { return inputs_[i].shape; }
  // The value of input i if it is known at graph construction, else null; the call marks it as requested.
  const Tensor* input_tensor(int i) {
    inputs_[i].requested = true;
    return inputs_[i].tensor;
  }
  void set_input_tensor(int i, const Tensor* value) { inputs_[i].tensor = value; }
  bool requested_input_tensor(int i) const { return inputs_[i].requested; }
  // A shape tensor of which some values are known (a Pack of constants, a Shape of a partly known tensor).
  void set_input_as_shape(int i, ShapeHandle shape) { inputs_[i].as_shape = shape; }
  // True when MakeShapeFromInput(i) was called.
  bool requested_input_as_shape(int i) const { return inputs_[i].requested_as_shape; }
  const std::vector<HandleShapeAndType>& input_handle(int i) const { return inputs_[i].handle; }
  void set_input_handle(int i, std::vector<HandleShapeAndType> h) { inputs_[i].handle = std::move(h); }
  // Flat index range of a named input argument.
  StatusOr<std::vector<ShapeHandle>> InputsNamed(std::string_view arg) const;

  // Outputs; of unknown shape until set.
  void set_output(int i, ShapeHandle shape) { outputs_[i].shape = shape; }
  ShapeHandle output(int i) const { return outputs_[i].shape; }
  void set_output_handle(int i, std::vector<HandleShapeAndType> h) { outputs_[i].handle = std::move(h); }
  const std::vector<HandleShapeAndType>& output_handle(int i) const { return outputs_[i].handle; }

  // Attributes.
  template <typename T>
  StatusOr<T> Attr(std::string_view name) const {
    return attrs_.Get<T>(name);
  }
  const AttrMap& attrs() const { return attrs_; }
  const OpDef& op() const { return op_; }

  // Reading shapes.
  bool RankKnown(ShapeHandle s) const { return s.node_->rank != kUnknownRank; }
  int Rank(ShapeHandle s) const { return s.node_->rank; }
  DimHandle Dim(ShapeHandle s, int64_t i) const;  // negative counts from the end; unknown for unknown rank
  int64_t Value(DimHandle d) const { return d.node_->value; }
  bool ValueKnown(DimHandle d) const { return d.node_->value != kUnknownDim; }
  bool FullyDefined(ShapeHandle s) const;
  DimHandle NumElements(ShapeHandle s);
  PartialShape ToPartialShape(ShapeHandle s) const;
  std::string DebugString(ShapeHandle s) const;  // "[2,?]" or "?"

  // Checking and refining; messages are TensorFlow's: "Shape must be rank 2 but is rank 3", …
  StatusOr<ShapeHandle> WithRank(ShapeHandle s, int rank);
  StatusOr<ShapeHandle> WithRankAtLeast(ShapeHandle s, int rank);
  StatusOr<ShapeHandle> WithRankAtMost(ShapeHandle s, int rank);
  StatusOr<DimHandle> WithValue(DimHandle d, int64_t value);
  StatusOr<DimHandle> Merge(DimHandle a, DimHandle b);
  StatusOr<ShapeHandle> Merge(ShapeHandle a, ShapeHandle b);
  StatusOr<ShapeHandle> MergePrefix(ShapeHandle s, ShapeHandle prefix);
  StatusOr<ShapeHandle> Subshape(ShapeHandle s, int64_t begin, int64_t end = INT64_MAX);
  StatusOr<ShapeHandle> Concatenate(ShapeHandle a, ShapeHandle b);
  StatusOr<ShapeHandle> ReplaceDim(ShapeHandle s, int64_t index, DimHandle d);

  // Building shapes.
  DimHandle UnknownDim();
  DimHandle MakeDim(int64_t value);
  ShapeHandle UnknownShape();
  ShapeHandle UnknownShapeOfRank(int64_t rank);
  ShapeHandle Scalar() { return MakeShape({}); }
  ShapeHandle Vector(DimHandle d) { return MakeShape({d}); }
  ShapeHandle Vector(int64_t d) { return MakeShape({MakeDim(d)}); }
  ShapeHandle Matrix(DimHandle a, DimHandle b) { return MakeShape({a, b}); }
  // Of unknown rank when there are more dimensions than a tensor can have.
  ShapeHandle MakeShape(const std::vector<DimHandle>& dims);
  StatusOr<ShapeHandle> MakeShapeFromPartial(const PartialShape& shape);
  // The shape given by the value of input i (an int32/int64 vector; -1 = unknown when the value allows
  // it).
  StatusOr<ShapeHandle> MakeShapeFromInput(int i);
  // The scalar integer value of input i as a size; unknown if the value is unknown.
  StatusOr<DimHandle> MakeDimFromScalarInput(int i);

  // Arithmetic on sizes; unknown when an operand is and the result is not determined. Overflow and negative
  // results are errors.
  StatusOr<DimHandle> Add(DimHandle a, DimHandle b);
  StatusOr<DimHandle> Subtract(DimHandle a, DimHandle b);
  StatusOr<DimHandle> Multiply(DimHandle a, DimHandle b);
  StatusOr<DimHandle> Divide(DimHandle a, int64_t divisor, bool evenly);

 private:
  struct Input {
    ShapeHandle shape;
    ShapeHandle as_shape;
    const Tensor* tensor = nullptr;
    bool requested = false;
    bool requested_as_shape = false;
    std::vector<HandleShapeAndType> handle;
  };
  struct Output {
    ShapeHandle shape;
    std::vector<HandleShapeAndType> handle;
  };

  // Memory for `count` objects of a trivial type, freed with the context.
  template <typename T>
  T* New(size_t count) const;
  ShapeHandle NewShape(int32_t rank, std::span<const DimHandle> dims);

  const OpDef& op_;
  const AttrMap& attrs_;
  const std::string_view node_name_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  // An arena: the first bytes lie in the object, so that most nodes need no further memory. Dim() of an
  // unknown shape is const but creates a new size, hence mutable.
  alignas(std::max_align_t) mutable std::byte first_chunk_[768];
  mutable std::vector<std::unique_ptr<std::byte[]>> chunks_;
  mutable std::span<std::byte> free_;
};

// The elements of an int32 or int64 tensor.
StatusOr<std::vector<int64_t>> IntegerValues(const Tensor& tensor);

// The broadcast shape of two shapes, as far as known; error "Dimensions must be equal, but are 2 and
// 3".
StatusOr<ShapeHandle> Broadcast(InferenceContext& c, ShapeHandle a, ShapeHandle b);

// Shape functions that many ops share.
namespace shape_fns {
Status Unchanged(InferenceContext& c);  // output 0 = input 0
Status Unknown(InferenceContext& c);
Status Scalar(InferenceContext& c);
Status NoOutputs(InferenceContext& c);
Status BroadcastBinary(InferenceContext& c);
Status MergeBothInputs(InferenceContext& c);  // output 0 = merge of inputs 0 and 1
Status Explicit(InferenceContext& c);         // the attr "shape"
Status Reduction(InferenceContext& c);        // input, reduction_indices; attr keep_dims
Status MatMul(InferenceContext& c);
Status BiasAdd(InferenceContext& c);
Status BiasAddGrad(InferenceContext& c);
Status Conv2D(InferenceContext& c);
Status Pool(InferenceContext& c);    // AvgPool, MaxPool
Status Concat(InferenceContext& c);  // concat_dim first
Status ConcatV2(InferenceContext& c);
}  // namespace shape_fns

// The output size of a window over an input: ceil(in/stride) for SAME, ceil((in -
// (window-1)*dilation)/stride) for VALID.
enum class Padding { kValid, kSame, kExplicit };
StatusOr<Padding> ParsePadding(std::string_view text);
struct WindowedOutput {
  int64_t size = 0;
  int64_t pad_before = 0;
  int64_t pad_after = 0;
};
StatusOr<WindowedOutput> GetWindowedOutput(int64_t input, int64_t window, int64_t dilation, int64_t stride,
                                           Padding padding);
// The broadcast shape of two shapes; InvalidArgument "Incompatible shapes: [2,3] vs. [4]".
StatusOr<TensorShape> BroadcastShapes(const TensorShape& a, const TensorShape& b);

}  // namespace millrace
