#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The compiler tells ops apart by their numbers (compiler/ir/op.h): no function compares the name of an op with a text, and only
# compiler/ir/mlir.c asks MLIR for names.
. "$(dirname "$0")/common.sh"

tree_files | grep -E '^compiler/.*\.(c|h|cpp|hpp)$' | tr '\n' '\0' | xargs -0 -r awk '
function forget(   i) { for (i in names) delete names[i]; statement = "" }
function note_names(text,   at) {
    while (match(text, /[A-Za-z_][A-Za-z0-9_]* = tsr_op_(name|text)\(/)) {
        at = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        sub(/ = .*/, "", at)
        names[at] = 1
    }
}
function compares(text, operand) { # a call with the operand in one of its arguments
    return text ~ ("(strn?cmp|strn?casecmp|memcmp|strstr|tsr_ref_is)[(](([^()]|[(][^()]*[)])*[^A-Za-z0-9_.>()])?" operand)
}
function check(   name) {
    if (FILENAME != "compiler/ir/mlir.c" && statement ~ /mlirOperationGetName[(]/)
        print FILENAME ":" FNR ": asks for an op by mlirOperationGetName; tsr_op_of has its number, tsr_op_name the text for messages"
    if (compares(statement, "tsr_op_(name|text)[(]"))
        print FILENAME ":" FNR ": compares the name of an op; tsr_op_is compares its number"
    for (name in names)
        if (compares(statement, name "[^A-Za-z0-9_(]"))
            print FILENAME ":" FNR ": compares \"" name "\", the name of an op; tsr_op_is compares its number"
}
FNR == 1 || /^}/ { forget() }
{ statement = statement " " $0 }
/[;{}]/ { note_names(statement); check(); statement = "" }' | report
