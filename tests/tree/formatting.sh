#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every C and C++ file is as clang-format 14 writes it; every text file ends in a newline and has no
# blanks at the end of a line.
. "$(dirname "$0")/common.sh"

if ! command -v clang-format >/dev/null; then
    echo 'clang-format is not installed'
    exit 77
fi
case $(clang-format --version) in
*'version 14.'*) ;;
*)
    echo "the tree is formatted by clang-format 14; here is $(clang-format --version)"
    exit 77
    ;;
esac
text='\.(c|h|cpp|hpp|def|td|py|sh|md|build|txt|mlir)$'
{
    tree_files | grep -E '\.(c|h|cpp|hpp)$' | xargs -r clang-format --dry-run -Werror 2>&1 |
        sed -n 's/:[0-9]*:[0-9]*: error: .*/: not clang-formatted/p' | uniq
    tree_files | grep -E "$text" |
        xargs -r grep -nIE '[[:blank:]]+$' -- /dev/null | sed 's/$/<- blanks at the end/'
    tree_files | grep -E "$text" | xargs -r perl -e 'for (@ARGV) {
        open my $file, "<", $_ or die "$_: $!\n";
        next unless seek $file, -1, 2;
        read $file, my $last, 1;
        print "$_: does not end in a newline\n" if $last ne "\n";
    }'
} | report
