/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of several segments: groups of kind "batch", and tile.segment alone, against plain C.
 */
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENTS = 3, LARGEST = 9001, ARGUMENTS = 2 * SEGMENTS + 1 + 2 * SEGMENTS };
static const size_t counts[SEGMENTS] = {LARGEST, 4096, 5};

typedef struct data {
    float x[SEGMENTS][LARGEST], y[SEGMENTS][LARGEST], scale;
    float sums[SEGMENTS][LARGEST];
    uint16_t products[SEGMENTS][LARGEST];
} data;

/* Rounds to the nearest bf16, ties to even; only for finite numbers. */
static uint16_t to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* For each segment: sum = x + y, product = x * scale as bf16. */
static const char *write_batch(char *out, size_t size) {
    size_t at = (size_t)snprintf(out, size, "tsched.func @batch(");
    const char *comma = "";
    for (int p = 0; p < SEGMENTS; p++)
        at += (size_t)snprintf(out + at, size - at,
                               "%%x%d: tensor<%zuxf32>, %%y%d: tensor<%zuxf32>, ", p, counts[p], p,
                               counts[p]);
    at += (size_t)snprintf(out + at, size - at, "%%s: tensor<f32>) -> (");
    for (int p = 0; p < SEGMENTS; p++, comma = ", ")
        at += (size_t)snprintf(out + at, size - at, "%stensor<%zuxf32>, tensor<%zuxbf16>", comma,
                               counts[p], counts[p]);
    at += (size_t)snprintf(out + at, size - at,
                           ") attributes {kind = \"batch\", source = \"default\", flops = 0 : i64, "
                           "bytes = 0 : i64, tile.segments = [%d, 2]} {\n",
                           SEGMENTS);
    for (int p = 0; p < SEGMENTS; p++)
        at += (size_t)snprintf(
            out + at, size - at,
            "  %%a%d = tessera.add %%x%d, %%y%d : tensor<%zuxf32>, tensor<%zuxf32> -> "
            "tensor<%zuxf32>\n"
            "  %%m%d = tessera.mul %%x%d, %%s : tensor<%zuxf32>, tensor<f32> -> tensor<%zuxf32>\n"
            "  %%b%d = tessera.cast %%m%d : tensor<%zuxf32> to tensor<%zuxbf16>\n",
            p, p, p, counts[p], counts[p], counts[p], p, p, counts[p], counts[p], p, p, counts[p],
            counts[p]);
    at += (size_t)snprintf(out + at, size - at, "  tsched.return ");
    comma = "";
    for (int p = 0; p < SEGMENTS; p++, comma = ", ")
        at += (size_t)snprintf(out + at, size - at, "%s%%a%d, %%b%d", comma, p, p);
    at += (size_t)snprintf(out + at, size - at, " : ");
    comma = "";
    for (int p = 0; p < SEGMENTS; p++, comma = ", ")
        at += (size_t)snprintf(out + at, size - at, "%stensor<%zuxf32>, tensor<%zuxbf16>", comma,
                               counts[p], counts[p]);
    snprintf(out + at, size - at, "\n}\n");
    return out;
}

Test(segment, batch) {
    fixture f = {0};
    random_state random = {17};
    static data wanted, got;
    static char text[8192];
    argument arguments[ARGUMENTS];
    void *outputs[2 * SEGMENTS];
    size_t at = 0;
    wanted.scale = 1.7f;
    for (int p = 0; p < SEGMENTS; p++) {
        random_fill(&random, TSR_DTYPE_F32, wanted.x[p], counts[p], -1, 1);
        random_fill(&random, TSR_DTYPE_F32, wanted.y[p], counts[p], -1, 1);
        arguments[at++] = (argument){wanted.x[p], 4 * counts[p]};
        arguments[at++] = (argument){wanted.y[p], 4 * counts[p]};
    }
    arguments[at++] = (argument){&wanted.scale, sizeof wanted.scale};
    for (size_t p = 0; p < SEGMENTS; p++) {
        arguments[at++] = (argument){NULL, 4 * counts[p]};
        arguments[at++] = (argument){NULL, 2 * counts[p]};
        outputs[2 * p] = got.sums[p];
        outputs[2 * p + 1] = got.products[p];
        for (size_t i = 0; i < counts[p]; i++) {
            wanted.sums[p][i] = wanted.x[p][i] + wanted.y[p][i];
            wanted.products[p][i] = to_bf16(wanted.x[p][i] * wanted.scale);
        }
    }
    fixture_open(&f, write_batch(text, sizeof text));
    kernel_test(&f, "batch", arguments, ARGUMENTS, outputs, NULL, NULL);
    for (size_t p = 0; p < SEGMENTS; p++) {
        cr_assert_arr_eq(got.sums[p], wanted.sums[p], 4 * counts[p]);
        cr_assert_arr_eq(got.products[p], wanted.products[p], 2 * counts[p]);
    }
    fixture_close(&f);
}
