/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/tile/signature.h"

#include "compiler/graph/graph.h"
#include "compiler/ir/attributes.h"
#include "compiler/ir/op_rows.h"
#include "compiler/tile/attributes.h"
#include "runtime/base/hash/hash.h"

#include <string.h>

enum { HASH_DIGITS = 16, OPS_MAX = 6 /* named; all are in the hash */ };

static void update(MlirStringRef text, void *hasher) {
    tsr_hasher_update(hasher, text.data, text.length);
}

/* The digest of the group's text without its name and without sizes that somebody gave it. */
static tsr_digest digest(MlirOperation group) {
    MlirContext context = mlirOperationGetContext(group);
    MlirOperation clone = mlirOperationClone(group);
    tsr_hasher hasher;
    tsr_hasher_init(&hasher);
    tsr_op_set(clone, "sym_name", tsr_attr_make_string(context, "kernel"));
    mlirOperationRemoveAttributeByName(clone, tsr_ref(TSR_TILE_NAME));
    mlirOperationPrint(clone, update, &hasher);
    mlirOperationDestroy(clone);
    return tsr_hasher_finish(&hasher);
}

/* The mnemonics of the first ops; the last one returns the results. */
static void append_ops(MlirBlock body, tsr_buffer *out) {
    MlirOperation end = mlirBlockGetTerminator(body);
    MlirOperation op = mlirBlockGetFirstOperation(body);
    for (size_t i = 0; i < OPS_MAX && !mlirOperationEqual(op, end); i++) {
        const char *text = tsr_op_name(op), *dot = strchr(text, '.');
        tsr_buffer_printf(out, "%s%s", i ? "_" : "", dot ? dot + 1 : text);
        op = mlirOperationGetNextInBlock(op);
    }
}

static void append_type(MlirValue value, bool is_first, tsr_buffer *out) {
    char text[TSR_TYPE_TEXT_MAX];
    tsr_type type = {0};
    bool known = tsr_value_type(value, &type);
    tsr_buffer_printf(out, "%s%s", is_first ? "" : ",",
                      known ? tsr_type_format(type.dtype, &type.shape, text) : "?");
}

void tsr_signature_append(MlirOperation group, tsr_buffer *out) {
    MlirBlock body = tsr_op_body(group);
    MlirOperation end = mlirBlockGetTerminator(body);
    tsr_digest hash = digest(group);
    char hex[TSR_DIGEST_HEX + 1];
    append_ops(body, out);
    tsr_buffer_text(out, " ");
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++)
        append_type(mlirBlockGetArgument(body, i), i == 0, out);
    tsr_buffer_text(out, "->");
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++)
        append_type(mlirOperationGetOperand(end, i), i == 0, out);
    tsr_digest_format(&hash, hex);
    tsr_buffer_printf(out, " %.*s", HASH_DIGITS, hex);
}
