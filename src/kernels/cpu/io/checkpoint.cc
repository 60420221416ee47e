// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Saving tensors to checkpoints and restoring them, in both of TensorFlow's formats.
#include <algorithm>
#include <numeric>

#include "base/env.h"
#include "base/strings.h"
#include "io/checkpoint/bundle.h"
#include "io/checkpoint/slices.h"
#include "kernel/kernel_context.h"
#include "kernel/kernel_registry.h"
#include "kernel/op_kernel.h"

namespace millrace {
namespace {

// Indices of the names in sorted order, which is that of the files.
std::vector<int64_t> SortedByName(const Tensor& names) {
  std::vector<int64_t> order(static_cast<size_t>(names.num_elements()));
  std::iota(order.begin(), order.end(), 0);
  const std::string* const text = names.data<std::string>();
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return text[a] < text[b]; });
  return order;
}

// The whole tensor of which a tensor to be saved is a part.
StatusOr<ShapeAndSlice> PartOf(const Tensor& tensor, const std::string& spec) {
  if (spec.empty()) {
    return ShapeAndSlice{tensor.shape(), TensorSlice::Full(tensor.rank()), tensor.shape()};
  }
  MR_ASSIGN_OR_RETURN(ShapeAndSlice part, ParseShapeAndSlice(spec));
  if (part.slice_shape == tensor.shape()) return part;
  return errors::InvalidArgument(
      "Slice in shape_and_slice specification does not match the shape of the tensor to  save: ", spec,
      ", tensor: ", tensor.shape());
}

// The first three inputs of SaveV2 and RestoreV2.
Status CheckBundleInputs(const KernelContext& context) {
  const Tensor &prefix = context.input(0), &names = context.input(1), &specs = context.input(2);
  if (prefix.num_elements() != 1) {
    return errors::InvalidArgument("Input prefix should have a single element, got ", prefix.num_elements(),
                                   " instead.");
  }
  if (names.rank() != 1 || specs.rank() != 1) {
    return errors::InvalidArgument("Input tensor_names and shape_and_slices should be an 1-D tensors, got ",
                                   names.shape(), " and ", specs.shape(), " instead.");
  }
  if (names.num_elements() != specs.num_elements()) {
    return errors::InvalidArgument("tensor_names and shape_and_slices have different number of elements: ",
                                   names.num_elements(), " vs. ", specs.num_elements());
  }
  return Status::Ok();
}

class SaveV2Kernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBundleInputs(context));
    const Tensor& names = context.input(1);
    if (context.num_inputs() != names.num_elements() + 3) {
      return errors::InvalidArgument("Got ", names.num_elements(), " tensor names but ",
                                     context.num_inputs() - 3, " tensors.");
    }
    MR_ASSIGN_OR_RETURN(
        const auto writer,
        io::BundleWriter::Open(Env::Posix(), *context.input(0).data<std::string>(), &context.cancellation()));
    for (const int64_t i : SortedByName(names)) {
      const std::string &name = names.data<std::string>()[i], &spec = context.input(2).data<std::string>()[i];
      const Tensor& tensor = context.input(static_cast<int>(i) + 3);
      MR_ASSIGN_OR_RETURN(const ShapeAndSlice part, PartOf(tensor, spec));
      MR_RETURN_IF_ERROR(spec.empty() ? writer->Add(name, tensor)
                                      : writer->AddSlice(name, part.full_shape, part.slice, tensor));
    }
    return writer->Finish();
  }
};

// Restores one tensor of a checkpoint of the first format to output `output`.
Status RestoreFromSlices(KernelContext& context, io::SlicesReader& reader, const std::string& pattern,
                         const std::string& name, const std::string& spec, int output) {
  MR_ASSIGN_OR_RETURN(const io::SlicesReader::Variable* const variable, reader.Find(name));
  if (variable == nullptr) {
    return errors::NotFound("Tensor name \"", name, "\" not found in checkpoint files ", pattern);
  }
  if (variable->dtype != context.output_type(output)) {
    return errors::InvalidArgument("Expected to restore a tensor of type ",
                                   DataTypeName(context.output_type(output)), ", got a tensor of type ",
                                   DataTypeName(variable->dtype), " instead: tensor_name = ", name);
  }
  TensorSlice slice = TensorSlice::Full(variable->shape.rank());
  if (!spec.empty()) {
    MR_ASSIGN_OR_RETURN(ShapeAndSlice part, ParseShapeAndSlice(spec));
    if (part.full_shape != variable->shape) {
      return errors::InvalidArgument(
          "Shape in shape_and_slice spec does not match the shape in the save file: ", part.full_shape,
          ", save file shape: ", variable->shape);
    }
    slice = std::move(part.slice);
  }
  MR_ASSIGN_OR_RETURN(Tensor tensor, reader.ReadSlice(name, slice, context.allocator()));
  context.set_output(output, std::move(tensor));
  return Status::Ok();
}

