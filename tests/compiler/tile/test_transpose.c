/* SPDX-License-Identifier: Apache-2.0
 *
 * Transposes and reshapes move every element to its position, for all types and shapes.
 */
#include "runtime/base/array.h"
#include "tests/compiler/tile/harness.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct move {
    tsr_dtype dtype;
    tsr_shape from;
    int64_t permutation[TSR_RANK_MAX];
} move;

static void test(const move *t) {
    tsr_shape to = {.rank = t->from.rank};
    uint64_t count = 0;
    size_t size = tsr_dtype_size(t->dtype), strides[TSR_RANK_MAX], stride = 1;
    char in[TSR_TYPE_TEXT_MAX], out[TSR_TYPE_TEXT_MAX], order[128] = "";
    cr_assert(tsr_shape_count(&t->from, &count));
    for (uint32_t d = t->from.rank; d-- > 0;) {
        strides[d] = stride;
        stride *= t->from.dims[d];
    }
    for (uint32_t d = 0; d < to.rank; d++) {
        to.dims[d] = t->from.dims[t->permutation[d]];
        snprintf(order + strlen(order), sizeof order - strlen(order), "%s%" PRId64, d ? ", " : "",
                 t->permutation[d]);
    }
    tsr_type_format(t->dtype, &t->from, in);
    tsr_type_format(t->dtype, &to, out);
    tsr_buffer text = {0};
    tsr_buffer_printf(&text,
                      "tsched.func @g(%%x: tensor<%s>) -> tensor<%s> attributes {kind = \"map\"} "
                      "{\n%%y = tessera.transpose %%x {permutation = [%s]} : tensor<%s> -> "
                      "tensor<%s>\ntsched.return %%y : tensor<%s>\n}",
                      in, out, order, in, out, out);
    fixture f = {0};
    fixture_open(&f, text.bytes);
    unsigned char *x = malloc(count * size), *y = malloc(count * size);
    random_state random = {count};
    for (size_t i = 0; i < count * size; i++)
        x[i] = (unsigned char)(t->dtype == TSR_DTYPE_I1 ? random_u64(&random) & 1
                                                        : random_u64(&random));
    void *outs[] = {y};
    argument arguments[] = {{x, count * size}, {NULL, count * size}};
    kernel_test(&f, "g", arguments, 2, outs, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        size_t left = i, from = 0;
        for (uint32_t d = to.rank; d-- > 0; left /= to.dims[d])
            from += left % to.dims[d] * strides[t->permutation[d]];
        cr_assert(memcmp(y + i * size, x + from * size, size) == 0, "%s [%s] element %zu", in,
                  order, i);
    }
    free(x);
    free(y);
    tsr_buffer_finish(&text);
    fixture_close(&f);
}

Test(transpose, permutations) {
    static const move moves[] = {
        {TSR_DTYPE_F32, {2, {1, 1}}, {1, 0}},
        {TSR_DTYPE_F32, {2, {64, 128}}, {1, 0}},
        {TSR_DTYPE_F32, {2, {67, 33}}, {1, 0}},
        {TSR_DTYPE_F32, {2, {3, 1000}}, {1, 0}},
        {TSR_DTYPE_F32, {2, {1000, 3}}, {1, 0}},
        {TSR_DTYPE_F64, {2, {41, 19}}, {1, 0}},
        {TSR_DTYPE_I64, {3, {5, 7, 11}}, {2, 0, 1}},
        {TSR_DTYPE_I32, {3, {5, 7, 11}}, {0, 2, 1}},
        {TSR_DTYPE_F32, {3, {5, 7, 11}}, {1, 0, 2}},
        {TSR_DTYPE_UI8, {2, {70, 45}}, {1, 0}},
        {TSR_DTYPE_I1, {3, {9, 20, 17}}, {2, 1, 0}},
        {TSR_DTYPE_F32, {4, {2, 3, 16, 32}}, {0, 3, 1, 2}},
        {TSR_DTYPE_F32, {8, {2, 3, 1, 4, 2, 3, 2, 5}}, {7, 2, 0, 5, 1, 6, 4, 3}},
        {TSR_DTYPE_F32, {3, {1, 17, 1}}, {2, 0, 1}},
        {TSR_DTYPE_F32, {0, {0}}, {0}},
    };
    for (size_t i = 0; i < TSR_COUNT(moves); i++) test(&moves[i]);
}

Test(transpose, reshape) {
    static const tsr_dtype dtypes[] = {TSR_DTYPE_F64, TSR_DTYPE_F32, TSR_DTYPE_I1, TSR_DTYPE_UI8};
    for (size_t d = 0; d < 4; d++) {
        const char *name = tsr_dtype_name(dtypes[d]);
        size_t size = 91 * 77 * tsr_dtype_size(dtypes[d]);
        tsr_buffer text = {0};
        tsr_buffer_printf(&text,
                          "tsched.func @g(%%x: tensor<91x77x%s>) -> tensor<7x1001x%s> attributes "
                          "{kind = \"map\"} {\n%%y = tessera.reshape %%x : tensor<91x77x%s> -> "
                          "tensor<7x1001x%s>\ntsched.return %%y : tensor<7x1001x%s>\n}",
                          name, name, name, name, name);
        fixture f = {0};
        fixture_open(&f, text.bytes);
        random_state random = {d};
        unsigned char *x = malloc(size), *y = malloc(size);
        for (size_t i = 0; i < size; i++) x[i] = (unsigned char)random_u64(&random);
        void *outs[] = {y};
        argument arguments[] = {{x, size}, {NULL, size}};
        kernel_test(&f, "g", arguments, 2, outs, NULL, NULL);
        cr_assert(memcmp(x, y, size) == 0);
        free(x);
        free(y);
        tsr_buffer_finish(&text);
        fixture_close(&f);
    }
}
