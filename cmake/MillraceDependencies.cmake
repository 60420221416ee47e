# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from Debian packages (tools/packages.txt). Their headers are SYSTEM: no warnings from them.
set(CMAKE_THREAD_PREFER_PTHREAD TRUE)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_path(EIGEN_INCLUDE Eigen/Core PATH_SUFFIXES eigen3 REQUIRED)
find_path(RE2_INCLUDE re2/re2.h REQUIRED)
find_library(RE2_LIBRARY re2 REQUIRED)
if(MILLRACE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(MILLRACE_BUILD_BENCH)
  find_package(benchmark QUIET)
endif()