class RestoreV2Kernel final : public OpKernel {
 public:
  using OpKernel::OpKernel;
  Status Compute(KernelContext& context) override {
    MR_RETURN_IF_ERROR(CheckBundleInputs(context));
    const std::string& prefix = *context.input(0).data<std::string>();
    if (context.num_outputs() != context.input(1).num_elements()) {
      return errors::InvalidArgument("Got ", context.input(1).num_elements(), " tensor names, but expected ",
                                     context.num_outputs(), " tensors.");
    }
    // A checkpoint of the first format is accepted, too.
    if (!Env::Posix().FileExists(io::BundleIndexPath(prefix))) return RestoreOldFormat(context, prefix);
    const auto parallel = [&](int64_t total, int64_t cost_ns, ThreadPool::ShardFn fn) {
      context.ParallelFor(total, cost_ns, fn);
    };
    MR_ASSIGN_OR_RETURN(const auto reader,
                        io::BundleReader::Open(Env::Posix(), prefix, &context.cancellation(), parallel));
    const std::vector<int64_t> order = SortedByName(context.input(1));
    MR_RETURN_IF_ERROR(CheckTypes(context, *reader, order));
    for (const int64_t i : order) MR_RETURN_IF_ERROR(Restore(context, *reader, static_cast<int>(i)));
    return Status::Ok();
  }

 private:
  static const std::string& Name(const KernelContext& context, int64_t i) {
    return context.input(1).data<std::string>()[i];
  }
  static const std::string& Spec(const KernelContext& context, int64_t i) {
    return context.input(2).data<std::string>()[i];
  }
  static Status RestoreOldFormat(KernelContext& context, const std::string& pattern) {
    MR_ASSIGN_OR_RETURN(const auto reader,
                        io::SlicesReader::Open(Env::Posix(), pattern, -1, &context.cancellation()));
    for (int i = 0; i < context.num_outputs(); ++i) {
      MR_RETURN_IF_ERROR(RestoreFromSlices(context, *reader, pattern, Name(context, i), Spec(context, i), i));
    }
    return Status::Ok();
  }
  // Reports all tensors of another type at once.
  static Status CheckTypes(const KernelContext& context, io::BundleReader& reader,
                           const std::vector<int64_t>& order) {
    std::vector<std::string> wrong;
    for (const int64_t i : order) {
      MR_ASSIGN_OR_RETURN(const io::BundleEntry entry, reader.Find(Name(context, i)));
      const DataType expected = context.output_type(static_cast<int>(i));
      if (entry.dtype == expected) continue;
      wrong.push_back(StrCat("tensor_name = ", Name(context, i), "; expected dtype ", DataTypeName(expected),
                             " does not equal original dtype ", DataTypeName(entry.dtype)));
    }
    return wrong.empty() ? Status::Ok() : errors::InvalidArgument(StrJoin(wrong, "\n"));
  }
  static Status Restore(KernelContext& context, io::BundleReader& reader, int i) {
    const std::string &name = Name(context, i), &spec = Spec(context, i);
    if (spec.empty()) {
      MR_ASSIGN_OR_RETURN(Tensor tensor, reader.Read(name, context.allocator()));
      context.set_output(i, std::move(tensor));
      return Status::Ok();
    }
    MR_ASSIGN_OR_RETURN(const ShapeAndSlice part, ParseShapeAndSlice(spec));
    MR_ASSIGN_OR_RETURN(const io::BundleEntry entry, reader.Find(name));
    if (part.full_shape != entry.shape) {
      return errors::InvalidArgument("tensor_name = ", name, "; shape in shape_and_slice spec ",
                                     part.full_shape,
                                     " does not match the shape stored in checkpoint: ", entry.shape);
    }
    MR_ASSIGN_OR_RETURN(Tensor tensor, reader.ReadSlice(name, part.slice, context.allocator()));
    context.set_output(i, std::move(tensor));
    return Status::Ok();
  }
};

