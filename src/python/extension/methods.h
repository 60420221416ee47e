// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python/extension/objects.h"

namespace millrace::python {

// The tables of the types, each ended by an empty row.
extern PyMethodDef graph_methods[];
extern PyMemberDef graph_members[];
extern PyGetSetDef graph_properties[];
extern PyMethodDef operation_methods[];
extern PyMemberDef operation_members[];
extern PyGetSetDef operation_properties[];
extern PyMethodDef tensor_methods[];
extern PyMemberDef tensor_members[];
extern PyGetSetDef tensor_properties[];

// Methods of graphs that are in gradients.cc.
PyObject* GradientsMethod(PyObject* self, PyObject* args);
PyObject* CallGradientMethod(PyObject* self, PyObject* args);
PyObject* DeclareGradientMethod(PyObject* self, PyObject* args);

// The value of an attribute as Python sees it (None, when it is none); those that are protobuf messages as
// bytes. (kind, value): "func", "tensor" and lists of them give the serialised AttrValue.
PyObject* AttributeOf(TF_Operation* op, const char* name);

// Sets an attribute of an operation that is being made. `kind` is the type in an OpDef: "int", "list(type)",
// ..., or "proto": the value is a serialised AttrValue. False with an exception for values of other types.
bool SetAttribute(TF_OperationDescription* op, const char* name, std::string_view kind, PyObject* value);

// A tensor of an array of any kind; null with an exception.
TF_Tensor* TensorOfArray(PyObject* array, int dtype);

// The sizes that a sequence of int and None, a TensorShape's as_list(), names; rank -1 for None.
struct Sizes {
  int rank = -1;
  std::vector<int64_t> sizes;
};
bool SizesOf(PyObject* object, Sizes* result);

}  // namespace millrace::python
