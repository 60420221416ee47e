// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#include "io/image/jpeg_session.h"

namespace millrace::io {

jpeg_error_mgr* JpegErrors::Manager() {
  jpeg_error_mgr* manager = jpeg_std_error(&state_.manager);
  manager->error_exit = Leave;
  manager->output_message = Ignore;
  return manager;
}

void JpegErrors::Leave(j_common_ptr info) {
  auto* state = reinterpret_cast<State*>(info->err);
  info->err->format_message(info, state->message);
  longjmp(state->jump, 1);
}

void JpegErrors::Ignore(j_common_ptr) {}

}  // namespace millrace::io
