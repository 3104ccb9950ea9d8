/* SPDX-License-Identifier: Apache-2.0
 *
 * A context, a list of diagnostics and a module parsed from text, for one test at a time.
 */
#ifndef TSR_TESTS_COMPILER_FIXTURE_H
#define TSR_TESTS_COMPILER_FIXTURE_H

#include "compiler/ir/mlir.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct fixture {
    tsr_ctx ctx;
    tsr_diag_list list;
    MlirContext mlir;
    MlirModule module;
    tsr_arena arena;
} fixture;

static inline void fixture_open(fixture *f) {
    *f = (fixture){0};
    cr_assert_eq(tsr_mlir_context_create(&f->ctx, &f->list, &f->mlir).code, TSR_OK);
}

static inline tsr_result fixture_parse(fixture *f, const char *text) {
    return tsr_mlir_parse(&f->ctx, f->mlir, &f->list, text, strlen(text), "test.mlir", &f->module);
}

static inline void fixture_close(fixture *f) {
    if (!mlirModuleIsNull(f->module)) mlirModuleDestroy(f->module);
    tsr_mlir_context_destroy(f->mlir);
    tsr_diag_finish(&f->list);
    tsr_arena_finish(&f->arena);
}

#endif
