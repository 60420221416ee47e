// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Stages of pipelines that call C++ functions.
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/scope_state.h"
#include "millrace/data.h"
#include "millrace/functions.h"
#include "millrace/ops.h"

namespace millrace {

Dataset Dataset::MapHost(const HostFn& fn, std::vector<DataType> types, std::vector<PartialShape> shapes,
                         const MapOptions& options) const {
  return Map(
      [&](const Scope& scope, const std::vector<Output>& element) {
        return CallHostFunction(scope, fn, element, types, shapes);
      },
      options);
}

Dataset Dataset::FromGenerator(const Scope& scope, std::vector<DataType> types,
                               std::vector<PartialShape> shapes, std::function<Generator()> make) {
  // The generators of the iterators in use, by number.
  struct Running {
    std::mutex mu;
    std::map<int64_t, std::shared_ptr<Generator>> by_number;
    int64_t next = 0;
  };
  const auto running = std::make_shared<Running>();
  if (make == nullptr) scope.UpdateStatus(errors::InvalidArgument("FromGenerator: the function is null"));
  const auto function = [&](const char* name, const std::vector<DataType>& arguments, const HostFn& fn,
                            const std::vector<DataType>& results, const std::vector<PartialShape>& of) {
    return MakeGraphFunction(scope, name, arguments, {}, [&](const Scope& s, const std::vector<Output>& in) {
      return CallHostFunction(s, fn, in, results, of);
    });
  };
  const std::vector<DataType> number = {DataType::kInt64};
  const HostFn init = [running, make](const std::vector<Tensor>&) -> StatusOr<std::vector<Tensor>> {
    auto generator = std::make_shared<Generator>(make());
    const std::lock_guard<std::mutex> lock(running->mu);
    running->by_number[running->next] = std::move(generator);
    return std::vector<Tensor>{Tensor::Scalar(running->next++)};
  };
  const HostFn next = [running](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    std::shared_ptr<Generator> generator;
    {
      const std::lock_guard<std::mutex> lock(running->mu);
      generator = running->by_number[in[0].scalar<int64_t>()];
    }
    if (generator == nullptr || *generator == nullptr) return errors::FailedPrecondition("No generator");
    MR_ASSIGN_OR_RETURN(auto element, (*generator)());
    if (!element.has_value()) return errors::OutOfRange("The generator has ended");
    return *std::move(element);
  };
  const HostFn finalize = [running](const std::vector<Tensor>& in) -> StatusOr<std::vector<Tensor>> {
    const std::lock_guard<std::mutex> lock(running->mu);
    running->by_number.erase(in[0].scalar<int64_t>());
    return std::vector<Tensor>{in[0]};
  };
  const GraphFunction of_init = function("generator_init", {}, init, number, {PartialShape({})});
  const GraphFunction of_next = function("generator_next", number, next, types, shapes);
  const GraphFunction of_finalize =
      function("generator_finalize", number, finalize, number, {PartialShape({})});
  OpMaker maker(scope, "GeneratorDataset", {});
  for (int i = 0; i < 3; ++i) maker.Add(InputList(std::vector<Output>()));  // no captured tensors
  maker.SetAttr("init_func", of_init.name);
  maker.SetAttr("next_func", of_next.name);
  maker.SetAttr("finalize_func", of_finalize.name);
  maker.SetAttr("output_types", types);
  maker.SetAttr("output_shapes", shapes);
  maker.Finish();
  return {scope, maker.output(0), std::move(types), std::move(shapes)};
}

}  // namespace millrace
