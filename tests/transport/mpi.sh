#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: mpi.sh PROGRAM MODULE
#
# The conformance tests as MPI jobs of several sizes, and a job whose ranks disagree.
set -eu
program=$1 module=$2
run() {
    # Allows more ranks than cores, and running as root.
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        mpirun --oversubscribe -n "$@"
}
for ranks in 1 2 3 5; do run "$ranks" "$program" "$module"; done
if told=$(run 3 "$program" "$module" --desync 2>&1); then
    echo "a job whose ranks disagreed ended well: $told"
    exit 1
fi
case $told in
*"ranks do different things at once"*"all_gather 1"*) ;;
*)
    echo "not told what the ranks did: $told"
    exit 1
    ;;
esac
