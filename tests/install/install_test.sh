#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a prefix, moves the prefix, and uses it as other projects would: by find_package, and by pkg-config with
# a bare compiler. Usage: install_test.sh BUILD_DIR COMPILER BUILD_TYPE FLAGS
set -euo pipefail
build=$(cd "$1" && pwd) compiler=$2 build_type=$3 flags=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$build/install_test
prefix=$work/prefix

rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# Nothing installed may remember where it was installed first, or where it was built.
mv "$work/first" "$prefix"
if grep -rIl -e "$work/first" -e "$build/lib" -e "$(dirname "$(dirname "$here")")/src" "$prefix"; then
  echo "install_test: these files name paths of the build" >&2
  exit 1
fi

echo "== each public header alone, with warnings as errors"
# Those of ops are made by one program and include the same; ops.h has all of them.
for header in "$prefix"/include/millrace/{,c/}*.h "$prefix"/include/millrace/ops/array.h; do
  name=${header#"$prefix"/include/}
  # Twice, since a header may be included twice.
  printf '#include "%s"\n#include "%s"\n' "$name" "$name" |
    "$compiler" -std=c++20 -Wall -Wextra -Wshadow -Werror -fsyntax-only -I "$prefix/include" -x c++ -
done

echo "== find_package"
cmake -G Ninja -S "$here/outside" -B "$work/outside" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_BUILD_TYPE="$build_type" >"$work/configure.log"
cmake --build "$work/outside" >"$work/build.log" || {
  cat "$work/build.log" >&2
  exit 1
}
if [[ -e $prefix/lib/libmillrace.a ]]; then
  "$work/outside/outside"  # it does not export the C API, which a library of ops needs
else
  "$work/outside/outside" "$work/outside/libuser_op.so"
fi
"$prefix/bin/millrace" ops UserScale --op_library "$work/outside/libuser_op.so" | grep -q "gradient: yes"
if "$prefix/bin/millrace" ops UserScale --op_library "$work/outside/no_such.so" 2>"$work/refused"; then exit 1; fi
grep -q "cannot open shared object file" "$work/refused"
(cd "$work/outside" && "$prefix/bin/millrace" ops UserScale --op_library libuser_op.so >/dev/null)

echo "== pkg-config"
pc_dir=$(dirname "$(find "$prefix" -name millrace.pc)")
export PKG_CONFIG_PATH=$pc_dir
pkg-config --exact-version="$(sed -n 's/^Version: //p' "$pc_dir/millrace.pc")" millrace
# Flags are words, so not quoted.
"$compiler" $flags $(pkg-config --cflags millrace) "$here/outside/outside.cc" -o "$work/by_pkg_config" \
  $(pkg-config --libs millrace) -Wl,-rpath,"$(pkg-config --variable=libdir millrace)"
"$work/by_pkg_config"

echo "== the C API, as a program linked to libtensorflow sees it"
for header in "$prefix"/include/tensorflow/c/*.h; do
  name=tensorflow/c/${header##*/}
  printf '#include "%s"\n#include "%s"\n' "$name" "$name" >"$work/header.c"
  "${CC:-cc}" -std=c11 -Wall -Wextra -Wstrict-prototypes -Werror -fsyntax-only -I "$prefix/include" "$work/header.c"
  "$compiler" -std=c++11 -Wall -Wextra -Werror -fsyntax-only -I "$prefix/include" -x c++ "$work/header.c"
done
pkg-config --exact-version=1.15.5 tensorflow
"${CC:-cc}" $flags $(pkg-config --cflags tensorflow) "$here/outside/outside.c" -o "$work/by_tensorflow_pc" \
  $(pkg-config --libs tensorflow) -Wl,-rpath,"$(pkg-config --variable=libdir tensorflow)"
readelf -d "$work/by_tensorflow_pc" | grep -q 'NEEDED.*\[libtensorflow\.so\.1\]'
"$work/by_tensorflow_pc"

python_dir=$prefix/lib/python3/dist-packages
if [[ -d $python_dir/millrace ]]; then
  echo "== the Python package, installed and as a wheel"
  program='
import sys
import millrace as tf
with tf.Session() as session:
    x = tf.placeholder(tf.float32, [2])
    assert session.run(tf.reduce_sum(x * 2.0), {x: [1.0, 2.0]}) == 6.0
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libtensorflow" in line or "libmillrace" in line}
assert libraries and all(path.startswith(sys.argv[1]) for path in libraries), libraries'
  (cd / && env PYTHONPATH="$python_dir" /usr/bin/python3 -c "$program" "$prefix")
  cmake --build "$build" --target python_wheel >"$work/wheel.log" || {
    cat "$work/wheel.log" >&2
    exit 1
  }
  /usr/bin/python3 -m pip install -q --no-index --no-deps --target "$work/wheel" "$build"/dist/*.whl
  (cd / && env PYTHONPATH="$work/wheel" /usr/bin/python3 -c "${program/import millrace as tf/import tensorflow as tf}" "$work/wheel")
fi
