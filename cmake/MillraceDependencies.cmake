# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Third-party libraries, all from Debian packages (tools/packages.txt). Their headers are SYSTEM: no warnings from them.
set(CMAKE_THREAD_PREFER_PTHREAD TRUE)
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(ZLIB REQUIRED)
if(MILLRACE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(MILLRACE_BUILD_BENCH)
  find_package(benchmark QUIET)
endif()
find_path(DNNL_INCLUDE_DIR dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(millrace_dnnl INTERFACE)
target_include_directories(millrace_dnnl SYSTEM INTERFACE "${DNNL_INCLUDE_DIR}")
target_link_libraries(millrace_dnnl INTERFACE "${DNNL_LIBRARY}")
