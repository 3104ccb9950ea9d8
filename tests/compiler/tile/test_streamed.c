/* SPDX-License-Identifier: Apache-2.0
 *
 * Results too large for the caches are stored past them; their bits are the same as those of few
 * rows, which are stored normally.
 */
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 3, BYTES = 64 << 20, TEXT_MAX = 4096 };

typedef struct kernel {
    const char *name, *arguments, *types, *body; /* $: replaced by the shape, &: by rows */
    size_t others[2]; /* bytes of a row of the other arguments, 0: none */
} kernel;

static const kernel kernels[] = {
    {"map", "%x: tensor<$xf32>", "tensor<$xf32>", "%y = tessera.sigmoid %x : tensor<$xf32>\n", {0}},
    {"rows",
     "%x: tensor<$xf32>",
     "tensor<$xf32>",
     "%m = tessera.reduce_max %x {axes = [1]} : tensor<$xf32> -> tensor<&xf32>\n"
     "%n = tessera.reshape %m : tensor<&xf32> -> tensor<&x1xf32>\n"
     "%d = tessera.sub %x, %n : tensor<$xf32>, tensor<&x1xf32> -> tensor<$xf32>\n"
     "%e = tessera.exp %d : tensor<$xf32>\n"
     "%s = tessera.sum %e {axes = [1]} : tensor<$xf32> -> tensor<&xf32>\n"
     "%t = tessera.reshape %s : tensor<&xf32> -> tensor<&x1xf32>\n"
     "%y = tessera.div %e, %t : tensor<$xf32>, tensor<&x1xf32> -> tensor<$xf32>\n",
     {0}},
    {"cross_entropy_grad",
     "%x: tensor<$xf32>, %n: tensor<&xi64>, %d: tensor<&xf32>",
     "tensor<$xf32>",
     "%y = tessera.cross_entropy_grad %x, %n, %d : tensor<$xf32>, tensor<&xi64>, "
     "tensor<&xf32> -> tensor<$xf32>\n",
     {8, 4}},
};

typedef struct shape {
    size_t rows, columns;
} shape;

static char *put(char *to, const char *text, shape of) {
    for (; *text; text++) {
        if (*text == '$')
            to += sprintf(to, "%zux%zu", of.rows, of.columns);
        else if (*text == '&')
            to += sprintf(to, "%zu", of.rows);
        else
            *to++ = *text;
    }
    *to = 0;
    return to;
}

static void write_text(const kernel *k, shape of, char *text) {
    text = put(text, "tsched.func @f(", of);
    text = put(text, k->arguments, of);
    text = put(text, ") -> ", of);
    text = put(text, k->types, of);
    text += sprintf(text, " attributes {kind = \"%s\"} {\n", k->name);
    text = put(text, k->body, of);
    text = put(text, "tsched.return %y : ", of);
    text = put(text, k->types, of);
    put(text, "\n}", of);
}

static void find_attribute(MlirStringRef part, void *user) {
    /* The printer passes whole names. */
    if (memmem(part.data, part.length, "streamed", strlen("streamed"))) *(bool *)user = true;
}

static bool is_streamed(const built *b) {
    bool found = false;
    mlirOperationPrint(mlirModuleGetOperation(b->tile), find_attribute, &found);
    return found;
}

/* Every row of the arguments is a copy of the first one. */
static void fill(void *data, size_t row_bytes, size_t rows) {
    for (size_t i = 1; i < rows; i++) memcpy((char *)data + i * row_bytes, data, row_bytes);
}

/* Returns the number of targets. Buffers end at the end of a page: with odd shapes they begin
 * within a cache line. */
static size_t run(const kernel *k, shape of, float *const *results, bool streamed) {
    char text[TEXT_MAX];
    fixture f = {0};
    argument arguments[4];
    size_t count = 0;
    write_text(k, of, text);
    fixture_open(&f, text);
    for (; count < 3 && (!count || k->others[count - 1]); count++) {
        random_state random = {count + 1};
        size_t row_bytes = count ? k->others[count - 1] : of.columns * 4;
        void *data = malloc(of.rows * row_bytes);
        if (row_bytes == 8)
            *(int64_t *)data = 17;
        else
            random_fill(&random, TSR_DTYPE_F32, data, row_bytes / 4, -3, 3);
        fill(data, row_bytes, of.rows);
        arguments[count] = (argument){data, of.rows * row_bytes};
    }
    arguments[count] = (argument){NULL, of.rows * of.columns * 4};
    for (size_t i = 0; i < f.built_count; i++) {
        void *const outs[] = {results[i]};
        tsr_fault fault =
            kernel_run(&f.built[i], "f", arguments, count + 1, SPLIT_REVERSED, GUARD_END, outs);
        cr_assert(fault.kind == TSR_FAULT_NONE);
        if (f.built[i].target->vector_bytes > 16)
            cr_assert(is_streamed(&f.built[i]) == streamed, "%s %s of %zu rows", k->name,
                      f.built[i].target->name, of.rows);
    }
    for (size_t i = 0; i < count; i++) free((void *)(uintptr_t)arguments[i].bytes);
    size_t targets = f.built_count;
    fixture_close(&f);
    return targets;
}

static void test_kernel(const kernel *k, size_t columns, bool streamed) {
    float *few[TARGETS_MAX], *many[TARGETS_MAX];
    size_t rows = BYTES / (columns * 4), row_bytes = columns * sizeof(float);
    for (size_t i = 0; i < TARGETS_MAX; i++) { /* untouched pages take no memory */
        few[i] = calloc(FEW, row_bytes);
        many[i] = calloc(rows, row_bytes);
    }
    size_t targets = run(k, (shape){FEW, columns}, few, false);
    cr_assert(run(k, (shape){rows, columns}, many, streamed) == targets);
    for (size_t i = 0; i < targets; i++)
        for (size_t row = 0; row < rows; row++)
            cr_assert(memcmp(many[i] + row * columns, few[i], row_bytes) == 0,
                      "%s, target %zu, row %zu", k->name, i, row);
    for (size_t i = 0; i < TARGETS_MAX; i++) {
        free(few[i]);
        free(many[i]);
    }
}

Test(streamed, map) { test_kernel(&kernels[0], 4096, true); }
Test(streamed, rows) { test_kernel(&kernels[1], 4096, true); }
Test(streamed, cross_entropy_grad) { test_kernel(&kernels[2], 4096, true); }
/* Cache lines begin within rows. */
Test(streamed, map_shifted) { test_kernel(&kernels[0], 4099, true); }
Test(streamed, rows_shifted) { test_kernel(&kernels[1], 4099, true); }
Test(streamed, cross_entropy_grad_shifted) { test_kernel(&kernels[2], 4099, true); }
/* Rows are so short that too many cache lines belong to two rows. */
Test(streamed, rows_short) { test_kernel(&kernels[1], 101, false); }
