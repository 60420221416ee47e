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
find_package(ICU REQUIRED COMPONENTS uc)
# Debian's gRPC has no CMake package.
find_path(GRPC_INCLUDE grpcpp/grpcpp.h REQUIRED)
find_library(GRPCPP_LIBRARY grpc++ REQUIRED)
find_library(GRPC_LIBRARY grpc REQUIRED)
find_library(GPR_LIBRARY gpr REQUIRED)
find_library(ABSL_SYNCHRONIZATION_LIBRARY absl_synchronization REQUIRED)
add_library(millrace_grpc INTERFACE)
target_link_libraries(millrace_grpc INTERFACE
  "${GRPCPP_LIBRARY}" "${GRPC_LIBRARY}" "${GPR_LIBRARY}" "${ABSL_SYNCHRONIZATION_LIBRARY}")
target_include_directories(millrace_grpc SYSTEM INTERFACE "${GRPC_INCLUDE}")
if(MILLRACE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(MILLRACE_BUILD_BENCH)
  find_package(benchmark QUIET)
endif()
