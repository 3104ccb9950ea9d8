/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts that a written module carries for the bundle.
 */
#include "compiler/target/host/host.h"
#include "runtime/base/array.h"

#include <string.h>

static const char *const names[] = {
    [TSR_DOCUMENT_NAME] = "name",
    [TSR_DOCUMENT_GRAPH] = "graph",
    [TSR_DOCUMENT_SCHEDULE] = "schedule",
    [TSR_DOCUMENT_CONFIG] = "config",
    [TSR_DOCUMENT_DEPLOYMENT] = "deployment",
    [TSR_DOCUMENT_SEAL] = "seal",
};
static_assert(TSR_COUNT(names) == TSR_DOCUMENT_COUNT, "one name per document");

const char *tsr_document_name(tsr_document document) {
    TSR_ASSERT(document < TSR_DOCUMENT_COUNT);
    return names[document];
}

void tsr_documents_add(MlirModule module, const char *const texts[static TSR_DOCUMENT_COUNT]) {
    MlirContext context = mlirModuleGetContext(module);
    tsr_builder at = tsr_builder_at_end(mlirModuleGetBody(module), mlirLocationUnknownGet(context));
    for (size_t i = 0; i < TSR_DOCUMENT_COUNT; i++) {
        if (!texts[i]) continue;
        const tsr_attr attrs[] = {{"kind", tsr_attr_make_string(context, names[i])},
                                  {"text", tsr_attr_make_string(context, texts[i])}};
        tsr_build(&at, &(tsr_op_desc){
                           .name = "tessera_target.document", .attr_count = 2, .attrs = attrs});
    }
}

void tsr_documents_take(MlirModule module, const char *out_texts[static TSR_DOCUMENT_COUNT]) {
    for (size_t i = 0; i < TSR_DOCUMENT_COUNT; i++) out_texts[i] = NULL;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) {
        if (!tsr_op_is(op, TSR_TARGET_DOCUMENT)) continue;
        for (size_t i = 0; i < TSR_DOCUMENT_COUNT; i++)
            if (strcmp(tsr_op_string(op, "kind"), names[i]) == 0)
                out_texts[i] = tsr_op_string(op, "text");
        mlirOperationDestroy(op);
    }
}
