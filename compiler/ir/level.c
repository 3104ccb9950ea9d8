/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/ir/level.h"

#include <string.h>

/* Returns the position where the text names the function, or NULL. */
static const char *find_name(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; length && (at = strstr(at, name)) != NULL; at++) {
        char end = at[length];
        if (at > text && at[-1] == '\'' && end == '\'') return at;
        if (at > text && at[-1] == '@' && (end == ' ' || end == ':' || !end)) return at;
    }
    return NULL;
}

typedef struct search {
    const char *text, *first; /* first: the position where the text names the op */
    MlirLocation location;
} search;

static MlirWalkResult visit(MlirOperation op, void *user) {
    search *of = user;
    const char *at = find_name(of->text, tsr_op_symbol(op));
    if (!at || (of->first && of->first <= at)) return MlirWalkResultAdvance;
    of->first = at;
    of->location = mlirOperationGetLocation(op);
    return MlirWalkResultAdvance;
}

tsr_result tsr_level_refuse(tsr_ctx *ctx, MlirModule module, const tsr_diag_list *diags,
                            tsr_result result) {
    bool is_ours = result.code == TSR_INTERNAL || result.code == TSR_COMPILE;
    if (!is_ours || mlirModuleIsNull(module)) return result;
    if (!diags->error_count) {
        MlirOperation self = mlirModuleGetOperation(module);
        search of = {.text = ctx->error.text, .location = mlirOperationGetLocation(self)};
        mlirOperationWalk(self, visit, &of, MlirWalkPreOrder);
        tsr_diag_error(of.location, TSR_DIAG_LEVEL, "%s", ctx->error.text);
    }
    ctx->error.code = TSR_COMPILE;
    return (tsr_result){TSR_COMPILE};
}
