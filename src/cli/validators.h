// SPDX-FileCopyrightText: The Millrace Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace millrace::cli {

// Numbers of the command line. CLI11's own checks print the limits of double with all their digits.
CLI::Validator NotNegative();
CLI::Validator Positive();
CLI::Validator Between(double low, double high);

// NAME=VALUE, with a name.
CLI::Validator Assignment();

}  // namespace millrace::cli
