#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# linkage.sh ROOT BINARY...: each links only what the runtime may know: neither LLVM nor MLIR, nor
# the C++ library, nor MPI. (The sanitizers' libraries are their own affair.)
tree=$1
shift
binaries=$(realpath -e "$@") || exit 1
set -- "$tree"
. "$(dirname "$0")/common.sh"

allowed='libcrypto libcjson libzstd libz libm libc libdl libpthread ld-linux-x86-64 linux-vdso libgcc_s'
sanitizers='libasan libubsan'
# shellcheck disable=SC2086 # file names of a build folder have no blanks
if ldd $binaries | grep -q libasan; then sanitizers="$sanitizers libstdc++"; fi
names_of() { ldd "$1" | awk '$1 !~ /:$/ { sub(/.*\//, "", $1); sub(/\.so.*/, "", $1); print $1 }'; }
for binary in $binaries; do
    names_of "$binary" | while IFS= read -r library; do
        case " $allowed $sanitizers libtessera " in
        *" $library "*) ;;
        *) echo "${binary##*/}: links $library; allowed are $allowed" ;;
        esac
    done
done | report
