/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies of an entry for several sizes of its dims: configs whose copies differ in more than
 * sizes are refused.
 */
#include "manifests/anchor.h"
#include "manifests/config.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <string.h>

/* A config of two entries with one input and one output each, which a test may change. */
typedef struct pair {
    tsr_config config;
    tsr_config_entry entries[2];
    tsr_config_port inputs[2], outputs[2];
} pair;

static void make_pair(pair *p, const char *first, const char *second) {
    *p = (pair){.config = {.version_major = 1,
                           .name = "anchors",
                           .producer = "test",
                           .numerics = "portable",
                           .virtual_ranks = 1,
                           .entries = p->entries,
                           .entry_count = 2}};
    for (size_t i = 0; i < 2; i++) {
        tsr_shape shape = {.rank = 2, .dims = {1 + i, 4}};
        p->inputs[i] = (tsr_config_port){
            .name = "x", .dtype = TSR_DTYPE_F32, .shape = shape, .source = TSR_PORT_ARGUMENT};
        p->outputs[i] = p->inputs[i];
        p->outputs[i].name = "y";
        p->entries[i] = (tsr_config_entry){.name = i ? second : first,
                                           .kind = TSR_ENTRY_INFER,
                                           .inputs = &p->inputs[i],
                                           .input_count = 1,
                                           .outputs = &p->outputs[i],
                                           .output_count = 1};
    }
}

static void check(const pair *p, const char *error) {
    tsr_ctx ctx = {0};
    tsr_code code = tsr_config_verify(&ctx, &p->config, TSR_CORRUPT).code;
    cr_assert_eq(code, error ? TSR_CORRUPT : TSR_OK, "%s", ctx.error.text);
    if (error) cr_assert(strstr(ctx.error.text, error), "%s", ctx.error.text);
}

Test(anchor, copies_have_the_same_symbols) {
    static const char *const texts[][3] = {
        {"p[N=1,M=4]", "p[N=2]",
         "config: entry 'p[N=2]': expected the symbols of 'p[N=1,M=4]', another copy of 'p'"},
        {"p[N=1]", "p[S=1]", "entry 'p[S=1]': expected the symbols of 'p[N=1]'"},
        {"p[N=1]", "p[N=2,S=1]", "entry 'p[N=2,S=1]': expected the symbols of 'p[N=1]'"},
        {"p[N=1,S=1]", "p[N=1,S=2]", NULL},
        {"p[N=1]", "q[S=2]", NULL},
        {"p[N=1]", "p[S]", NULL},
    };
    for (size_t i = 0; i < TSR_COUNT(texts); i++) {
        pair p;
        make_pair(&p, texts[i][0], texts[i][1]);
        check(&p, texts[i][2]);
    }
}

#define REFUSED(change, error)                                                                     \
    do {                                                                                           \
        pair p;                                                                                    \
        make_pair(&p, "p[N=1]", "p[N=2]");                                                         \
        change;                                                                                    \
        check(&p, error);                                                                          \
    } while (0)

Test(anchor, copies_have_the_same_ports) {
    REFUSED(p.entries[1].kind = TSR_ENTRY_EVAL,
            "config: entry 'p[N=2]': kind: expected infer, as 'p[N=1]' has, got eval");
    REFUSED(p.entries[1].input_count = 0,
            "entry 'p[N=2]': inputs: expected 1, as 'p[N=1]' has, got 0");
    REFUSED(p.entries[1].output_count = 0,
            "entry 'p[N=2]': outputs: expected 1, as 'p[N=1]' has, got 0");
    REFUSED(p.inputs[1].name = "z",
            "entry 'p[N=2]': inputs[0]: expected 'x', as in 'p[N=1]', got 'z'");
    REFUSED(p.inputs[1].dtype = TSR_DTYPE_UI8,
            "entry 'p[N=2]': inputs 'x': expected f32, as in 'p[N=1]', got ui8");
    REFUSED(p.outputs[1].shape.rank = 1,
            "entry 'p[N=2]': outputs 'y': expected rank 2, as in 'p[N=1]', got 1");
    REFUSED((p.entries[1].open = (tsr_open_dim){"N", 1, 2}, p.inputs[1].dim_times = 1),
            "entry 'p[N=2]': open: expected the dim of 'p[N=1]', another copy of 'p'");
    REFUSED((p.entries[1].batch = 2, p.inputs[1].source = TSR_PORT_DATA),
            "entry 'p[N=2]': inputs 'x': expected the source argument, as in 'p[N=1]', got data");
}

static void check_list(const char *first, const char *second, const char *expected) {
    pair p;
    tsr_buffer list = {0};
    make_pair(&p, first, second);
    tsr_anchor_list_entries(&p.config, &list);
    cr_assert_str_eq(list.bytes, expected);
    tsr_buffer_finish(&list);
}

Test(anchor, copies_are_listed_once) {
    check_list("p[N=1]", "p[N=2]", "p");
    check_list("o[N=1]", "p[N=2]", "o, p");
    check_list("p", "q", "p, q");
    check_list("p[x", "p[y", "p[x, p[y"); /* names with a bracket, but without sizes */
}
