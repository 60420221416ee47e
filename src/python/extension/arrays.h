// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python/extension/common.h"

// NumPy arrays and the engine's tensors.
namespace millrace::python {

// To be called once, when the module is loaded.
bool ImportNumpy();

// A tensor with the elements of an array. dtype -1: the type of the array. Large arrays that are aligned
// and contiguous are not copied: the tensor keeps them alive. Null with an exception.
TF_Tensor* TensorOfArray(PyObject* array, int dtype);

// As TensorOfArray, but never on the array's memory.
TF_Tensor* CopiedTensorOfArray(PyObject* array, int dtype);

// A tensor of a value that is fed to a placeholder of this type: arrays, numbers, strings, lists. Null with
// an exception.
TF_Tensor* TensorOfFeed(PyObject* value, int dtype);

// An array, or a NumPy scalar, with the elements of a tensor, which is taken over. Memory without other
// users is not copied. Null with an exception.
PyObject* ArrayOfTensor(TF_Tensor* tensor);
// Always an array.
PyObject* ArrayNotScalar(TF_Tensor* tensor);

// An array, or a NumPy scalar, with a copy of the elements.
PyObject* CopyOfTensor(const TF_Tensor* tensor);

// Objects whose last reference was dropped by a thread of the engine, without the GIL.
void FreeLater(PyObject* object);
void FreeWaiting();

// Whether it is an array, or a NumPy scalar, whose elements have exactly this type.
bool IsArrayOf(PyObject* value, int dtype);

// The number of a type that NumPy lacks and the extension registers: bfloat16.
void SetCustomType(int dtype, int numpy_type);

}  // namespace millrace::python
