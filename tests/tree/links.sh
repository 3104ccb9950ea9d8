#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every relative link of a Markdown file leads to a file or folder of the tree.
. "$(dirname "$0")/common.sh"

tree_files | grep '\.md$' | while IFS= read -r file; do
    grep -noE '\]\([^)# ]+' "$file" | grep -vE '\((https?|mailto):' | while IFS= read -r hit; do
        target=${hit#*](}
        [ -e "$(dirname "$file")/$target" ] || echo "$file:${hit%%:*}: \"$target\" is not there"
    done
done | report
