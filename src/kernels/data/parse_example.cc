// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Batches of serialized Examples as tensors.
#include <map>

#include "io/example/example_parser.h"
#include "kernels/data/dataset_kernel.h"
#include "kernels/data/parallel.h"
#include "kernels/data/register.h"
#include "tensor/variant.h"

namespace millrace::data {
namespace {

// Outputs the components in the order of their keys; a sparse one as a vector of three variants.
class ParseExamples final : public ElementFunction {
 public:
  ParseExamples(io::FeatureTable table, std::vector<int> order)
      : table_(std::move(table)), order_(std::move(order)) {}
  StatusOr<std::unique_ptr<Bound>> Bind(const Context& /*ctx*/, const std::vector<DataType>& args,
                                        const std::vector<DataType>& rets) const override {
    if (args != std::vector{DataType::kString} || rets.size() != order_.size()) {
      return errors::InvalidArgument("ParseExampleDataset takes vectors of serialized Examples, and returns ",
                                     order_.size(), " components");
    }
    return std::unique_ptr<Bound>(std::make_unique<Parser>(*this));
  }

 private:
  class Parser final : public Bound {
   public:
    explicit Parser(const ParseExamples& what) : what_(what) {}
    Status Call(Context& /*ctx*/, Element* args, Element* rets) const override {
      if (args->size() != 1 || !(*args)[0].shape().IsVector() || (*args)[0].dtype() != DataType::kString) {
        return errors::InvalidArgument("Expected serialized Examples to be a vector of strings");
      }
      return Parse({.serialized = (*args)[0].flat<std::string>()}, rets);
    }
    bool OnlyComputes() const override { return true; }
    bool TakesTexts() const override { return true; }
    Status CallWithTexts(Context& /*ctx*/, Texts& args, Element* rets) const override {
      return Parse({.views = args.views()}, rets);
    }

   private:
    Status Parse(const io::ParseRequest& request, Element* rets) const {
      MR_ASSIGN_OR_RETURN(
          io::ParsedFeatures parsed,
          io::ParseFeatures(what_.table_, request, [](int64_t total, int64_t, ThreadPool::ShardFn fn) {
            if (total > 0) fn(0, total);
          }));
      Element out;
      for (const int i : what_.order_) {
        std::vector<Tensor>& parts = parsed[static_cast<size_t>(i)];
        if (!what_.table_[i].is_sparse) {
          out.push_back(std::move(parts[0]));
          continue;
        }
        Tensor sparse(DataType::kVariant, TensorShape({3}));
        if (!sparse.IsInitialized()) return errors::ResourceExhausted("No memory for a sparse feature");
        for (size_t k = 0; k < 3; ++k) {
          sparse.data<Variant>()[k] = VariantData("tensorflow::Tensor", "", {std::move(parts[k])});
        }
        out.push_back(std::move(sparse));
      }
      *rets = std::move(out);
      return Status();
    }

    const ParseExamples& what_;
  };

  const io::FeatureTable table_;
  const std::vector<int> order_;
};

StatusOr<RefPtr<const Dataset>> MakeParseExample(const NodeArgs& args) {
  MR_ASSIGN_OR_RETURN(Dataset::Signature signature, args.Signature());
  MR_ASSIGN_OR_RETURN(RefPtr<const Dataset> input, args.Input());
  MR_ASSIGN_OR_RETURN(const int64_t calls, args.Scalar<int64_t>("num_parallel_calls"));
  MR_ASSIGN_OR_RETURN(const Parallelism parallelism, ParallelismOf(calls));
  MR_ASSIGN_OR_RETURN(const bool sloppy, args.Attr<bool>("sloppy"));
  MR_ASSIGN_OR_RETURN(const auto sparse_keys, args.Attr<std::vector<std::string>>("sparse_keys"));
  MR_ASSIGN_OR_RETURN(const auto dense_keys, args.Attr<std::vector<std::string>>("dense_keys"));
  MR_ASSIGN_OR_RETURN(const auto sparse_types, args.Attr<std::vector<DataType>>("sparse_types"));
  MR_ASSIGN_OR_RETURN(const auto dense_types, args.Attr<std::vector<DataType>>("Tdense"));
  MR_ASSIGN_OR_RETURN(const auto dense_shapes, args.Attr<std::vector<PartialShape>>("dense_shapes"));
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> defaults, args.Values("dense_defaults"));
  if (sparse_keys.size() != sparse_types.size()) {
    return errors::InvalidArgument("len(sparse_keys) != len(sparse_types)");
  }
  if (dense_keys.size() != dense_types.size() || dense_keys.size() != dense_shapes.size() ||
      dense_keys.size() != defaults.size()) {
    return errors::InvalidArgument(
        "len(dense_keys) must be that of dense_types, dense_shapes and dense_defaults");
  }
  std::vector<io::FeatureSpec> specs;
  std::map<std::string, int> places;  // outputs are in the order of the keys
  for (size_t i = 0; i < sparse_keys.size(); ++i) {
    places[sparse_keys[i]] = static_cast<int>(specs.size());
    specs.push_back({.key = sparse_keys[i], .dtype = sparse_types[i], .is_sparse = true});
  }
  for (size_t i = 0; i < dense_keys.size(); ++i) {
    places[dense_keys[i]] = static_cast<int>(specs.size());
    specs.push_back({.key = dense_keys[i],
                     .dtype = dense_types[i],
                     .shape = dense_shapes[i],
                     .default_value = defaults[i]});
  }
  MR_ASSIGN_OR_RETURN(io::FeatureTable table, io::FeatureTable::Make(std::move(specs)));
  std::vector<int> order;
  order.reserve(places.size());
  for (const auto& [key, place] : places) order.push_back(place);
  return MapInParallel(args.Kind(), std::move(signature), std::move(input),
                       std::make_unique<ParseExamples>(std::move(table), std::move(order)), parallelism,
                       sloppy, true);
}

}  // namespace

void RegisterParseExampleDatasets(KernelRegistry& registry) {
  RegisterDataset(registry, "ParseExampleDataset", MakeParseExample);
}

}  // namespace millrace::data
