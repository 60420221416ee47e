// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "op/op_def.h"
#include "tensorflow/c/c_api.h"

namespace millrace::c_api_fuzz {

// The source of arguments: bytes of the input, followed by zeros.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : left_(bytes) {}

  bool done() const { return left_.empty(); }
  int Next() {
    if (left_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    return byte;
  }
  // REQUIRES: 0 < n <= 65536.
  int Below(int n) { return (n <= 256 ? Next() : Next() << 8 | Next()) % n; }
  bool Rarely() { return Next() >= 248; }
  bool Sometimes() { return Next() >= 192; }
  template <typename T, size_t N>
  const T& Any(const T (&values)[N]) {
    return values[Below(static_cast<int>(N))];
  }
  // Up to `most` bytes, unchanged.
  std::string Raw(int most) {
    std::string raw(left_.substr(0, static_cast<size_t>(Below(most + 1))));
    left_.remove_prefix(raw.size());
    return raw;
  }

 private:
  std::string_view left_;
};

// Live objects of one type. A full pool deletes one when another is added.
template <typename T>
class Pool {
 public:
  Pool(size_t most, void (*destroy)(T*)) : most_(most), destroy_(destroy) {}
  ~Pool() { Clear(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void Add(T* object) {
    if (object == nullptr) return;
    if (objects_.size() == most_) destroy_(Take(static_cast<size_t>(next_++) % most_));
    objects_.push_back(object);
  }
  // Null if there is none, and sometimes otherwise.
  T* Any(Bytes& in) const {
    const int at = in.Next();
    return objects_.empty() || at == 255 ? nullptr : objects_[static_cast<size_t>(at) % objects_.size()];
  }
  T* TakeAny(Bytes& in) {
    const int at = in.Next();
    return objects_.empty() || at == 255 ? nullptr : Take(static_cast<size_t>(at) % objects_.size());
  }
  void Clear() {
    while (!objects_.empty()) destroy_(Take(objects_.size() - 1));
  }
  const std::vector<T*>& objects() const { return objects_; }

 private:
  T* Take(size_t at) {
    T* object = objects_[at];
    objects_.erase(objects_.begin() + static_cast<std::ptrdiff_t>(at));
    return object;
  }

  const size_t most_;
  void (*const destroy_)(T*);
  int next_ = 0;
  std::vector<T*> objects_;
};

struct Operation {
  TF_Operation* op;
  TF_Graph* graph;
};

struct Description {
  TF_OperationDescription* desc;
  TF_Graph* graph;
  const OpDef* op;  // null: unknown
};

struct Loop {
  TF_WhileParams params;
  TF_Graph* parent;
};

// All objects made by the calls of one input. They are deleted in an order that the input determines, the
// rest at the end; every operation that is used belongs to a graph that still exists.
class World {
 public:
  explicit World(std::string_view input);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Selections.
  TF_Graph* AnyGraph();
  TF_Operation* AnyOperation();
  TF_Output AnyOutput();  // any tensor, preferably of the right type
  // Usually a tensor of that graph, of the type if there is one.
  TF_Output OutputOf(TF_Graph* graph, TF_DataType type = TF_DataType{});
  const char* NodeName();  // usually a new one
  TF_DataType AnyType();
  std::vector<int64_t> AnyShape();  // usually small
  // A word of graphs or bytes of the input, ended by a zero; sometimes null. Valid until the world ends.
  const char* AnyName();
  const OpDef* AnyOp();
  TF_Tensor* AnyTensor();  // makes one if there is none
  // That number of live tensors; making another one may delete one of them.
  std::vector<TF_Tensor*> AnyTensors(size_t count);
  std::vector<TF_Output> OutputsOf(TF_Graph* graph, int most);

  void AddGraph(TF_Graph* graph) { graphs.push_back(graph); }
  void AddOperation(TF_Operation* op, TF_Graph* graph);
  // Drops the records of a graph, as its operations are deleted with it.
  void Forget(TF_Graph* graph);
  bool Knows(TF_Graph* graph) const;
  TF_Tensor* NewTensor();

  Bytes in;
  TF_Status* const status;
  std::vector<TF_Graph*> graphs;  // including those of unfinished loops
  std::vector<Operation> operations;
  std::vector<Description> descriptions;
  std::list<Loop> loops;
  Pool<TF_Tensor> tensors{12, TF_DeleteTensor};
  Pool<TF_Buffer> buffers{6, TF_DeleteBuffer};
  Pool<TF_Function> functions{6, TF_DeleteFunction};
  Pool<TF_Session> sessions;
  Pool<TF_SessionOptions> options{3, TF_DeleteSessionOptions};
  Pool<TF_DeprecatedSession> deprecated;
  Pool<TF_ImportGraphDefOptions> imports{3, TF_DeleteImportGraphDefOptions};
  Pool<TF_ImportGraphDefResults> results{3, TF_DeleteImportGraphDefResults};
  Pool<TF_DeviceList> devices{2, TF_DeleteDeviceList};
  Pool<TF_ApiDefMap> api_defs{1, TF_DeleteApiDefMap};
  Pool<const char> handles;  // of partial runs

 private:
  size_t next_operation_ = 0;
  int next_name_ = 0;
  std::deque<std::string> names_;
};

// One call, or a few related ones.
struct Call {
  const char* name;
  int weight;
  void (*run)(World&);
};
const std::vector<Call>& ValueCalls();
const std::vector<Call>& GraphCalls();
const std::vector<Call>& SessionCalls();

// Once per process: registers ops and kernels in C whose attribute selects their behaviour, including misuse.
void RegisterOpsInC();

// The outcomes of all kinds of calls: the name and the code of the status.
using Outcomes = std::set<std::pair<std::string_view, int>>;
void RunCalls(std::string_view input, Outcomes* outcomes);

}  // namespace millrace::c_api_fuzz
