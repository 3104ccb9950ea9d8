#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every source that writes JSON stands in tests/tree/json.txt with its schemas; each schema is in a row, in schemas/README.md, and named by a
# test. What writes JSON is known by an object's begin in a string, the writer of JSON strings, or cJSON's printers.
. "$(dirname "$0")/common.sh"

table=tests/tree/json.txt
rows=$(mktemp)
trap 'rm -f "$rows" "$rows.names"' EXIT
grep -v '^#' "$table" >"$rows"
tests=$(tree_files | grep -E '^tests/.*\.(py|sh|c|build)$' | grep -v '^tests/tree/')
{
    tree_files | grep -E '^(bundle|compiler|loader|manifests|registry|runtime|tools)/.*\.(c|h|cpp|hpp)$' | tr '\n' '\0' |
        xargs -0 -r grep -lE '"[^"]*\{\\"|\{%c\\"|tsr_buffer_json_string\(|cJSON_Print' | grep -v '^runtime/base/buffer\.[ch]$' |
        while IFS= read -r file; do
            grep -q "^$file " "$rows" || echo "$file: writes JSON, but $table has no row for it"
        done
    while read -r file schemas; do
        [ -f "$file" ] || echo "$table: no file '$file'"
        [ -n "$schemas" ] || echo "$table: no schema of '$file'"
        for schema in $schemas; do
            [ -f "schemas/$schema.schema.json" ] || echo "$table: $file: no file schemas/$schema.schema.json"
        done
    done <"$rows"
    cut -d' ' -f2- "$rows" | tr ' ' '\n' >"$rows.names"
    tree_files | sed -n 's,^schemas/\(.*\)\.schema\.json$,\1,p' | while IFS= read -r schema; do
        grep -qx "$schema" "$rows.names" || echo "schemas/$schema.schema.json: no source of $table writes it"
        grep -q "\`$schema\.schema\.json\`" schemas/README.md || echo "schemas/README.md: no word of $schema.schema.json"
        printf '%s\n' "$tests" | tr '\n' '\0' | xargs -0 -r grep -qE "[\"'/]$schema(\\.schema\\.json|[\"'])" ||
            echo "schemas/$schema.schema.json: no test validates by it"
    done
} | report
