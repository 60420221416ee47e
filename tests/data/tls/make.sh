#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Millrace Authors
# SPDX-License-Identifier: Apache-2.0
# Makes the keys and certificates of src/rpc/security_test.cc, valid for a hundred years. They protect nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
authority() { # name
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj "/CN=Test authority $1" \
    -keyout "$1.key" -out "$1.pem"
}
certificate() { # name, authority, alternative names
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
  openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 36500 -out "$1.pem" \
    -extfile <(printf 'subjectAltName=%s\n' "$3")
  rm "$1.csr"
}
authority ca
authority other_ca
certificate task ca DNS:localhost,IP:127.0.0.1
certificate elsewhere ca DNS:elsewhere.example
certificate stranger other_ca DNS:localhost,IP:127.0.0.1
rm -f ./*.srl ca.key other_ca.key
