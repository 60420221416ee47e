// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The end of the interpreter. CPython then ends threads that request the GIL by unwinding their stacks, which
// crashes C++ programs; here such threads sleep until the process ends.
#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "python/extension/module.h"

namespace millrace::python {
namespace {

std::atomic<bool> ending = false;
std::atomic<int> waiting = 0;  // threads that wait for the interpreter's lock in this file
pthread_t ending_thread;

bool MustStayOut() { return ending.load() && pthread_equal(pthread_self(), ending_thread) == 0; }

// Called by atexit: from now on no other thread returns. Threads that wait for the lock get it first.
PyObject* EndThreads(PyObject* /*module*/, PyObject* /*unused*/) {
  ending_thread = pthread_self();
  ending.store(true);
  PyThreadState* state = PyEval_SaveThread();
  constexpr int kAttempts = 2000;
  for (int i = 0; i < kAttempts && waiting.load() > 0; ++i) usleep(1000);
  PyEval_RestoreThread(state);
  Py_RETURN_NONE;
}

PyMethodDef end_threads = {"_end_threads", EndThreads, METH_NOARGS, nullptr};

}  // namespace

void TakeGil(PyThreadState* state) {
  waiting.fetch_add(1);
  if (MustStayOut()) {
    waiting.fetch_sub(1);
    while (true) pause();
  }
  PyEval_RestoreThread(state);
  waiting.fetch_sub(1);
}

bool EnterPython(PyGILState_STATE* state) {
  waiting.fetch_add(1);
  const bool may = Py_IsInitialized() != 0 && !_Py_IsFinalizing() && !MustStayOut();
  if (may) *state = PyGILState_Ensure();
  waiting.fetch_sub(1);
  return may;
}

bool StartShutdown() {
  const Ref function(PyCFunction_New(&end_threads, nullptr));
  const Ref module(function ? PyImport_ImportModule("atexit") : nullptr);
  const Ref done(module ? PyObject_CallMethod(module.get(), "register", "O", function.get()) : nullptr);
  return static_cast<bool>(done);
}

}  // namespace millrace::python
