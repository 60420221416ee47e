// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Sparse tensors serialized or stored in a map of the session, so that they can pass through queues.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernel/resource_op.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/sparse/util.h"
#include "tensor/tensor_codec.h"
#include "tensor/variant.h"
#include "tensorflow/core/framework/tensor.pb.h"

namespace millrace {
namespace {

// TensorFlow's name for variants that contain a tensor.
constexpr char kTensorInVariant[] = "tensorflow::Tensor";

// A sparse tensor that owns its parts.
struct Owned {
  Tensor indices;
  Tensor values;
  Tensor shape;
};

// Calls fn(row, tensor) for each row of a sparse tensor of rank 2 or more: a tensor without the first
// dimension.
template <typename Fn>
Status EachRow(const SparseParts& sparse, Fn fn) {
  const int rank = sparse.rank();
  if (rank <= 1) {
    return errors::InvalidArgument("Rank of input SparseTensor should be > 1, but saw rank: ", rank);
  }
  const int64_t rows = sparse.shape[0];
  std::vector<int64_t> order = SortedOrder(sparse.indices->data<int64_t>(), sparse.size(), rank);
  for (const int64_t i : order) {
    const int64_t row = sparse.index(i)[0];
    if (row < 0 || row >= rows) {
      return errors::InvalidArgument("Received unexpected column 0 value in input SparseTensor: ", row,
                                     row < 0 ? " < 0" : StrCat(" >= N (= ", rows, ")"));
    }
  }
  const std::vector<int64_t> sizes(sparse.shape.begin() + 1, sparse.shape.end());
  const Tensor shape = Tensor::Vector<int64_t>(sizes);
  size_t at = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const size_t first = at;
    while (at < order.size() && sparse.index(order[at])[0] == row) ++at;
    const std::span<const int64_t> mine(order.data() + first, at - first);
    const auto n = static_cast<int64_t>(mine.size());
    Owned out;
    MR_ASSIGN_OR_RETURN(out.indices, Tensor::Allocate(DataType::kInt64, TensorShape({n, rank - 1})));
    MR_ASSIGN_OR_RETURN(out.values, Tensor::Allocate(sparse.values->dtype(), TensorShape({n})));
    out.shape = shape;
    int64_t* to = out.indices.data<int64_t>();
    for (const int64_t i : mine) to = std::copy_n(sparse.index(i) + 1, rank - 1, to);
    TakeRows(out.values.dtype(), sparse.values->raw_data(), mine, 1, out.values.raw_data());
    MR_RETURN_IF_ERROR(fn(row, std::move(out)));
  }
  return Status();
}

// Sets three outputs to several tensors stacked as one, with the dimensions `leading` in front.
Status OutputMany(KernelContext& context, const std::vector<Owned>& parts, const TensorShape& leading) {
  const int extra = leading.rank();
  const auto rank = static_cast<int>(parts[0].shape.num_elements());
  int64_t total = 0;
  Dims shape;
  for (const int64_t size : leading.dims()) shape.push_back(size);
  for (int d = 0; d < rank; ++d) shape.push_back(0);
  for (size_t i = 0; i < parts.size(); ++i) {
    const Owned& part = parts[i];
    if (part.values.dtype() != context.output_type(1)) {
      return errors::InvalidArgument("Requested SparseTensor of type ", DataTypeName(context.output_type(1)),
                                     " but SparseTensor[", i,
                                     "].values.dtype() == ", DataTypeName(part.values.dtype()));
    }
    if (part.shape.num_elements() != rank) {
      return errors::InvalidArgument("Inconsistent rank across SparseTensors: rank prior to SparseTensor[", i,
                                     "] was: ", rank, " but rank of SparseTensor[", i,
                                     "] is: ", part.shape.num_elements());
    }
    for (int d = 0; d < rank; ++d)
      shape[extra + d] = std::max(shape[extra + d], part.shape.data<int64_t>()[d]);
    total += part.indices.dim(0);
  }
  MR_ASSIGN_OR_RETURN(Tensor* const indices, context.AllocateOutput(0, TensorShape({total, extra + rank})));
  MR_ASSIGN_OR_RETURN(Tensor* const values, context.AllocateOutput(1, TensorShape({total})));
  MR_ASSIGN_OR_RETURN(Tensor* const out_shape, context.AllocateOutput(2, TensorShape({extra + rank})));
  std::copy(shape.begin(), shape.end(), out_shape->data<int64_t>());
  int64_t* to = indices->data<int64_t>();
  int64_t at = 0;
  const Dims strides = RowMajorStrides(leading.dims());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Owned& part = parts[i];
    std::vector<int64_t> places;
    for (int64_t k = 0; k < part.indices.dim(0); ++k) {
      for (int d = 0; d < extra; ++d) *to++ = static_cast<int64_t>(i) / strides[d] % leading.dim(d);
      to = std::copy_n(part.indices.data<int64_t>() + k * rank, rank, to);
      places.push_back(at++);
    }
    PutRows(values->dtype(), part.values.raw_data(), places, 1, values->raw_data());
  }
  return Status();
}

