#!/bin/bash
# Packs an unpacked suite into golden.tar.xz, or NAME.tar.xz; the same files give the same bytes.
set -euo pipefail
suite=$(cd "${1:?usage: pack.sh DIR [NAME]}" && pwd)
cd "$(dirname "$0")"
tar --sort=name --mtime='2020-01-01 00:00Z' --owner=0 --group=0 --numeric-owner \
  --mode='a=r,u+w,a+X' --format=ustar -C "$suite" -cf - manifest.jsonl data |
  xz -9e -T1 > "${2:-golden}.tar.xz"
