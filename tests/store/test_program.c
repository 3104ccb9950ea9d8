/* SPDX-License-Identifier: Apache-2.0
 *
 * Which states a store resumes from: those of its program.
 */
#include "runtime/base/array.h"
#include "tests/store/fixture.h"

/* A state is matched by the program where both sides know it, and otherwise by the bundle. */
typedef struct owner {
    const char *bundle, *program, *lr; /* program NULL: not known */
} owner;

static tsr_result open_of(bench *b, const owner *of, const char *advice) {
    tsr_store_options options = model_options("/s");
    const tsr_hyperparameter list[] = {{"lr", of->lr, false}};
    tsr_identity identity = {0};
    if (of->program)
        identity = (tsr_identity){tsr_hash(of->program, strlen(of->program)), of->lr != NULL, list};
    options.bundle_hash = tsr_hash(of->bundle, strlen(of->bundle));
    options.identity = &identity;
    options.advice = advice;
    b->ctx.log_level = TSR_LOG_NOTICE;
    b->log = (model_log){0};
    return tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery);
}

static void save_of(bench *b, const owner *of) {
    cr_assert_eq(open_of(b, of, NULL).code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code, TSR_OK);
    must_save(b, 1, 1);
    close_store(b);
}

Test(store_program, matched_by_program_or_bundle) {
    static const struct {
        owner wrote, opens;
        const char *refused; /* part of the message; NULL: it continues */
        const char *notice;  /* NULL: none */
    } cases[] = {
        {{"a", "p", "0.1"}, {"b", "p", "0.1"}, NULL, NULL},
        {{"a", "p", "0.1"}, {"b", "p", "0.2"}, NULL, "with lr 0.1; this run continues with 0.2"},
        {{"a", "p", NULL}, {"b", "p", "0.2"}, NULL, "with lr none; this run continues with 0.2"},
        {{"a", "p", "0.1"}, {"a", "p", NULL}, NULL, "with lr 0.1; this run continues with none"},
        {{"a", "p", NULL}, {"a", "q", NULL}, "is of the program", NULL},
        {{"a", NULL, NULL}, {"a", "p", "0.1"}, NULL, NULL},
        {{"a", NULL, NULL}, {"b", "p", "0.1"}, "belongs to bundle", NULL},
        {{"a", "p", "0.1"}, {"a", NULL, NULL}, NULL, NULL},
        {{"a", "p", "0.1"}, {"b", NULL, NULL}, "belongs to bundle", NULL},
        {{"a", NULL, NULL}, {"b", NULL, NULL}, "belongs to bundle", NULL},
    };
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        bench *b = begin();
        save_of(b, &cases[i].wrote);
        tsr_result result = open_of(b, &cases[i].opens, "; do this");
        if (cases[i].refused) {
            must_fail(b, result, TSR_MISMATCH, cases[i].refused);
            must_fail(b, result, TSR_MISMATCH, "; do this");
            cr_assert_null(b->store);
        } else {
            cr_assert_eq(result.code, TSR_OK, "case %zu: %s", i, b->ctx.error.text);
            cr_assert_eq(b->log.notices, cases[i].notice != NULL, "case %zu: %s", i,
                         b->log.last_notice);
            must_load(b, 1);
        }
        if (cases[i].notice)
            cr_assert(strstr(b->log.last_notice, cases[i].notice), "%s", b->log.last_notice);
        end(b);
    }
}

Test(store_program, a_program_that_no_token_can_hold) {
    bench *b = begin();
    tsr_store_options options = model_options("/s");
    const tsr_hyperparameter list[] = {{"lr", "0.1", false}, {"eps", "1e-08", false}};
    tsr_identity identity = {tsr_hash("p", 1), 2, list};
    options.identity = &identity;
    must_fail(b, tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery),
              TSR_USAGE, "not in the order of their names");
    end(b);
}
