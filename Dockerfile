# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Builds from Debian's packages alone, and keeps what a user needs. No tests and benchmarks, so the packages for developing are not installed:
#   docker build -t millrace . && docker run --rm -v "$PWD:/work" -w /work millrace millrace show model.pb
#   docker run --rm -v "$PWD:/work" -w /work millrace python3 -m millrace program.py
FROM debian:bookworm AS build
COPY tools/packages.txt tools/setup.sh /src/tools/
RUN apt-get update && apt-get install -y --no-install-recommends dpkg-dev && /src/tools/setup.sh
COPY . /src
WORKDIR /src
RUN cmake --preset release -DMILLRACE_BUILD_TESTS=OFF -DMILLRACE_BUILD_BENCH=OFF -DMILLRACE_BUILD_EXAMPLES=OFF \
 && cmake --build build/release && cd build/release && cpack && mv millrace_*.deb /millrace.deb

FROM debian:bookworm-slim
COPY --from=build /millrace.deb /tmp/
RUN apt-get update && apt-get install -y /tmp/millrace.deb && rm -rf /tmp/millrace.deb /var/lib/apt/lists/*
USER nobody
CMD ["millrace", "--help"]