class MergeV2CheckpointsKernel final : public OpKernel {
 public:
  explicit MergeV2CheckpointsKernel(KernelConstruction& c)
      : OpKernel(c), delete_old_dirs_(c.Attr<bool>("delete_old_dirs")) {}
  Status Compute(KernelContext& context) override {
    const Tensor &prefixes = context.input(0), &destination = context.input(1);
    if (prefixes.rank() != 1) {
      return errors::InvalidArgument("Input checkpoint_prefixes should be an 1-D tensor, got ",
                                     prefixes.shape(), " instead.");
    }
    if (destination.rank() != 0) {
      return errors::InvalidArgument("Input destination_prefix should be a scalar tensor, got ",
                                     destination.shape(), " instead.");
    }
    const auto flat = prefixes.flat<std::string>();
    const std::string& merged = destination.scalar<std::string>();
    MR_RETURN_IF_ERROR(io::MergeBundles(Env::Posix(), {flat.begin(), flat.end()}, merged));
    if (!delete_old_dirs_) return Status::Ok();
    for (const std::string& prefix : flat) {
      const std::string folder = io::FolderOf(prefix);
      if (folder.empty() || folder == io::FolderOf(merged)) continue;
      Env::Posix().DeleteDir(folder).IgnoreError("prefixes share folders, which may have other files, too");
    }
    return Status::Ok();
  }

 private:
  const bool delete_old_dirs_;
};

// Save and, with shapes and slices, SaveSlices.
class SaveKernel final : public OpKernel {
 public:
  explicit SaveKernel(KernelConstruction& c) : OpKernel(c), fixed_(op_name() == "SaveSlices" ? 3 : 2) {}
  Status Compute(KernelContext& context) override {
    const Tensor &path = context.input(0), &names = context.input(1);
    if (path.num_elements() != 1) {
      return errors::InvalidArgument("Input 0 (filename) must be a string scalar; got a tensor of ",
                                     path.num_elements(), "elements");
    }
    const int64_t n = names.num_elements();
    if (fixed_ == 3 && context.input(2).num_elements() != n) {
      return errors::InvalidArgument("Expected ", n, " elements for the tensor shapes and slices but got ",
                                     context.input(2).num_elements());
    }
    if (context.num_inputs() != n + fixed_) {
      return errors::InvalidArgument(
          "Expected totally ", n + fixed_,
          " inputs as input #1 (which is a string tensor of saved names) contains ", n,
          " names, but received ", context.num_inputs(), " inputs");
    }
    io::SlicesWriter writer(Env::Posix(), *path.data<std::string>());
    for (const int64_t i : SortedByName(names)) {
      const Tensor& tensor = context.input(static_cast<int>(i) + fixed_);
      const std::string spec = fixed_ == 3 ? context.input(2).data<std::string>()[i] : "";
      MR_ASSIGN_OR_RETURN(const ShapeAndSlice part, PartOf(tensor, spec));
      MR_RETURN_IF_ERROR(writer.Add(names.data<std::string>()[i], part.full_shape, part.slice, tensor));
    }
    return writer.Finish(&context.cancellation());
  }

 private:
  const int fixed_;
};

// Restore and, with a shape and slice, RestoreSlice.
class RestoreKernel final : public OpKernel {
 public:
  explicit RestoreKernel(KernelConstruction& c)
      : OpKernel(c), preferred_shard_(c.Attr<int64_t>("preferred_shard")) {}
  Status Compute(KernelContext& context) override {
    static constexpr const char* kInputs[] = {"file_pattern", "tensor_name", "shape_and_slice"};
    for (int i = 0; i < context.num_inputs(); ++i) {
      if (context.input(i).num_elements() == 1) continue;
      return errors::InvalidArgument("Input ", i, " (", kInputs[i],
                                     ") must be a string scalar; got a tensor of ",
                                     context.input(i).num_elements(), "elements");
    }
    const std::string &pattern = *context.input(0).data<std::string>(),
                      &name = *context.input(1).data<std::string>();
    const std::string spec = context.num_inputs() == 3 ? *context.input(2).data<std::string>() : "";
    MR_ASSIGN_OR_RETURN(const auto reader, io::SlicesReader::Open(Env::Posix(), pattern, preferred_shard_,
                                                                  &context.cancellation()));
    return RestoreFromSlices(context, *reader, pattern, name, spec, 0);
  }

 private:
  const int64_t preferred_shard_;
};

}  // namespace

void RegisterCheckpointKernels(KernelRegistry& registry) {
  registry.Register<SaveV2Kernel>(KernelDef("SaveV2"));
  registry.Register<RestoreV2Kernel>(KernelDef("RestoreV2"));
  registry.Register<MergeV2CheckpointsKernel>(KernelDef("MergeV2Checkpoints"));
  registry.Register<SaveKernel>(KernelDef("Save"));
  registry.Register<SaveKernel>(KernelDef("SaveSlices"));
  registry.Register<RestoreKernel>(KernelDef("Restore"));
  registry.Register<RestoreKernel>(KernelDef("RestoreSlice"));
}

}  // namespace millrace
