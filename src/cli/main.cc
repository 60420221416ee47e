// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
//
// The program `millrace`: a command for each thing that can be done with a file.
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "cli/input_env.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(nullptr);  // the program itself reports errors of messages
  std::signal(SIGXFSZ, SIG_IGN);             // a file that may not grow further is an error of the write
  std::ios::sync_with_stdio(false);
  millrace::cli::InputEnv env(millrace::Env::Posix());
  return millrace::cli::RunProgram(
      {argv + std::min(argc, 1), argv + argc},
      {.env = env, .out = std::cout, .err = std::cerr, .terminal = isatty(2) == 1});
}