Status Serialize(const Tensor& tensor, std::string* to) {
  tensorflow::TensorProto proto;
  TensorToProtoContent(tensor, &proto);
  if (proto.SerializeToString(to)) return Status();
  return errors::InvalidArgument("The tensor is too large to be serialized");
}

// The three parts of a sparse tensor as strings or, containing the tensors themselves, as variants; written
// from element 3 * row of `out` on.
Status SerializeAll(const Tensor& indices, const Tensor& values, const Tensor& shape, int64_t row,
                    Tensor* out) {
  const Tensor* const parts[] = {&indices, &values, &shape};
  for (int64_t i = 0; i < 3; ++i) {
    if (out->dtype() == DataType::kVariant) {
      out->data<Variant>()[3 * row + i] = VariantData(kTensorInVariant, "", {*parts[i]});
    } else {
      MR_RETURN_IF_ERROR(Serialize(*parts[i], out->data<std::string>() + 3 * row + i));
    }
  }
  return Status();
}

// Part `part` of row i.
StatusOr<Tensor> Deserialize(const Tensor& serialized, int64_t i, int64_t part) {
  const int64_t at = 3 * i + part;
  const auto malformed = errors::InvalidArgument("Could not parse serialized_sparse[", i, ", ", part, "]");
  if (serialized.dtype() == DataType::kVariant) {
    const auto* const data = serialized.data<Variant>()[at].get<VariantData>();
    return data != nullptr && data->tensors.size() == 1 ? StatusOr<Tensor>(data->tensors[0]) : malformed;
  }
  tensorflow::TensorProto proto;
  if (!proto.ParseFromString(serialized.data<std::string>()[at])) return malformed;
  return TensorFromProto(proto);
}

// The three parts of one sparse tensor.
StatusOr<Owned> DeserializeAll(const Tensor& serialized, int64_t i) {
  Owned out;
  MR_ASSIGN_OR_RETURN(out.indices, Deserialize(serialized, i, 0));
  MR_ASSIGN_OR_RETURN(out.values, Deserialize(serialized, i, 1));
  MR_ASSIGN_OR_RETURN(out.shape, Deserialize(serialized, i, 2));
  if (out.indices.dtype() != DataType::kInt64 || out.shape.dtype() != DataType::kInt64) {
    return errors::InvalidArgument(
        "Expected serialized_sparse[", i, "] to have int64 indices and shape, got ",
        DataTypeName(out.indices.dtype()), " and ", DataTypeName(out.shape.dtype()));
  }
  const auto parts = ReadSparse(out.indices, out.values, out.shape);
  if (!parts.ok()) return parts.status().WithContext(StrCat(" in serialized_sparse[", i, "]"));
  return out;
}

class SerializeSparseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor &indices = context.input(0), &values = context.input(1), &shape = context.input(2);
    MR_RETURN_IF_ERROR(ReadSparse(indices, values, shape).status());
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, TensorShape({3})));
    return SerializeAll(indices, values, shape, 0, out);
  }
};

class SerializeManySparseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    const int64_t rows = sparse.rank() > 1 ? sparse.shape[0] : 0;
    MR_ASSIGN_OR_RETURN(const TensorShape out_shape, ShapeFromValues(Dims{rows, 3}));
    MR_ASSIGN_OR_RETURN(Tensor* const out, context.AllocateOutput(0, out_shape));
    return EachRow(sparse, [&](int64_t row, const Owned& part) {
      return SerializeAll(part.indices, part.values, part.shape, row, out);
    });
  }
};

// DeserializeManySparse takes a matrix; DeserializeSparse any shape whose last size is 3.
class DeserializeSparseKernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    const Tensor& serialized = context.input(0);
    const bool many = op_name() == "DeserializeManySparse";
    if (many ? !serialized.shape().IsMatrix() : serialized.rank() < 1) {
      return errors::InvalidArgument("Serialized sparse should be a matrix but received shape ",
                                     serialized.shape());
    }
    if (serialized.dim(serialized.rank() - 1) != 3) {
      return errors::InvalidArgument("Serialized sparse should have 3 as the last dimension, has ",
                                     serialized.dim(serialized.rank() - 1));
    }
    const int64_t n = serialized.num_elements() / 3;
    if (n == 0) {
      return errors::InvalidArgument(
          "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
    }
    std::vector<Owned> parts;
    for (int64_t i = 0; i < n; ++i) {
      MR_ASSIGN_OR_RETURN(Owned part, DeserializeAll(serialized, i));
      parts.push_back(std::move(part));
    }
    TensorShape leading = serialized.shape();
    leading.RemoveDim(leading.rank() - 1);
    if (leading.rank() + parts[0].shape.num_elements() > TensorShape::kMaxRank) {
      return errors::InvalidArgument("Too many dimensions");
    }
    return OutputMany(context, parts, leading);
  }
};

