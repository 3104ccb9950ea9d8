/* SPDX-License-Identifier: Apache-2.0
 *
 * Results too large for caches are stored past them: the same bits as of few rows, which are not.
 */
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 4096, FEW = 3, MANY = (64 << 20) / (COLUMNS * 4), TEXT_MAX = 4096 };

typedef struct kernel {
    const char *name, *arguments, *types, *body; /* $ stands for the number of rows */
    size_t row_bytes[3];                         /* of each argument, 0: no more */
} kernel;

static const kernel kernels[] = {
    {"map",
     "%x: tensor<$x4096xf32>",
     "tensor<$x4096xf32>",
     "%y = tessera.sigmoid %x : tensor<$x4096xf32>\n",
     {COLUMNS * 4}},
    {"rows",
     "%x: tensor<$x4096xf32>",
     "tensor<$x4096xf32>",
     "%m = tessera.reduce_max %x {axes = [1]} : tensor<$x4096xf32> -> tensor<$xf32>\n"
     "%n = tessera.reshape %m : tensor<$xf32> -> tensor<$x1xf32>\n"
     "%d = tessera.sub %x, %n : tensor<$x4096xf32>, tensor<$x1xf32> -> tensor<$x4096xf32>\n"
     "%e = tessera.exp %d : tensor<$x4096xf32>\n"
     "%s = tessera.sum %e {axes = [1]} : tensor<$x4096xf32> -> tensor<$xf32>\n"
     "%t = tessera.reshape %s : tensor<$xf32> -> tensor<$x1xf32>\n"
     "%y = tessera.div %e, %t : tensor<$x4096xf32>, tensor<$x1xf32> -> tensor<$x4096xf32>\n",
     {COLUMNS * 4}},
    {"cross_entropy_grad",
     "%x: tensor<$x4096xf32>, %n: tensor<$xi64>, %d: tensor<$xf32>",
     "tensor<$x4096xf32>",
     "%y = tessera.cross_entropy_grad %x, %n, %d : tensor<$x4096xf32>, tensor<$xi64>, "
     "tensor<$xf32> -> tensor<$x4096xf32>\n",
     {COLUMNS * 4, 8, 4}},
};

static char *put(char *to, const char *text, size_t rows) {
    for (; *text; text++) {
        if (*text == '$')
            to += sprintf(to, "%zu", rows);
        else
            *to++ = *text;
    }
    *to = 0;
    return to;
}

static void write_text(const kernel *k, size_t rows, char *text) {
    text = put(text, "tsched.func @f(", rows);
    text = put(text, k->arguments, rows);
    text = put(text, ") -> ", rows);
    text = put(text, k->types, rows);
    text += sprintf(text, " attributes {kind = \"%s\"} {\n", k->name);
    text = put(text, k->body, rows);
    text = put(text, "tsched.return %y : ", rows);
    text = put(text, k->types, rows);
    put(text, "\n}", rows);
}

static void find_attribute(MlirStringRef part, void *user) {
    /* The printer hands out whole names. */
    if (memmem(part.data, part.length, "streamed", strlen("streamed"))) *(bool *)user = true;
}

static bool is_streamed(const built *b) {
    bool found = false;
    mlirOperationPrint(mlirModuleGetOperation(b->tile), find_attribute, &found);
    return found;
}

/* Every row of the arguments is the first one again. */
static void fill(void *data, size_t row_bytes, size_t rows) {
    for (size_t i = 1; i < rows; i++) memcpy((char *)data + i * row_bytes, data, row_bytes);
}

/* The number of targets. */
static size_t run(const kernel *k, size_t rows, float *const *results, bool streamed) {
    char text[TEXT_MAX];
    fixture f = {0};
    argument arguments[4];
    size_t count = 0;
    write_text(k, rows, text);
    fixture_open(&f, text);
    for (; count < 3 && k->row_bytes[count]; count++) {
        random_state random = {count + 1};
        void *data = malloc(rows * k->row_bytes[count]);
        if (k->row_bytes[count] == 8)
            *(int64_t *)data = 17;
        else
            random_fill(&random, TSR_DTYPE_F32, data, k->row_bytes[count] / 4, -3, 3);
        fill(data, k->row_bytes[count], rows);
        arguments[count] = (argument){data, rows * k->row_bytes[count]};
    }
    arguments[count] = (argument){NULL, rows * COLUMNS * 4};
    for (size_t i = 0; i < f.built_count; i++) {
        void *const outs[] = {results[i]};
        tsr_fault fault =
            kernel_run(&f.built[i], "f", arguments, count + 1, SPLIT_REVERSED, GUARD_END, outs);
        cr_assert(fault.kind == TSR_FAULT_NONE);
        if (f.built[i].target->vector_bytes > 16)
            cr_assert(is_streamed(&f.built[i]) == streamed, "%s %s of %zu rows", k->name,
                      f.built[i].target->name, rows);
    }
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)arguments[i].bytes);
    size_t targets = f.built_count;
    fixture_close(&f);
    return targets;
}

static void test_kernel(const kernel *k) {
    float *few[TARGETS_MAX], *many[TARGETS_MAX];
    for (size_t i = 0; i < TARGETS_MAX; i++) { /* pages that nothing touches cost nothing */
        few[i] = calloc(FEW * COLUMNS, sizeof(float));
        many[i] = calloc((size_t)MANY * COLUMNS, sizeof(float));
    }
    size_t targets = run(k, FEW, few, false);
    cr_assert(run(k, MANY, many, true) == targets);
    for (size_t i = 0; i < targets; i++)
        for (size_t row = 0; row < MANY; row++)
            cr_assert(memcmp(many[i] + row * COLUMNS, few[i], COLUMNS * sizeof(float)) == 0,
                      "%s, target %zu, row %zu", k->name, i, row);
    for (size_t i = 0; i < TARGETS_MAX; i++) {
        free(few[i]);
        free(many[i]);
    }
}

Test(streamed, map) { test_kernel(&kernels[0]); }
Test(streamed, rows) { test_kernel(&kernels[1]); }
Test(streamed, cross_entropy_grad) { test_kernel(&kernels[2]); }
