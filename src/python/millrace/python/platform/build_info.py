# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
"""Properties of the build."""

is_rocm_build = False
is_cuda_build = False
cuda_build_info: dict[str, str] = {}
build_info = {"is_cuda_build": False, "is_rocm_build": False}
