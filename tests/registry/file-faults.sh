#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every file operation of a pull fails once: the result is an error with its reason and no file, or
# a complete file.
. "$(dirname "$0")/common.sh"

check "make" "$MAKE" make a.tsb 1 1 0 1
check "sign" "$SAMPLE" keygen key.pem key.pub
check "sign" "$SAMPLE" sign a.tsb key.pem
python_server registry registry.py
R=127.0.0.1:$PORT/a
check "push" "$AOT" push a.tsb "$R"
expect "every file operation" 0 '^[1-9][0-9]+ operations failed' "$MAKE" faults "$R" out.tsb
cp .out said
check "leaves no bundle" test ! -e out.tsb
cat said
finish