// Sparse tensors by id. Each can be taken once.
class SparseTensorsMap final : public Resource {
 public:
  int64_t Add(Owned tensor) {
    MutexLock lock(mu_);
    kept_.emplace(next_, std::move(tensor));
    return next_++;
  }
  StatusOr<Owned> Take(int64_t handle, const std::string& name) {
    MutexLock lock(mu_);
    const auto found = kept_.find(handle);
    if (found == kept_.end()) {
      return errors::InvalidArgument("Unable to find SparseTensor: ", handle, " in map: ", name);
    }
    Owned tensor = std::move(found->second);
    kept_.erase(found);
    return tensor;
  }
  std::string DebugString() const override { return "A SparseTensorsMap"; }

 private:
  Mutex mu_;
  std::unordered_map<int64_t, Owned> kept_ MR_GUARDED_BY(mu_);
  int64_t next_ MR_GUARDED_BY(mu_) = 0;
};

class TensorsMapKernel : public OpKernel {
 protected:
  explicit TensorsMapKernel(KernelConstruction& c) : OpKernel(c) {
    if (auto place = NameResource(c, Unnamed::kNodeName); place.ok()) {
      place_ = *std::move(place);
    } else {
      c.SetError(place.status());
    }
  }
  StatusOr<RefPtr<SparseTensorsMap>> FindOrMake(KernelContext& context) const {
    const auto make = []() -> StatusOr<RefPtr<SparseTensorsMap>> { return MakeRef<SparseTensorsMap>(); };
    return context.resources().LookupOrCreate<SparseTensorsMap>(place_.container, place_.name, make);
  }
  const ResourceName& place() const { return place_; }

 private:
  ResourceName place_;
};

class AddSparseKernel final : public TensorsMapKernel {
 public:
  explicit AddSparseKernel(KernelConstruction& c) : TensorsMapKernel(c) {}
  Status Compute(KernelContext& context) override {
    const Tensor &indices = context.input(0), &values = context.input(1), &shape = context.input(2);
    MR_RETURN_IF_ERROR(ReadSparse(indices, values, shape).status());
    MR_ASSIGN_OR_RETURN(const auto map, FindOrMake(context));
    MR_ASSIGN_OR_RETURN(Tensor* const handle, context.AllocateOutput(0, TensorShape()));
    handle->scalar<int64_t>() = map->Add({indices, values, shape});
    return Status();
  }
};

class AddManySparseKernel final : public TensorsMapKernel {
 public:
  explicit AddManySparseKernel(KernelConstruction& c) : TensorsMapKernel(c) {}
  Status Compute(KernelContext& context) override {
    MR_ASSIGN_OR_RETURN(const SparseParts sparse,
                        ReadSparse(context.input(0), context.input(1), context.input(2)));
    MR_ASSIGN_OR_RETURN(const auto map, FindOrMake(context));
    const int64_t rows = sparse.rank() > 1 ? sparse.shape[0] : 0;
    MR_ASSIGN_OR_RETURN(Tensor* const handles, context.AllocateOutput(0, TensorShape({rows})));
    return EachRow(sparse, [&](int64_t row, Owned part) {
      handles->data<int64_t>()[row] = map->Add(std::move(part));
      return Status();
    });
  }
};

class TakeManySparseKernel final : public TensorsMapKernel {
 public:
  explicit TakeManySparseKernel(KernelConstruction& c) : TensorsMapKernel(c) {}
  Status Compute(KernelContext& context) override {
    const Tensor& handles = context.input(0);
    if (!handles.shape().IsVector()) {
      return errors::InvalidArgument("sparse_handles should be a vector but received shape ",
                                     handles.shape());
    }
    if (handles.num_elements() == 0) {
      return errors::InvalidArgument("Must have at least 1 SparseTensor, but sparse_handles is empty");
    }
    MR_ASSIGN_OR_RETURN(const auto map,
                        context.resources().Lookup<SparseTensorsMap>(place().container, place().name));
    std::vector<Owned> parts;
    for (const int64_t handle : handles.flat<int64_t>()) {
      MR_ASSIGN_OR_RETURN(Owned part, map->Take(handle, place().name));
      parts.push_back(std::move(part));
    }
    if (parts[0].shape.num_elements() >= TensorShape::kMaxRank) {
      return errors::InvalidArgument("Too many dimensions");
    }
    return OutputMany(context, parts, handles.shape());
  }
};

}  // namespace

void RegisterSparseStoreKernels(KernelRegistry& registry) {
  registry.Register<SerializeSparseKernel>(KernelDef("SerializeSparse"));
  registry.Register<SerializeManySparseKernel>(KernelDef("SerializeManySparse"));
  registry.Register<DeserializeSparseKernel>(KernelDef("DeserializeManySparse"));
  registry.Register<DeserializeSparseKernel>(KernelDef("DeserializeSparse"));
  registry.Register<AddSparseKernel>(KernelDef("AddSparseToTensorsMap"));
  registry.Register<AddManySparseKernel>(KernelDef("AddManySparseToTensorsMap"));
  registry.Register<TakeManySparseKernel>(KernelDef("TakeManySparseFromTensorsMap"));
}

}  // namespace millrace
