// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The stack where an operation was made: a few words per call, translated to file names and lines on demand.
#include "python/extension/objects.h"

#include <frameobject.h>

#include <algorithm>

namespace millrace::python {
namespace {

constexpr size_t kMaxCalls = 200;

struct Call {
  PyCodeObject* code;
  int instruction;
};

struct StackOfCalls {
  size_t count;
  Call calls[1];  // innermost first
};

}  // namespace

void* CaptureStack() {
  Call calls[kMaxCalls];
  size_t count = 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr && count < kMaxCalls) {
    calls[count++] = {PyFrame_GetCode(frame), PyFrame_GetLasti(frame)};
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  auto* stack = static_cast<StackOfCalls*>(PyMem_Malloc(sizeof(StackOfCalls) + count * sizeof(Call)));
  if (stack == nullptr) {
    for (size_t i = 0; i < count; ++i) Py_DECREF(calls[i].code);
    return nullptr;
  }
  stack->count = count;
  std::copy_n(calls, count, stack->calls);
  return stack;
}

void FreeStack(void* stack) {
  if (stack == nullptr) return;
  auto* calls = static_cast<StackOfCalls*>(stack);
  for (size_t i = 0; i < calls->count; ++i) Py_DECREF(calls->calls[i].code);
  PyMem_Free(stack);
}

PyObject* DescribeStack(void* stack) {
  auto* calls = static_cast<StackOfCalls*>(stack);
  const size_t count = calls == nullptr ? 0 : calls->count;
  Ref list(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list) return nullptr;
  for (size_t i = 0; i < count; ++i) {
    const Call& call = calls->calls[count - 1 - i];
    const int line = PyCode_Addr2Line(call.code, call.instruction);
    PyObject* entry = Py_BuildValue("(OiO)", call.code->co_filename, line, call.code->co_name);
    if (entry == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), entry);
  }
  return list.release();
}

}  // namespace millrace::python
