/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of other libraries in compiler/diag/aliases.def: each is unknown to dialect `tessera`,
 * maps to an existing name, and is the name that the compiler's diagnostic proposes.
 */
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "tests/compiler/fixture.h"

typedef struct row {
    const char *name, *right, *note;
} row;

static const row ops[] = {
#define X(NAME, OP, NOTE) {NAME, OP, NOTE},
#define A(NAME, ATTRIBUTE, NOTE)
#define T(NAME, TYPE)
#include "compiler/diag/aliases.def"
#undef X
#undef A
#undef T
};

static const row attributes[] = {
#define X(NAME, OP, NOTE)
#define A(NAME, ATTRIBUTE, NOTE) {NAME, ATTRIBUTE, NOTE},
#define T(NAME, TYPE)
#include "compiler/diag/aliases.def"
#undef X
#undef A
#undef T
};

static const row types[] = {
#define X(NAME, OP, NOTE)
#define A(NAME, ATTRIBUTE, NOTE)
#define T(NAME, TYPE) {NAME, TYPE, ""},
#include "compiler/diag/aliases.def"
#undef X
#undef A
#undef T
};

typedef struct search {
    char name[128];
    bool found;
} search;

static void compare(MlirStringRef name, void *user) {
    search *s = user;
    if (strcmp(name.data, s->name) == 0) s->found = true;
}

static bool is_op(fixture *f, const char *name) {
    search s = {.found = false};
    snprintf(s.name, sizeof s.name, "tessera.%s", name);
    tsr_shim_op_names(f->mlir, compare, &s);
    return s.found;
}

/* Compiles the invalid `text` and returns the text of the first diagnostic. */
static const char *diagnose(fixture *f, const char *text) {
    cr_assert_neq(fixture_parse(f, text).code, TSR_OK);
    cr_assert_gt(f->list.error_count, 0);
    return f->list.first->text;
}

/* The text that proposes the right name of a row. */
static const char *proposal(const row *r, char out_text[static 256]) {
    if (!r->right[0])
        snprintf(out_text, 256, "; %s", r->note);
    else
        snprintf(out_text, 256, "; did you mean 'tessera.%s'?%s%s", r->right,
                 r->note[0] ? " (" : "", r->note);
    return out_text;
}

Test(aliases, ops) {
    char text[512], right[256];
    for (size_t i = 0; i < TSR_COUNT(ops); i++) {
        fixture f;
        fixture_open(&f);
        cr_expect(!is_op(&f, ops[i].name), "tessera.%s is an op", ops[i].name);
        cr_expect(!ops[i].right[0] || is_op(&f, ops[i].right), "tessera.%s is not an op",
                  ops[i].right);
        for (size_t k = i + 1; k < TSR_COUNT(ops); k++)
            cr_expect_str_neq(ops[i].name, ops[k].name, "two rows");
        snprintf(text, sizeof text,
                 "func.func @f(%%a: tensor<4xf32>) {\n  %%0 = tessera.%s %%a : tensor<4xf32>\n"
                 "  return\n}\n",
                 ops[i].name);
        const char *said = diagnose(&f, text);
        cr_expect(strstr(said, proposal(&ops[i], right)), "'%s' has no '%s'", said, right);
        fixture_close(&f);
    }
}

Test(aliases, attributes) {
    char text[512], right[256];
    for (size_t i = 0; i < TSR_COUNT(attributes); i++) {
        fixture f;
        fixture_open(&f);
        snprintf(text, sizeof text,
                 "func.func @f() {\n  %%0 = tessera.param \"w\" init = #tessera.%s<1.0, 2.0> : "
                 "tensor<4xf32>\n  return\n}\n",
                 attributes[i].name);
        const char *said = diagnose(&f, text);
        cr_expect(strstr(said, proposal(&attributes[i], right)), "'%s' has no '%s'", said, right);
        fixture_close(&f);
    }
}

Test(aliases, types) {
    static const row more[] = {{"f33", "f32", ""}, {"bf18", "bf16", ""}};
    char text[512], right[256];
    for (size_t i = 0; i < TSR_COUNT(types) + TSR_COUNT(more); i++) {
        const row *r = i < TSR_COUNT(types) ? &types[i] : &more[i - TSR_COUNT(types)];
        fixture f;
        fixture_open(&f);
        snprintf(text, sizeof text, "func.func @f(%%a: tensor<4x%s>) {\n  return\n}\n", r->name);
        const char *said = diagnose(&f, text);
        snprintf(right, sizeof right, "; did you mean '%s'?", r->right);
        cr_expect(strstr(said, right), "'%s' has no '%s'", said, right);
        fixture_close(&f);
    }
}

/* The proposal for a name that is neither an op nor an alias. */
Test(aliases, similar_names) {
    static const row rows[] = {
        {"tessera.softmx_safe", "tessera.softmax_safe", ""},
        {"tessera.MatMul", "tessera.matmul", ""},
        {"add", "tessera.add", ""},
        {"tesera.add", "tessera.add", ""},
        {"tile.lod", "tile.load", ""},
        {"tessera.fft", NULL, ""},
        {"tessera.determinant", NULL, ""},
        {"tessera.load", NULL, ""}, /* ops of later stages are not proposed */
        {"tessera.relo", "tessera.relu", ""},
        {"torch.aten.mm", "tessera.matmul", ""},
    };
    char text[512], right[256];
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        fixture f;
        fixture_open(&f);
        snprintf(
            text, sizeof text,
            "func.func @f(%%a: tensor<4xf32>) {\n  %%0 = %s %%a : tensor<4xf32>\n  return\n}\n",
            rows[i].name);
        const char *said = diagnose(&f, text);
        snprintf(right, sizeof right, "; did you mean '%s'?", rows[i].right ? rows[i].right : "");
        if (rows[i].right)
            cr_expect(strstr(said, right), "'%s' has no '%s'", said, right);
        else
            cr_expect(!strstr(said, "did you mean"), "'%s' proposes something", said);
        fixture_close(&f);
    }
}
