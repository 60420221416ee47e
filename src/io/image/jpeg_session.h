// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
// Calls of libjpeg that end in a Status.
#pragma once

#include <csetjmp>
#include <cstdio>
// After <cstdio>, which it needs.
#include <jpeglib.h>

#include <jerror.h>

#include "millrace/status.h"

namespace millrace::io {

// libjpeg reports an error by a longjmp, past the frames in between, to Guarded(). The guarded function must
// not have objects with destructors.
class JpegErrors {
 public:
  // For the `err` member of a libjpeg object. The JpegErrors must outlive it.
  jpeg_error_mgr* Manager();

  // False when `fn` was left by an error.
  template <typename Fn>
  [[nodiscard]] bool Guarded(Fn&& fn) {
    if (setjmp(state_.jump) != 0) return false;
    fn();
    return true;
  }
  // The error message.
  const char* message() const { return state_.message; }

 private:
  struct State {
    jpeg_error_mgr manager;  // first, so that its address is the state's
    jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
  };
  static void Leave(j_common_ptr info);
  static void Ignore(j_common_ptr info);

  State state_{};
};

}  // namespace millrace::io
