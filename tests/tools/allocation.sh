#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: allocation.sh TEST_ALLOCATION BUNDLE ROOT
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$2" "$3/examples/digits" "$work"
