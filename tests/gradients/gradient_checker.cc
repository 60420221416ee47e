// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "gradient_checker.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "autodiff/add_gradients.h"
#include "millrace/session.h"

namespace millrace {
namespace {

std::string NameOf(const Output& tensor) { return StrCat(tensor.node->name(), ":", tensor.index); }

// The real numbers in a tensor: two for each complex element.
int64_t NumReals(const Tensor& t) { return t.num_elements() * (IsComplexType(t.dtype()) ? 2 : 1); }
bool IsSingle(const Tensor& t) { return t.dtype() == DataType::kFloat || t.dtype() == DataType::kComplex64; }
double Get(const Tensor& t, int64_t i) {
  return IsSingle(t) ? static_cast<const float*>(t.raw_data())[i]
                     : static_cast<const double*>(t.raw_data())[i];
}
void Set(Tensor& t, int64_t i, double value) {
  if (IsSingle(t)) {
    static_cast<float*>(t.raw_data())[i] = static_cast<float>(value);
  } else {
    static_cast<double*>(t.raw_data())[i] = value;
  }
}

// Arbitrary values, which differ from each other and are neither 0 nor 1.
Tensor Weights(DataType dtype, const TensorShape& shape, int seed) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < NumReals(t); ++i)
    Set(t, i, 0.3 + 0.17 * static_cast<double>((i * 7 + seed * 3) % 11));
  return t;
}

// Runs parts of the graph at a point.
class Evaluator {
 public:
  static StatusOr<Evaluator> Make(const Graph& graph, const std::vector<Point>& points,
                                  const std::vector<Output>& fetches, bool fold) {
    SessionOptions options;
    options.intra_op_parallelism_threads = options.inter_op_parallelism_threads = 1;
    options.fold_constants = fold;
    Evaluator e;
    MR_ASSIGN_OR_RETURN(e.session_, NewSession(options));
    MR_RETURN_IF_ERROR(e.session_->ExtendFrom(graph));
    CallableOptions callable;
    for (const Point& point : points) {
      callable.feeds.push_back(NameOf(point.tensor));
      e.feeds_.push_back(point.value);
    }
    for (const Output& fetch : fetches) callable.fetches.push_back(NameOf(fetch));
    MR_ASSIGN_OR_RETURN(e.handle_, e.session_->MakeCallable(callable));
    return e;
  }

  StatusOr<std::vector<Tensor>> Run() {
    std::vector<Tensor> outputs;
    MR_RETURN_IF_ERROR(session_->RunCallable(handle_, feeds_, &outputs, nullptr));
    return outputs;
  }
  // The same with one number of one feed changed by `by`.
  StatusOr<std::vector<Tensor>> RunMoved(size_t feed, int64_t i, double by) {
    const Tensor original = feeds_[feed];
    feeds_[feed] = original.DeepCopy();
    Set(feeds_[feed], i, Get(original, i) + by);
    auto outputs = Run();
    feeds_[feed] = original;
    return outputs;
  }

 private:
  std::unique_ptr<Session> session_;
  Session::CallableHandle handle_ = 0;
  std::vector<Tensor> feeds_;
};

// The inner product of the outputs with the weights, taken as vectors of real numbers.
double Product(const std::vector<Tensor>& ys, const std::vector<Tensor>& weights) {
  double sum = 0;
  for (size_t k = 0; k < ys.size(); ++k) {
    for (int64_t i = 0; i < NumReals(ys[k]); ++i) sum += Get(ys[k], i) * Get(weights[k], i);
  }
  return sum;
}

// Compares `grads` of <weights, ys> with finite differences. `points` are all placeholders; the gradients are
// with respect to the first ones.
StatusOr<double> Compare(Graph& graph, const std::vector<Point>& points, const std::vector<Output>& ys,
                         const std::vector<Tensor>& weights, const std::vector<Output>& grads,
                         const CheckOptions& options) {
  std::vector<Output> set;
  std::copy_if(grads.begin(), grads.end(), std::back_inserter(set),
               [](const Output& g) { return g.IsSet(); });
  MR_ASSIGN_OR_RETURN(Evaluator of_grads, Evaluator::Make(graph, points, set, options.fold));
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, of_grads.Run());
  MR_ASSIGN_OR_RETURN(Evaluator of_ys, Evaluator::Make(graph, points, ys, options.fold));
  double error = 0;
  size_t next = 0;
  for (size_t x = 0; x < grads.size(); ++x) {
    const Tensor& at = points[x].value;
    const Tensor* value = grads[x].IsSet() ? &values[next++] : nullptr;
    if (value != nullptr && !(value->shape() == at.shape())) {
      return errors::Internal("gradient ", x, " has shape ", value->shape(), ", expected ", at.shape());
    }
    for (int64_t i = 0; i < NumReals(at); ++i) {
      MR_ASSIGN_OR_RETURN(const std::vector<Tensor> above, of_ys.RunMoved(x, i, options.delta));
      MR_ASSIGN_OR_RETURN(const std::vector<Tensor> below, of_ys.RunMoved(x, i, -options.delta));
      const double numeric = (Product(above, weights) - Product(below, weights)) / (2 * options.delta);
      const double symbolic = value != nullptr ? Get(*value, i) : 0;
      const double e = std::abs(numeric - symbolic) / std::max(1.0, std::abs(numeric));
      error = std::isnan(e) ? HUGE_VAL : std::max(error, e);
    }
  }
  return error;
}

}  // namespace

StatusOr<double> MaxGradientError(Graph& graph, const std::vector<Point>& xs, const std::vector<Output>& ys,
                                  const CheckOptions& options) {
  MR_ASSIGN_OR_RETURN(Evaluator forward, Evaluator::Make(graph, xs, ys, options.fold));
  MR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, forward.Run());
  std::vector<Point> points = xs;
  std::vector<Output> x_outputs, grad_ys, grads;
  std::vector<Tensor> weights;
  for (const Point& x : xs) x_outputs.push_back(x.tensor);
  for (size_t k = 0; k < ys.size(); ++k) {
    weights.push_back(Weights(values[k].dtype(), values[k].shape(), static_cast<int>(k)));
    AttrMap attrs = {{"dtype", values[k].dtype()}};
    if (options.shapes) attrs.Set("shape", values[k].shape());
    MR_ASSIGN_OR_RETURN(Node * node, graph.AddNode(graph.NewName("dy"), "Placeholder", std::move(attrs)));
    grad_ys.push_back({node, 0});
    points.push_back({{node, 0}, weights.back()});
  }
  MR_RETURN_IF_ERROR(AddGradients(&graph, ys, x_outputs, grad_ys, &grads));
  MR_RETURN_IF_ERROR(graph.Validate());
  MR_ASSIGN_OR_RETURN(double error, Compare(graph, points, ys, weights, grads, options));
  if (!options.second) return error;

  std::vector<Output> first;
  std::copy_if(grads.begin(), grads.end(), std::back_inserter(first),
               [](const Output& g) { return g.IsSet(); });
  CheckOptions once = options;
  once.second = false;
  MR_ASSIGN_OR_RETURN(const double second_error, MaxGradientError(graph, points, first, once));
  return std::max(error, second_error);
}

}  // namespace millrace
