/* SPDX-License-Identifier: Apache-2.0
 *
 * Outline: MLIR prints `__elided__` for every large constant. The constants are collected in the
 * order of printing, and each mark is replaced by the digest of its constant. If the program's own
 * text contains such marks, everything is printed.
 */
#include "compiler/ir/text/elide.h"

#include "compiler/process/guard.h"
#include "runtime/base/arena.h"
#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = "dense_resource<__elided__>";

static void append(MlirStringRef text, void *user) {
    tsr_buffer_append(user, text.data, text.length);
}

static void print(MlirModule module, bool elides, tsr_buffer *out) {
    MlirOpPrintingFlags flags = mlirOpPrintingFlagsCreate();
    mlirOpPrintingFlagsEnableDebugInfo(flags, true, false);
    if (elides) mlirOpPrintingFlagsElideLargeElementsAttrs(flags, TSR_ELIDE_ELEMENTS);
    mlirOperationPrintWithFlags(mlirModuleGetOperation(module), flags, append, out);
    mlirOpPrintingFlagsDestroy(flags);
    tsr_buffer_text(out, "\n");
}

void tsr_print_whole(MlirModule module, tsr_buffer *out) { print(module, false, out); }

typedef struct collected {
    tsr_digest *digests; /* owned */
    size_t count, capacity;
    bool all; /* every constant has a type that can be stored */
} collected;

static void collect(collected *found, MlirAttribute attr) {
    tsr_arena scratch = {0};
    tsr_type type;
    void *data = NULL;
    uint64_t size = 0;
    if (found->count == found->capacity) {
        found->digests = tsr_grow(found->digests, &found->capacity, 16, sizeof *found->digests);
        TSR_NEED(found->digests);
    }
    bool fits = tsr_attr_elements(attr, &scratch, &type, &data) &&
                tsr_shape_size(&type.shape, type.dtype, &size);
    if (fits) found->digests[found->count++] = tsr_hash(data, (size_t)size);
    found->all = found->all && fits;
    tsr_arena_finish(&scratch);
}

static MlirWalkResult visit(MlirOperation op, void *user) {
    intptr_t count = mlirOperationGetNumAttributes(op);
    for (intptr_t i = 0; i < count; i++) {
        MlirAttribute attr = mlirOperationGetAttribute(op, i).attribute;
        bool dense =
            mlirAttributeIsADenseIntElements(attr) || mlirAttributeIsADenseFPElements(attr);
        if (dense && !mlirDenseElementsAttrIsSplat(attr) &&
            mlirElementsAttrGetNumElements(attr) > TSR_ELIDE_ELEMENTS)
            collect(user, attr);
    }
    return MlirWalkResultAdvance;
}

/* Replaces each mark by the digest of its constant; false if there are more marks than constants,
 * or fewer. */
static bool replace(const tsr_buffer *text, const collected *found, tsr_buffer *out) {
    const char *at = text->bytes, *end = text->bytes + text->size_bytes, *next;
    size_t used = 0;
    while ((next = memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        char hex[TSR_DIGEST_HEX + 1];
        if (used == found->count) return false;
        tsr_digest_format(&found->digests[used++], hex);
        tsr_buffer_append(out, at, (size_t)(next - at));
        tsr_buffer_printf(out, "dense_resource<sha256_%s>", hex);
        at = next + sizeof mark - 1;
    }
    tsr_buffer_append(out, at, (size_t)(end - at));
    return used == found->count;
}

void tsr_print_referring(MlirModule module, tsr_buffer *out) {
    tsr_buffer text = {0}, referring = {0};
    collected found = {.all = true};
    mlirOperationWalk(mlirModuleGetOperation(module), visit, &found, MlirWalkPreOrder);
    if (found.count) print(module, true, &text);
    bool replaced = found.all && found.count && !text.failed && replace(&text, &found, &referring);
    tsr_buffer_finish(&text);
    free(found.digests);
    if (replaced) {
        tsr_buffer_finish(out);
        *out = referring;
        return;
    }
    tsr_buffer_finish(&referring);
    print(module, false, out);
}
