// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// Python's handler of Ctrl-C only runs between instructions of the main thread, which waits while it runs a
// step. So a signal handler here is called first: while the main thread runs a step, it wakes a thread that
// cancels the step. A handler that the program sets replaces both.
#include "python/extension/interrupt.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <thread>

#include "python/extension/common.h"

namespace millrace::python {
namespace {

struct State {
  int ends[2] = {-1, -1};
  unsigned long main_thread = 0;
  void (*old_handler)(int) = SIG_DFL;
  std::atomic<bool> active{false};
  std::mutex mu;
  // Guarded by mu.
  TF_Session* session = nullptr;
  bool interrupted = false;
};
State* state = new State();  // the thread outlives everything

void HandleInterrupt(int number) {
  const int saved = errno;
  if (state->active.load() && write(state->ends[1], "x", 1) < 0) errno = 0;
  if (state->old_handler != SIG_DFL && state->old_handler != SIG_IGN) state->old_handler(number);
  errno = saved;
}

void Watch() {
  for (;;) {
    char byte = 0;
    const ssize_t count = read(state->ends[0], &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    const std::lock_guard lock(state->mu);
    if (state->session == nullptr) continue;
    state->interrupted = true;
    Millrace_CancelSteps(state->session);
  }
}

void ForgetInChild() { state->main_thread = 0; }

bool HandlerIsDefault() {
  const Ref module(PyImport_ImportModule("signal"));
  const Ref handler(module ? PyObject_CallMethod(module.get(), "getsignal", "i", SIGINT) : nullptr);
  const Ref wanted(module ? PyObject_GetAttrString(module.get(), "default_int_handler") : nullptr);
  const bool result = handler && handler.get() == wanted.get();
  PyErr_Clear();
  return result;
}

}  // namespace

void StartInterrupts() {
  if (state->main_thread != 0 || !HandlerIsDefault()) return;
  if (pipe2(state->ends, O_CLOEXEC) < 0) return;  // steps are not interruptible, then
  fcntl(state->ends[1], F_SETFL, O_NONBLOCK);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  std::thread(Watch).detach();
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_atfork(nullptr, nullptr, ForgetInChild);
  struct sigaction action = {}, before = {};
  action.sa_handler = HandleInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, nullptr, &before);
  state->old_handler = before.sa_handler;
  sigaction(SIGINT, &action, nullptr);
  state->main_thread = PyThread_get_thread_ident();
}

InterruptibleStep::InterruptibleStep(TF_Session* session) {
  if (PyThread_get_thread_ident() != state->main_thread) return;
  const std::lock_guard lock(state->mu);
  if (state->session != nullptr) return;  // a step within a step: the outer one is cancelled
  state->session = session;
  state->interrupted = false;
  state->active.store(true);
  active_ = true;
}

InterruptibleStep::~InterruptibleStep() {
  if (!active_) return;
  state->active.store(false);
  const std::lock_guard lock(state->mu);
  state->session = nullptr;
}

bool InterruptibleStep::interrupted() const {
  if (!active_) return false;
  const std::lock_guard lock(state->mu);
  return state->interrupted;
}

}  // namespace millrace::python
